"""Intervals that keep their word, whatever the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pcegp import PCEGPRegressor
from pcegp.errors import DataError, DataWarning, SettingError
from pcegp.estimators import conformal
from pcegp.estimators.conformal import cross_fit

# New rows of a small table leave its box now and then.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")

RNG = np.random.default_rng(0)


def table(n, rng, tails):
    X = rng.uniform(-1, 1, (n, 2))
    noise = rng.standard_t(2, n) if tails else rng.normal(size=n) * (0.2 + 2 * (X[:, 0] > 0))
    return X, np.sin(4 * X[:, 0]) + noise


@pytest.mark.parametrize("tails", [True, False])
@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_they_cover_as_often_as_they_say(tails, coverage):
    """A bad model (four steps, constant noise) on data that it cannot describe."""
    rng, inside, trials = np.random.default_rng(1), 0, 40
    for _ in range(trials):
        X, y = table(60, rng, tails)
        model = PCEGPRegressor(max_iter=4, noise="constant", degree=0, covariance="matern52",
                               n_draws=0)
        new, truth = table(50, rng, tails)
        lower, upper = model.fit(X, y).predict_interval(new, coverage)
        inside += int(((lower <= truth) & (truth <= upper)).sum())
    found = inside / (50 * trials)
    assert coverage - 0.04 <= found <= coverage + 0.06


def test_more_coverage_is_wider():
    X, y = table(40, RNG, tails=False)
    model = PCEGPRegressor(max_iter=4).fit(X, y)
    narrow, wide = (model.predict_interval(X[:5], c) for c in (0.5, 0.95))
    assert (narrow[0] > wide[0]).all()
    assert (narrow[1] < wide[1]).all()


@pytest.mark.parametrize(("coverage", "rows"), [(0.99, "99 rows"), (0.999, "999 rows"),
                                                (1.0, "no number of rows")])
def test_too_few_rows_for_an_end_are_warned_about_before_any_training(coverage, rows, monkeypatch):
    X, y = table(40, RNG, tails=False)
    model = PCEGPRegressor(max_iter=4).fit(X, y)
    monkeypatch.setattr("pcegp.estimators.conformal.cross_fit", None)
    with pytest.warns(DataWarning, match=rows):
        lower, upper = model.predict_interval(X[:5], coverage)
    assert (lower == -np.inf).all()
    assert (upper == np.inf).all()


def test_the_number_of_rows_that_is_named_is_enough_and_one_less_is_not():
    for coverage in (0.5, 0.8, 0.9, 0.95, 0.99, 1.0 / 3.0):
        rows = conformal._rows_needed(coverage)
        assert conformal._rank(coverage, rows) <= rows
        assert conformal._rank(coverage, rows - 1) > rows - 1


def test_frames_and_units():
    X, y = table(40, RNG, tails=False)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = PCEGPRegressor(max_iter=4).fit(frame, y)
    lower, upper = model.predict_interval(frame.iloc[:4], 0.9)
    other = PCEGPRegressor(max_iter=4).fit(1000 * X, 5 * y + 3)
    scaled = other.predict_interval(1000 * X[:4], 0.9)
    np.testing.assert_allclose(scaled[0], 5 * lower + 3, rtol=1e-6)
    np.testing.assert_allclose(scaled[1], 5 * upper + 3, rtol=1e-6)


def test_refits_are_kept_until_the_next_fit():
    X, y = table(30, RNG, tails=False)
    model = PCEGPRegressor(max_iter=3).fit(X, y)
    first = model.predict_interval(X[:3])
    kept = model._cross_fits[5]
    assert (model.predict_interval(X[:3])[0] == first[0]).all()
    assert model._cross_fits[5] is kept
    model.fit(X, 2 * y)
    assert not hasattr(model, "_cross_fits")


def test_scores_come_from_models_that_have_not_seen_the_row():
    X, y = table(30, RNG, tails=False)
    model = PCEGPRegressor(max_iter=3).fit(X, y)
    found = cross_fit(model, X, y, 3)
    for number, fold_model in enumerate(found.models):
        left = np.flatnonzero(found.fold == number)
        assert len(fold_model.model_.training_target()) == 30 - len(left)
        mean, std = fold_model.predict(X[left], return_std=True)
        np.testing.assert_allclose(found.scores[left], np.abs(y[left] - mean) / std)


def test_bad_questions():
    X, y = table(30, RNG, tails=False)
    model = PCEGPRegressor(max_iter=3).fit(X, y)
    for coverage in (0.0, 1.5, "all"):
        with pytest.raises(SettingError, match="coverage"):
            model.predict_interval(X, coverage)
    with pytest.raises(DataError, match="31 folds"):
        model.predict_interval(X, n_folds=31)
    with pytest.raises(SettingError, match="n_folds=1"):
        model.predict_interval(X, n_folds=1)
    model.fit(X, np.column_stack([y, y]))
    with pytest.raises(SettingError, match="one output"):
        model.predict_interval(X)


def test_a_row_of_weight_two_proposes_its_ends_twice():
    """The training is that of two rows; the ends are, if both lie in one fold."""
    rng = np.random.default_rng(5)
    values, weights = rng.normal(size=(9, 4)), rng.integers(1, 4, 9).astype(float)
    repeated = np.repeat(values, weights.astype(int), axis=0)
    for rank in (1.0, 2.5, 7.0, weights.sum() - 0.5, weights.sum()):
        np.testing.assert_array_equal(
            conformal._end(values, weights, rank),
            conformal._end(repeated, np.ones(len(repeated)), rank))


def test_intervals_of_a_weighted_model_take_its_weights():
    X, y = table(40, np.random.default_rng(2), tails=False)
    weights = np.ones(40)
    weights[:20] = 5.0
    model = PCEGPRegressor(max_iter=4, n_draws=0)
    plain, weighted = model.fit(X, y).predict_interval(X, 0.8), model.fit(
        X, y, weights).predict_interval(X, 0.8)
    assert (plain[0] != weighted[0]).any()
    ones = model.fit(X, y, np.ones(40)).predict_interval(X, 0.8)
    np.testing.assert_array_equal(plain, ones)


def test_many_rows_are_sorted_block_by_block(monkeypatch):
    X, y = table(40, np.random.default_rng(2), tails=False)
    model = PCEGPRegressor(max_iter=4, n_draws=0).fit(X, y)
    whole = model.predict_interval(X, 0.8)
    monkeypatch.setattr(conformal, "_BLOCK", 100)
    np.testing.assert_array_equal(model.predict_interval(X, 0.8), whole)
