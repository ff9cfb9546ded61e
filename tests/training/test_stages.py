"""The stages of a fit by Nadam: probe, warm-up on some of many rows, training, what follows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pcegp import PCEGPRegressor
from pcegp.errors import NotPositiveDefiniteError, NumericalWarning, TrainingError
from pcegp.inference import Exact
from pcegp.inference.exact import ExactLikelihood
from pcegp.training import (
    Descent,
    ElasticNet,
    Normal,
    Options,
    at_once,
    condition,
    fit,
    hmc,
    noise_free,
    stages,
)
from small_models import make_data, make_process

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(120, 2))
Y = np.sin(6 * X[:, 0] ** 2) + 0.1 * RNG.normal(size=120)
NEW = RNG.uniform(0.2, 0.8, size=(30, 2))
STEPS = 60  # of the warm-up in these tests


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch):
    monkeypatch.setattr(stages, "_WARM_UP_STEPS", STEPS)


def model(**changes):
    return PCEGPRegressor(**{"optimizer": "nadam", "warm_up_rows": 40, "noise_delay": 20,
                             **changes})


@pytest.fixture
def sizes(monkeypatch):
    """The number of rows of every likelihood that is asked for."""
    seen, original = [], ExactLikelihood.__call__

    def counting(self, theta):
        seen.append(len(self.data.y))
        return original(self, theta)

    monkeypatch.setattr(ExactLikelihood, "__call__", counting)
    return seen


def test_the_first_steps_see_some_rows_and_the_others_all(sizes):
    fitted = model(max_iter=STEPS + 20).fit(X, Y)
    assert sizes == [40] * (STEPS + 1) + [120] * 21
    assert fitted.n_iter_ == STEPS + 20
    assert all(len(values) == STEPS + 21 for values in fitted.history_.values())
    # The posteriors of the warm-up and of the training take one each.
    assert fitted.fit_info_["n_factorisations"] == len(sizes) + 2


@pytest.mark.parametrize("rows", [120, None, 2000])
def test_few_rows_need_no_warm_up(sizes, rows):
    model(warm_up_rows=rows, max_iter=10).fit(X, Y)
    assert set(sizes) == {120}


def test_the_paper_shows_all_rows_to_every_step(sizes):
    PCEGPRegressor.paper(max_iter=3).fit(X, Y)
    assert PCEGPRegressor.paper().warm_up_rows is None
    assert set(sizes) == {120}


def test_the_same_rows_are_drawn_again():
    first, second = (model(max_iter=STEPS + 5).fit(X, Y).predict(NEW) for _ in range(2))
    other = model(max_iter=STEPS + 5, random_state=1).fit(X, Y).predict(NEW)
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_what_is_learned_is_about_what_all_rows_teach(monkeypatch):
    monkeypatch.setattr(stages, "_WARM_UP_STEPS", 300)
    truth = np.sin(6 * NEW[:, 0] ** 2)
    errors = [np.sqrt(np.mean((model(warm_up_rows=rows, noise_delay=50).fit(X, Y).predict(NEW)
                               - truth) ** 2)) for rows in (40, None)]
    assert errors[1] < 0.06
    assert errors[0] == pytest.approx(errors[1], abs=0.01)


@pytest.mark.parametrize("patience", [None, 10])
def test_a_checkpoint_is_the_model_of_a_shorter_training(sizes, patience):
    steps = [*range(0, STEPS, 5), STEPS - 1, STEPS, STEPS + 5, STEPS + 10]
    options = {"patience": patience, "learning_rate": 0.03 if patience is None else 0.2}
    long = model(max_iter=STEPS + 10, checkpoints=steps, **options).fit(X, Y)
    reached = [step for step in steps if 0 < step <= long.n_iter_]
    switch = long.n_iter_ + 1 - sizes.count(120)  # the end of the warm-up
    assert (switch < STEPS) == (patience is not None)
    assert min(reached) < switch < max(reached)
    for step in reached[-5:] if patience is None else reached[::3]:
        short = model(max_iter=step, **options).fit(X, Y)
        for got, expected in zip(long.at_checkpoint(step).predict(NEW, return_std=True),
                                 short.predict(NEW, return_std=True), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_a_model_of_the_warm_up_alone_knows_all_rows():
    fitted = model(max_iter=STEPS - 10).fit(X, Y)
    assert len(fitted.model_.outputs[0].base.data.y) == 120
    assert fitted.n_iter_ == STEPS - 10
    # The last entry of the history is of all rows.
    mean, std = fitted.loo_predict()
    assert fitted.history_["loo_rmse"][-1] == pytest.approx(np.sqrt(np.mean((Y - mean) ** 2)))
    assert fitted.history_["nll"][-1] == pytest.approx(-fitted.log_marginal_likelihood_)
    assert (std > 0).all()


def test_patience_counts_anew_when_all_rows_come(sizes):
    fitted = model(max_iter=1000, learning_rate=0.3, patience=15, noise="constant").fit(X, Y)
    nll = fitted.history_["loo_nll"]
    switch = sizes.index(120) - 1  # the last step of the part is replaced
    assert 15 <= switch < STEPS
    assert fitted.n_iter_ == switch + np.argmin(nll[switch:]) + 15 < 1000


def test_restarts_are_compared_in_the_warm_up(sizes, monkeypatch):
    monkeypatch.setattr("pcegp.training.starts._LONGEST_PROBE", STEPS // 2)
    model(n_restarts=3, max_iter=STEPS + 5).fit(X, Y)
    assert sizes[0] == 40
    # Four starts for half of it, two to its end, which is also that of the warm-up.
    assert sizes[sizes.index(120):] == [120] * 6
    assert sizes.count(40) == 4 * (STEPS // 2 + 1) + 2 * (STEPS // 2)


def test_many_rows_are_probed_by_some(sizes, monkeypatch):
    monkeypatch.setattr(stages, "_PROBE_ROWS", 50)
    model(n_restarts=1, max_iter=5, warm_up_rows=None).fit(X, Y)
    assert sizes == [50] * 12 + [120] * 6


def test_parameters_that_all_rows_refuse_are_a_named_error(monkeypatch):
    original = ExactLikelihood.__call__

    def refusing(self, theta):
        if len(self.data.y) == 120:
            raise NotPositiveDefiniteError
        return original(self, theta)

    monkeypatch.setattr(ExactLikelihood, "__call__", refusing)
    with pytest.raises(TrainingError, match=r"with all rows: raise noise_floor.* warm_up_rows"):
        model(max_iter=5).fit(X, Y)


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


def test_an_interrupted_warm_up_gives_a_model_of_all_rows(monkeypatch):
    calls = interrupt_call(monkeypatch, 50)
    with pytest.warns(NumericalWarning, match="interrupted after 48 of 400"):
        fitted = model().fit(X, Y)
    assert calls == [40] * 50 + [120]
    assert len(fitted.model_.outputs[0].base.data.y) == 120
    assert fitted.score(X, Y) > 0.5


def test_an_interrupt_while_the_warm_up_is_summed_up_keeps_it(monkeypatch):
    original = Descent.reached

    def interrupted(self, checked=True):
        if checked:
            raise KeyboardInterrupt
        return original(self, checked)

    monkeypatch.setattr(Descent, "reached", interrupted)
    with pytest.warns(NumericalWarning, match=f"interrupted after {STEPS} of 400"):
        fitted = model().fit(X, Y)
    assert fitted.score(X, Y) > 0.5


def test_an_interrupted_training_keeps_its_steps_and_skips_what_would_follow(monkeypatch):
    def never(*_):
        pytest.fail("it went on")

    monkeypatch.setattr(hmc, "draw", never)
    calls = interrupt_call(monkeypatch, 30)
    with pytest.warns(NumericalWarning, match="interrupted after 28 of 400"):
        fitted = model(warm_up_rows=None, n_draws=4, checkpoints=(10,)).fit(X, Y)
    assert calls == [120] * 30
    assert len(fitted.history_["loss"]) == 29
    assert fitted.at_checkpoint(10).n_iter_ == 10


def test_an_interrupted_probe_goes_on_with_its_best_step(monkeypatch):
    monkeypatch.setattr(stages, "_PROBE_ROWS", 50)
    calls = interrupt_call(monkeypatch, 30)
    with pytest.warns(NumericalWarning, match="interrupted after 0 of 400"):
        model(n_restarts=1).fit(X, Y)
    assert calls == [50] * 30 + [120]


def test_an_interrupt_before_anything_is_there_is_not_caught(monkeypatch):
    interrupt_call(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        model(warm_up_rows=None).fit(X, Y)


@pytest.mark.parametrize(("home", "name"), [(noise_free, "fit_candidate"), (hmc, "draw")])
def test_an_interrupt_after_training_keeps_what_was_trained(monkeypatch, home, name):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(noise_free, "LITTLE_NOISE", 1.0)  # the candidate is tried
    monkeypatch.setattr(home, name, interrupted)
    with pytest.warns(NumericalWarning, match="interrupted"):
        fitted = model(max_iter=30, n_draws=2, warm_up_rows=None).fit(X, Y)
    assert fitted.fit_info_["interrupted"]
    assert np.isfinite(fitted.predict(NEW)).all()


def test_several_outputs_each_have_a_warm_up(sizes):
    both = model(max_iter=STEPS + 5).fit(X, np.column_stack([Y, -2 * Y]))
    assert sizes.count(120) == 2 * 6
    np.testing.assert_allclose(both.predict(NEW)[:, 0], both.predict(NEW)[:, 1] / -2, atol=0.1)


# Without an estimator


OPTIONS = Options(Exact(), (ElasticNet(3.0), Normal()), max_iter=30, n_draws=2, checkpoints=(10,))


def trained(options=OPTIONS, seed=0):
    Z = X[:40] - 0.5
    process = make_process(Z, transform="exponential", degree=1, noise_degree=1)
    return fit(process, make_data(Z, (Y[:40] - Y[:40].mean()) / Y[:40].std()), np.full(5, 2.0),
               options, np.random.default_rng(seed))


def test_known_parameters_give_the_same_model_without_training():
    uncertain = trained().posterior
    base = uncertain.base
    again = condition(base.process, base.data, base.theta, OPTIONS, uncertain.others.thetas,
                      uncertain.typical_ratio)
    for one, other in ((uncertain, again), (base, again.base)):
        np.testing.assert_array_equal(
            one.mean_and_variance(NEW - 0.5), other.mean_and_variance(NEW - 0.5)
        )
    certain = condition(base.process, base.data, base.theta, OPTIONS)
    assert certain is certain.base


def test_progress_counts_the_steps_and_the_draws_that_are_made():
    seen, stage = {}, "training"

    def note(done, label=None, total=None, loss=None):
        nonlocal stage
        stage = label or stage
        seen.setdefault(stage, []).append((done, total))

    Z = X[:40] - 0.5
    process = make_process(Z, "matern32", transform="exponential")
    found = fit(process, make_data(Z, Y[:40]), np.ones(1), OPTIONS, np.random.default_rng(0), note)
    done = {stage: [count for count, _ in counts] for stage, counts in seen.items()}
    assert all(counts == sorted(counts) for counts in done.values())
    assert done["training"][-1] == found.n_iter == 30
    assert done["drawing parameters"][-1] == len(found.posterior.others.thetas) == 2
    assert seen["drawing parameters"][0] == (0, 2)
    assert at_once(OPTIONS).checkpoints == ()


def test_no_stage_is_silent(monkeypatch):
    """Without noise, with several starts and an earlier checkpoint: every stage there is."""
    seen = []

    def note(done, label=None, total=None, loss=None):
        seen.append(label)

    Z = X[:40] - 0.5
    process = make_process(Z, transform="exponential")
    options = replace(OPTIONS, n_restarts=1, checkpoints=(5,))
    monkeypatch.setattr("pcegp.training.noise_free.LITTLE_NOISE", np.inf)
    fit(process, make_data(Z, Y[:40]), np.ones(5), options, np.random.default_rng(0), note)
    labels = [label for label in seen if label is not None]
    assert labels[:2] == ["comparing starts", "training"]
    assert "model after 5 steps" in labels
    assert labels[-3:] == ["trying a model without noise", "drawing parameters",
                           "predicting by the draws"]
