"""The choice of structures by evidence: what is compared, what is left, and what is not asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pcegp import PCEGPRegressor
from pcegp.errors import NumericalWarning, SettingError
from pcegp.estimators import resolve
from pcegp.estimators.presets import COVARIANCE_SETS
from pcegp.estimators.regressor import _Processes
from pcegp.inference import Averaged
from pcegp.inference.exact import ExactLikelihood
from pcegp.kernels import SCALES
from pcegp.preprocessing import MONOTONE
from pcegp.training import PATH, ElasticNet, Form, Strengths, fit_by_evidence, selection
from pcegp.training.evidence import Evidence
from pcegp.training.quasi_newton import Optimum
from pcegp.training.structures import Candidate, Structure, weighed
from small_models import make_data

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (40, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=40)
NEW = RNG.uniform(0.1, 0.9, (9, 2))
#: One structure; open what a test is about.
FIXED = {"covariance": "matern52", "input_map": "linear", "target_map": "linear",
         "noise": "constant", "penalty": 1.0, "degree": 1}


def fitted(inputs=X, target=Y, **changes):
    return PCEGPRegressor(**{**FIXED, **changes}).fit(inputs, target)


def members(model):
    return model.fit_info_["members"]


@pytest.fixture(scope="module")
def free():
    return PCEGPRegressor(degree=1).fit(X, Y)


def test_weights_of_the_members_add_up_to_one_and_the_first_is_the_largest(free):
    weights = [member["weight"] for member in members(free)]
    assert len(weights) > 1
    assert sum(weights) == pytest.approx(1.0, rel=1e-12)
    assert weights == sorted(weights, reverse=True)
    assert min(weights) > 0.0
    posterior = free.model_.outputs[0].posterior
    assert isinstance(posterior, Averaged)
    np.testing.assert_array_equal(posterior.weights, weights)
    assert posterior.members[0] is free.model_.outputs[0].base


def test_every_member_was_compared_and_none_better_was_left_out(free):
    """But for a noise that varies, which must be so much better that it earns its place."""
    compared = [each for each in free.fit_info_["compared"] if each["log_evidence"] is not None]
    evidences = [each["log_evidence"] for each in compared]
    for member in members(free):
        assert member["log_evidence"] in evidences
    first = members(free)[0]
    rivals = [each["log_evidence"] for each in compared
              if all(each[name] == first[name] for name in ("noise_degree", "noise_penalty"))]
    assert first["log_evidence"] == max(rivals)
    gain = selection._NOISE_GAIN * selection._TEMPERATURE_OF_A_ROW * len(Y)
    assert first["log_evidence"] > max(evidences) - gain


def found_with(*log_evidences):
    """Candidates of one form each, with some evidences."""
    return [
        Candidate(
            Structure(Form(("matern52",), f"map {number}", 0), Strengths()), np.zeros(1),
            Optimum(np.zeros(1), -value, np.zeros(1), 0.0, 1, False), Evidence(value, 1.0), {})
        for number, value in enumerate(log_evidences)
    ]


@pytest.mark.parametrize("others", [(), (-1.0,), (0.0, -1.0)])
def test_no_member_comes_or_goes_with_a_jump(others):
    """Of a candidate that becomes better and better, from nothing to as good as the best."""
    weights = []
    for value in np.linspace(-20.0, 0.0, 2001):
        found = found_with(value, 0.0, *others)
        chosen, each = weighed(found, 1.0)
        assert each.sum() == pytest.approx(1.0, rel=1e-12)
        assert (np.diff(each) <= 1e-15).all()
        assert (each > 0.0).all()
        weights.append([sum(w for m, w in zip(chosen, each, strict=True) if m is one)
                        for one in found])
    steps = np.diff(weights, axis=0)
    assert np.abs(steps).max() < 0.005
    assert (steps[:, 0] >= 0.0).all()
    assert weights[0][0] == 0.0
    assert weights[-1][0] == pytest.approx(weights[-1][1], rel=1e-12)


def test_where_no_optimum_was_reached_the_least_loss_is_the_model():
    found = found_with(-np.inf, -np.inf, -np.inf)
    for each, loss in zip(found, (3.0, 1.0, 2.0), strict=True):
        object.__setattr__(each.optimum, "loss", loss)
    members, weights = weighed(found, 1.0)
    assert members == [found[1]]
    assert weights.tolist() == [1.0]


@pytest.mark.parametrize(("before", "after"), [(0, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("scale", SCALES)
def test_what_is_carried_to_another_noise_has_the_same_likelihood(scale, before, after):
    """A noise that is constant; the terms of its expansion come and go."""
    settings = resolve(PCEGPRegressor(**FIXED, scale=scale).get_params())
    data = make_data(X - 0.5, (Y - Y.mean()) / Y.std())
    make_process = _Processes(settings, data.X, np.ones(40), None)
    chosen = selection.Selection(make_process, data, settings.scales(2), settings.choices(2),
                                  settings.options, np.random.default_rng(0), None)
    one = Structure(Form(("matern52",), "linear", before), Strengths(1.0, 1.0))
    (start,) = found_with(0.0)
    with chosen._objective(data, one) as objective:
        theta = objective.theta(0.5 * np.random.default_rng(1).normal(size=objective.size))
        process = objective.likelihood.process
        process.parameters(theta).noise[~process.noise_basis.is_constant] = 0.0
        expected = objective.likelihood(theta).nll
    other = one.with_noise(after, 0.3)
    with chosen._objective(data, other) as objective:
        w = chosen._carried(replace(start, structure=one, theta=theta), objective, other)
        found = objective.theta(w)
        noise = objective.likelihood.process.parameters(found).noise
        np.testing.assert_allclose(np.sort(np.abs(noise))[:-1], 0.0, atol=1e-9)
        assert objective.likelihood(found).nll == pytest.approx(expected, rel=1e-8)


def test_all_maps_and_covariances_are_compared(free):
    stationary = [each for each in free.fit_info_["compared"]
                  if each["penalty"] is None and each["noise_degree"] == 0]
    found = {(tuple(each["covariance"]), each["input_map"]) for each in stationary
             if each["target_bend"] == 0.0}
    assert found == {(names, name) for names in COVARIANCE_SETS for name in MONOTONE}


def test_prediction_is_the_weighted_average_of_the_members(free):
    out = free.model_.outputs[0]
    scaled = free.model_.inputs.transform(NEW)
    each = [out.target.mean(member.mean(scaled)) for member in out.posterior.members]
    np.testing.assert_allclose(free.predict(NEW), out.posterior.weights @ each, rtol=1e-10)


@pytest.mark.parametrize("changes", [
    {}, {"input_map": "power"}, {"input_map": "asinh"}, {"noise": "expansion"},
    {"noise": "none"}, {"degree": 0, "penalty": "auto"}, {"covariance": ["matern32", "matern52"]},
])
def test_settings_without_a_choice_leave_one_member(changes):
    model = fitted(**changes)
    settings = {**FIXED, **changes}
    (member,) = members(model)
    assert model.fit_info_["compared"] == [{**member, "weight": 0.0}]
    assert member["weight"] == 1.0
    assert member["input_map"] == settings["input_map"]
    assert member["noise_degree"] == (settings["noise"] == "expansion")
    assert member["penalty"] == (settings["penalty"] if settings["degree"] else None)
    names = settings["covariance"]
    assert member["covariance"] == ([names] if isinstance(names, str) else names)
    out = model.model_.outputs[0]
    assert out.posterior is out.base
    assert out.base.process.input_map.name == settings["input_map"]
    assert out.base.process.noise_basis.degree == member["noise_degree"]


@pytest.mark.parametrize("name", ["covariance", "input_map", "target_map", "noise", "penalty"])
def test_only_what_is_left_open_differs_between_structures(name):
    model = fitted(**{name: "auto"})
    fields = {"covariance": ["covariance"], "input_map": ["input_map"], "penalty": ["penalty"],
              "target_map": ["target_bend", "penalty"],
              "noise": ["noise_degree", "noise_penalty"]}[name]
    compared = model.fit_info_["compared"]
    assert len(compared) > 1 or name == "noise"
    for each in compared:
        for field in {"covariance", "input_map", "target_bend", "penalty",
                      "noise_degree"} - {*fields}:
            assert each[field] == compared[0][field]


def test_the_logarithm_of_a_target_is_found_with_its_origin():
    rng = np.random.default_rng(4)
    x = rng.uniform(size=(80, 2))
    process = np.sin(6.0 * x[:, 0]) + 2.0 * x[:, 1] + 0.1 * rng.normal(size=80)
    linear = fitted(x, process, target_map="auto")
    assert members(linear)[0]["target_bend"] == 0.0
    model = fitted(x, 7.0 + np.exp(2.0 * process), target_map="auto")
    assert members(model)[0]["target_bend"] >= 10.0
    target_map = model.model_.outputs[0].target_map
    origin = target_map.lowest - (target_map.highest - target_map.lowest) / target_map.bend
    assert model.model_.outputs[0].target.mean(np.array(origin)) == pytest.approx(7.0, abs=5.0)
    mirrored = fitted(x, -np.exp(2.0 * process), target_map="auto")
    assert members(mirrored)[0]["target_bend"] == -members(model)[0]["target_bend"]
    assert mirrored.predict(x) + 7.0 == pytest.approx(14.0 - model.predict(x), rel=1e-3)


def test_two_values_have_no_bend():
    y = np.zeros(40)
    y[5] = 1.0
    assert {each["target_bend"] for each in fitted(X, y, target_map="auto").fit_info_["compared"]
            } == {0.0}


def test_copies_of_rows_and_their_weights_lead_to_the_same_map():
    rng = np.random.default_rng(6)
    x = rng.uniform(size=(50, 1))
    y = np.exp(np.sin(6.0 * x[:, 0]) + 0.1 * rng.normal(size=50))
    counts = rng.integers(1, 4, size=50)
    weighted = PCEGPRegressor(**{**FIXED, "target_map": "auto"}).fit(x, y, sample_weight=counts)
    copied = fitted(np.repeat(x, counts, axis=0), np.repeat(y, counts), target_map="auto")
    assert members(weighted)[0]["target_bend"] == members(copied)[0]["target_bend"] > 0.0
    np.testing.assert_allclose(copied.predict(x), weighted.predict(x), rtol=1e-5)


def test_the_unit_of_the_target_does_not_change_its_map():
    rng = np.random.default_rng(5)
    x = rng.uniform(size=(50, 1))
    y = np.exp(np.sin(6.0 * x[:, 0]) + 0.1 * rng.normal(size=50))
    one, other = fitted(x, y, target_map="auto"), fitted(x, 32.0 * y - 459.0, target_map="auto")
    assert members(one)[0]["target_bend"] == members(other)[0]["target_bend"] > 0.0
    np.testing.assert_allclose(other.predict(x), 32.0 * one.predict(x) - 459.0, rtol=1e-6)


def test_skewed_inputs_are_spread():
    rng = np.random.default_rng(1)
    skewed = np.exp(2.0 * rng.normal(size=(60, 1)))
    y = np.sin(2.0 * np.log(skewed[:, 0])) + 0.1 * rng.normal(size=60)
    model = fitted(skewed, y, input_map="auto")
    assert members(model)[0]["input_map"] != "linear"
    assert model.score(skewed, y) > fitted(skewed, y).score(skewed, y)


def test_a_stationary_function_keeps_a_stationary_member():
    x = np.linspace(0, 1, 60)[:, None]
    y = np.sin(20 * x[:, 0]) + 0.1 * np.random.default_rng(2).normal(size=60)
    model = fitted(x, y, penalty="auto", degree=3)
    assert members(model)[0]["penalty"] is None
    assert np.ptp(model.local_scale(x)) < 1e-12
    found = [each["penalty"] for each in model.fit_info_["compared"]]
    assert found == [None, *PATH][: len(found)]  # from a strong prior to weaker ones


def test_a_function_that_changes_its_character_has_a_scale_that_varies():
    x = np.linspace(0, 1, 60)[:, None]
    y = np.sin(40 * x[:, 0] ** 3) + 0.05 * np.random.default_rng(2).normal(size=60)
    model = fitted(x, y, penalty="auto", degree=3)
    assert members(model)[0]["penalty"] in PATH
    scale = model.local_scale(x)[0, 0]
    assert scale[-1] > 1.5 * scale[0]


def test_noise_that_varies_is_seen_and_constant_noise_stays_so():
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(150, 1))
    unit = rng.normal(size=150)
    varying = fitted(x, np.sin(6 * x[:, 0]) + np.exp(3 * x[:, 0] - 4) * unit, noise="auto")
    assert members(varying)[0]["noise_degree"] > 0
    low, high = varying.noise_variance(np.array([[0.1], [0.9]]))
    assert high > 10 * low
    constant = fitted(x, np.sin(6 * x[:, 0]) + 0.2 * unit, noise="auto")
    assert members(constant)[0]["noise_degree"] == 0


def test_known_data_without_noise_have_none():
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    model = fitted(target=y, noise="none")
    np.testing.assert_allclose(model.predict(X), y, atol=1e-5)
    assert model.noise_variance(NEW).max() < 1e-7 * y.var()


def test_equal_seeds_give_equal_fits(free):
    again = PCEGPRegressor(degree=1).fit(X, Y)
    assert again.fit_info_ == free.fit_info_
    for one, other in zip(free.predict(NEW, return_std=True), again.predict(NEW, return_std=True),
                          strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def sizes(monkeypatch):
    """The number of rows of every likelihood that is asked for."""
    seen, original = [], ExactLikelihood.__call__

    def counting(self, theta):
        seen.append(len(self.data.y))
        return original(self, theta)

    monkeypatch.setattr(ExactLikelihood, "__call__", counting)
    return seen


@pytest.mark.parametrize("changes", [{}, {"penalty": "auto"}])
def test_many_rows_are_compared_on_some_and_trained_on_all(sizes, monkeypatch, changes):
    """One structure, too, is found on some rows, which is a good start and costs little."""
    monkeypatch.setattr(selection, "_COMPARED_ROWS", 25)
    model = fitted(**changes)
    switch = sizes.index(40)
    assert set(sizes[:switch]) == {25}
    assert set(sizes[switch:]) == {40}
    assert all(len(each.data.y) == 40 for each in _members_of(model))
    again = fitted(**changes)
    np.testing.assert_array_equal(model.predict(NEW), again.predict(NEW))
    assert (fitted(**changes, random_state=1).predict(NEW) != model.predict(NEW)).any()


def _members_of(model):
    out = model.model_.outputs[0]
    return getattr(out.posterior, "members", (out.base,))


def test_a_column_that_is_constant_in_the_rows_that_are_compared_is_no_hindrance(monkeypatch):
    spreads, original = {}, ExactLikelihood.__call__

    def noting(self, theta):
        spreads[len(self.data.y)] = np.ptp(self.data.X[:, 2])
        return original(self, theta)

    monkeypatch.setattr(ExactLikelihood, "__call__", noting)
    monkeypatch.setattr(selection, "_COMPARED_ROWS", 25)
    inputs = np.c_[X, np.zeros(40)]
    inputs[2, 2] = 1.0
    model = fitted(inputs, input_map="auto", noise="auto", penalty="auto")
    assert spreads[25] == 0.0 < spreads[40]
    compared = model.fit_info_["compared"]
    assert {each["input_map"] for each in compared} == set(MONOTONE)
    assert all(each["log_evidence"] is not None for each in compared)
    assert model.score(inputs, Y) > 0.9


def test_of_a_wide_table_a_row_of_weight_two_chooses_the_inputs_that_two_rows_choose():
    rng = np.random.default_rng(6)
    inputs = rng.uniform(size=(24, 16))
    target = np.sin(5 * inputs[:, 0]) + inputs[:, 1] + 0.1 * rng.normal(size=24)
    weights = np.repeat([0.0, 1.0, 2.0, 3.0], 6)
    rows = np.repeat(np.arange(24), weights.astype(int))
    settings = {**FIXED, "noise_floor": 1e-2}
    weighted = PCEGPRegressor(**settings).fit(inputs, target, sample_weight=weights)
    repeated = fitted(inputs[rows], target[rows], noise_floor=1e-2)
    chosen = members(weighted)[0]["varying"]
    assert 0 < len(chosen) < 16
    assert members(repeated)[0]["varying"] == chosen
    for one, other in zip(weighted.predict(inputs[6:], return_std=True),
                          repeated.predict(inputs[6:], return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_few_rows_are_all_seen_at_once(sizes):
    fitted(penalty="auto")
    assert set(sizes) == {40}


@pytest.mark.parametrize("changes", [{}, {"penalty": "auto"}, {"input_map": "auto"}])
def test_the_history_is_that_of_the_first_members_last_optimum(monkeypatch, changes):
    monkeypatch.setattr(selection, "_lost_freedom", lambda *_: 1.0)  # what follows the optimum
    model = fitted(**changes)
    assert all(len(values) == model.n_iter_ + 1 for values in model.history_.values())
    assert model.history_["nll"][-1] == pytest.approx(-model.log_marginal_likelihood_, rel=1e-9)
    assert (np.diff(model.history_["loss"]) < 0).all()
    assert model.fit_info_["converged"]


@pytest.mark.parametrize("changes", [{}, {"noise": "expansion"}])
def test_lost_degrees_of_freedom_widen_all_variances_and_move_no_mean(monkeypatch, changes):
    wide = fitted(noise_floor=0.0, **changes)
    n_parameters = np.count_nonzero(wide.model_.outputs[0].base.theta)
    monkeypatch.setattr(selection, "_lost_freedom", lambda *_: 1.0)
    plain = fitted(noise_floor=0.0, **changes)
    (mean, std), (same, narrow) = (each.predict(NEW, return_std=True) for each in (wide, plain))
    np.testing.assert_allclose(mean, same, rtol=1e-7)
    ratio = (std[0] / narrow[0]) ** 2
    assert 1.0 < ratio < (40 + n_parameters) / (40 - n_parameters)
    np.testing.assert_allclose((std / narrow) ** 2, ratio, rtol=1e-7)
    np.testing.assert_allclose(wide.noise_variance(NEW), ratio * plain.noise_variance(NEW),
                               rtol=1e-7)
    np.testing.assert_array_equal(wide.local_scale(NEW), plain.local_scale(NEW))


def test_at_least_half_of_the_rows_keep_their_freedom():
    data = make_data(X, Y, np.full(40, 0.5))  # which counts as 20 rows
    assert selection._lost_freedom(data, 0.0) == 1.0
    assert selection._lost_freedom(data, 5.0) == pytest.approx(25 / 15)
    for many in (10.0, 15.0, 1000.0):
        assert selection._lost_freedom(data, many) == pytest.approx(30 / 10)


@pytest.mark.parametrize("changes", [{}, {"penalty": "auto"}])
def test_no_optimum_takes_more_iterations_than_allowed(changes):
    model = fitted(max_iter=3, **changes)
    assert model.n_iter_ <= 3
    assert np.isfinite(model.predict(NEW)).all()


def test_an_optimum_that_was_not_reached_is_said_to_be_none():
    model = fitted(max_iter=1)
    assert not model.fit_info_["converged"]
    assert not members(model)[0]["converged"]
    assert model.n_iter_ == 1


def interrupt_call(monkeypatch, number):
    """Ctrl-C in one of the likelihood's evaluations; gives the rows of all of them."""
    calls, original = [], ExactLikelihood.__call__

    def interrupting(self, theta):
        calls.append(len(self.data.y))
        if len(calls) == number:
            raise KeyboardInterrupt
        return original(self, theta)

    monkeypatch.setattr(ExactLikelihood, "__call__", interrupting)
    return calls


@pytest.mark.parametrize("number", [3, 10, 30, 60, 100])
@pytest.mark.parametrize("rows", [400, 25])
def test_an_interrupt_at_any_time_gives_a_model_of_all_rows(monkeypatch, number, rows):
    monkeypatch.setattr(selection, "_COMPARED_ROWS", rows)
    calls = interrupt_call(monkeypatch, number)
    with pytest.warns(NumericalWarning, match="interrupted after"):
        model = fitted(penalty="auto", input_map="auto")
    assert len(calls) <= number + 1
    assert model.fit_info_["interrupted"]
    assert all(len(each.data.y) == 40 for each in _members_of(model))
    assert np.isfinite(model.predict(NEW, return_std=True)).all()
    weights = [member["weight"] for member in members(model)]
    assert sum(weights) == pytest.approx(1.0)


@pytest.mark.parametrize("number", [1, 2, 3, 4, -3, -2, -1])
def test_an_interrupt_as_a_minimisation_begins_keeps_what_there_is(monkeypatch, number):
    """Of a restart, of another structure, or of the training on all rows."""
    monkeypatch.setattr(selection, "_lost_freedom", lambda *_: 1.0)  # what follows the optimum
    settings = {"penalty": "auto", "input_map": "auto", "n_restarts": 3}
    calls, begins, original = interrupt_call(monkeypatch, 0), [], selection.minimise

    def noting(*args, **kwargs):
        begins.append(len(calls) + 1)
        return original(*args, **kwargs)

    monkeypatch.setattr(selection, "minimise", noting)
    fitted(**settings)
    interrupt_call(monkeypatch, begins[number])
    with pytest.warns(NumericalWarning, match="interrupted after"):
        model = fitted(**settings)
    assert model.n_iter_ == len(model.history_["loss"]) - 1 > 0
    assert model.history_["nll"][-1] == pytest.approx(-model.log_marginal_likelihood_, rel=1e-9)
    assert np.isfinite(model.predict(NEW, return_std=True)).all()


def test_an_interrupt_before_anything_is_there_is_not_caught(monkeypatch):
    interrupt_call(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        fitted(penalty="auto")


@pytest.mark.parametrize(("changes", "words"), [
    ({"l1_ratio": 0.5}, "l1_ratio=0.5"), ({"patience": 5}, "patience=5"),
    ({"checkpoints": (5,)}, r"checkpoints=\(5,\)"), ({"n_draws": 2}, "n_draws=2"),
    ({"prior": 0.0}, "prior=0"), ({"penalty": 0.0}, "penalty=0"),
    ({"prior": ElasticNet(1.0, 0.5)}, "a prior with a kink"),
])
def test_what_only_nadam_serves_is_refused_by_its_name(changes, words):
    with pytest.raises(SettingError, match=words + '.* needs optimizer="nadam"'):
        fitted(**changes)
    PCEGPRegressor(**{**FIXED, "optimizer": "nadam", "max_iter": 6, **changes}).fit(X, Y)


def test_what_nadam_cannot_do_is_refused_by_its_name():
    with pytest.raises(SettingError, match='noise="none" needs optimizer="lbfgs"'):
        fitted(noise="none", optimizer="nadam")
    with pytest.raises(SettingError, match="optimizer='adam' is not known"):
        fitted(optimizer="adam")


def test_every_stage_counts_to_its_end():
    """All structures that are asked for are trained here, so every bar reaches its total."""
    seen, stage = {}, None

    def note(done, label=None, total=None, **_):
        nonlocal stage
        if label is not None:
            stage = label
            seen[stage] = [total, 0]
        seen[stage][1] = done

    settings = resolve(PCEGPRegressor(**{**FIXED, "input_map": "auto"}).get_params())
    scaled, target = X - 0.5, (Y - Y.mean()) / Y.std()
    make_process = _Processes(settings, scaled, np.ones(40), None)
    fit_by_evidence(make_process, make_data(scaled, target), settings.scales(2),
                    settings.choices(2), settings.options, np.random.default_rng(0), note)
    assert "comparing covariances and maps" in seen
    for total, done in seen.values():
        assert done == total
