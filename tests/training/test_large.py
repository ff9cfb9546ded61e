"""Training on likelihoods of some rows: what it chooses, and that it is a model as any other."""

from __future__ import annotations

import numpy as np
import pytest

import pcegp
from pcegp import PCEGPRegressor
from pcegp.errors import NumericalWarning
from pcegp.inference import Exact, MappedTarget, Neighbours
from pcegp.inference.neighbours import NeighbourPosterior
from pcegp.inspection import diagnose, explain
from pcegp.metrics import scores

RNG = np.random.default_rng(0)
ENGINE = Neighbours(n_train=20, n_predict=40, n_terms=600)
SETTINGS = {"covariance": "matern52", "input_map": "linear", "target_map": "linear",
            "noise": "constant", "inference": ENGINE}


def table(n, seed=0):
    """A function that is quick on the right, with noise that grows there."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    truth = np.sin(40.0 * X[:, 0] ** 3) + X[:, 1]
    deviation = 0.02 + 0.3 * X[:, 1] ** 2
    return X, truth + deviation * rng.normal(size=n), truth, deviation


X, Y, _, _ = table(1500)
NEW, Y_NEW, TRUTH, DEVIATION = table(500, seed=1)


@pytest.fixture(scope="module")
def model():
    return PCEGPRegressor(**{**SETTINGS, "noise": "auto"}).fit(X, Y)


def test_scale_and_noise_that_vary_are_found(model):
    (member,) = model.fit_info_["members"]
    assert member["penalty"] is not None
    assert member["noise_degree"] > 0
    assert member["weight"] == 1.0
    held_out = [each["log_evidence"] for each in model.fit_info_["compared"]]
    assert member["log_evidence"] >= max(held_out) - 0.02 * abs(max(held_out))
    noise = np.sqrt(model.noise_variance(NEW))
    assert np.corrcoef(noise, DEVIATION)[0, 1] > 0.8


def test_predictions_are_near_the_truth_and_know_their_error(model):
    mean, std = model.predict(NEW, return_std=True)
    found = scores(Y_NEW, mean, std)
    best = float(np.mean(0.5 * np.log(2 * np.pi * DEVIATION**2)
                         + 0.5 * ((Y_NEW - TRUTH) / DEVIATION) ** 2))
    assert found["NLL"] < best + 0.25
    assert 0.9 < found["coverage95"] < 0.985


def test_the_exact_engine_predicts_about_the_same():
    errors = []
    for engine in (Neighbours(n_train=40, n_predict=100, n_terms=1000), "exact"):
        model = PCEGPRegressor(**{**SETTINGS, "noise": "auto", "inference": engine}).fit(X, Y)
        errors.append(np.sqrt(np.mean((model.predict(NEW) - TRUTH) ** 2)))
    assert errors[0] < 1.3 * errors[1]


def test_it_is_the_same_with_the_same_seed_and_in_its_file(model, tmp_path):
    again = PCEGPRegressor(**{**SETTINGS, "noise": "auto"}).fit(X, Y)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    loaded = pcegp.load(model.save(tmp_path / "model"))
    assert loaded.inference == ENGINE
    for got, expected in zip(loaded.predict(NEW, return_std=True),
                             model.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_it_is_explained_and_diagnosed_as_any_other(model):
    text = str(explain(model, n_refits=2))
    assert "x1" in text
    assert "noise of degree" in text
    found = diagnose(model)
    assert len(found.mean) == 1500
    assert model.sample_y(NEW[:3], 5).shape == (3, 5)


def test_a_stationary_function_keeps_a_constant_scale():
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(1200, 2))
    y = np.sin(9.0 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=1200)
    model = PCEGPRegressor(**SETTINGS).fit(x, y)
    (member,) = model.fit_info_["members"]
    held_out = {each["penalty"]: each["log_evidence"] for each in model.fit_info_["compared"]}
    assert member["log_evidence"] >= held_out[None]  # never worse than the stationary one


def test_a_logarithm_of_the_target_is_found():
    model = PCEGPRegressor(**{**SETTINGS, "target_map": "auto", "degree": 0}).fit(
        X[:1200], np.exp(3.0 * Y[:1200]))
    assert isinstance(model.model_.outputs[0].posterior, MappedTarget)
    mean, std = model.predict(NEW, return_std=True)
    assert 0.85 < scores(np.exp(3.0 * Y_NEW), mean, std)["coverage95"] <= 1.0


def test_copies_are_one_row_with_a_weight():
    copied = PCEGPRegressor(**SETTINGS, degree=0).fit(np.vstack([X, X[:300]]),
                                                      np.concatenate([Y, Y[:300]]))
    weights = np.ones(1500)
    weights[:300] = 2.0
    weighted = PCEGPRegressor(**SETTINGS, degree=0).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(copied.predict(NEW), weighted.predict(NEW))


@pytest.mark.parametrize(("most", "engine"), [(1499, NeighbourPosterior), (1500, Exact)])
def test_the_number_of_rows_chooses_the_engine(monkeypatch, most, engine):
    monkeypatch.setattr("pcegp.estimators.settings.MOST_EXACT_ROWS", most)
    model = PCEGPRegressor("matern52", degree=0, max_iter=3, noise="constant", input_map="linear",
                           target_map="linear").fit(X, Y)
    base = model.model_.outputs[0].base
    assert isinstance(base if engine is NeighbourPosterior else base.engine, engine)


def test_few_rows_are_compared_by_their_evidence():
    model = PCEGPRegressor(**SETTINGS).fit(X[:200], Y[:200])
    assert isinstance(model.model_.outputs[0].base.engine, Neighbours)
    assert len(model.fit_info_["compared"]) > 1
    exact = PCEGPRegressor(**{**SETTINGS, "inference": Neighbours(199, 200)}).fit(X[:200], Y[:200])
    other = PCEGPRegressor(**{**SETTINGS, "inference": "exact"}).fit(X[:200], Y[:200])
    inside = np.clip(NEW, X[:200].min(axis=0), X[:200].max(axis=0))
    np.testing.assert_allclose(exact.predict(inside), other.predict(inside), atol=0.02)


@pytest.mark.parametrize("after", [3, 60, 150])
def test_an_interrupt_gives_the_best_model_so_far(monkeypatch, after):
    counted = 0
    evaluate = pcegp.inference.neighbours.NeighbourLikelihood.__call__

    def interrupting(self, theta):
        nonlocal counted
        counted += 1
        if counted == after:
            raise KeyboardInterrupt
        return evaluate(self, theta)

    monkeypatch.setattr(pcegp.inference.neighbours.NeighbourLikelihood, "__call__", interrupting)
    fresh = PCEGPRegressor(**SETTINGS)
    if after == 3:  # nothing yet that could be the result
        with pytest.raises(KeyboardInterrupt):
            fresh.fit(X, Y)
        assert not hasattr(fresh, "model_")
        return
    with pytest.warns(NumericalWarning, match="interrupted"):
        fresh.fit(X, Y)
    assert fresh.fit_info_["interrupted"]
    assert np.isfinite(fresh.predict(NEW)).all()


def test_copies_count_once_for_the_choice_of_the_engine(monkeypatch, tmp_path):
    monkeypatch.setattr("pcegp.estimators.settings.MOST_EXACT_ROWS", 150)
    model = PCEGPRegressor(**{**SETTINGS, "inference": "auto", "degree": 0}).fit(
        np.tile(X[:100], (2, 1)), np.tile(Y[:100], 2))
    loaded = pcegp.load(model.save(tmp_path / "model"))
    for each in (model, loaded):
        assert isinstance(each.model_.outputs[0].base.engine, Exact)


def test_the_likelihood_of_a_mapped_target_counts_the_rows_of_terms():
    y = np.exp(3.0 * Y[:1200])
    model = PCEGPRegressor(**{**SETTINGS, "target_map": "auto", "degree": 0}).fit(X[:1200], y)
    base = model.model_.outputs[0].base
    assert np.count_nonzero(base.likelihood_weights) == ENGINE.n_terms
    last = model.history_["nll"][-1]
    assert model.log_marginal_likelihood_ == pytest.approx(-last, rel=0.05)
