"""Draws, intervals and explanations of a mixture and of the answer of a search."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from pcegp import PCEGPMixture, PCEGPRegressor, diagnose, explain
from pcegp.errors import DataWarning, SettingError
from pcegp.estimators import Composite
from small_search import X, Y, quick

# New rows of a small table leave its box now and then.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")

RNG = np.random.default_rng(5)
NEW = RNG.uniform(0, 1, (4, 2))


@pytest.fixture(scope="module")
def mixture():
    """Two members that disagree, so that it shows whose a draw is."""
    members = [PCEGPRegressor(degree=0, max_iter=20, n_draws=0),
               PCEGPRegressor(degree=0, max_iter=20, n_draws=0)]
    members[1] = FrozenEstimator(members[1].fit(X, Y + 1000.0))
    return PCEGPMixture(members).fit(X, Y)


@pytest.fixture(scope="module")
def search():
    found = quick(n_trials=16).fit(X, Y)
    assert len(found.members()) > 1
    return found


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_members_have_equal_shares_of_the_draws(mixture, count):
    drawn = mixture.sample_y(NEW, count, random_state=3)
    assert drawn.shape == (4, count)
    of_second = drawn.mean(axis=0) > 500.0
    assert abs(of_second.sum() - count / 2) <= 0.5
    assert ((drawn > 500.0) == of_second).all()  # a draw is a function of one member
    np.testing.assert_array_equal(mixture.sample_y(NEW, count, random_state=3), drawn)


def test_whose_draw_is_which_is_random(mixture):
    owners = {tuple(mixture.sample_y(NEW, 2, random_state=seed)[0] > 500.0) for seed in range(20)}
    assert owners == {(False, True), (True, False)}
    single = {bool(mixture.sample_y(NEW, 1, random_state=seed)[0, 0] > 500) for seed in range(20)}
    assert single == {False, True}


def test_draws_have_the_moments_of_an_equal_mixture(search):
    drawn = search.sample_y(NEW, 60_000)
    each = [m.predict(NEW, return_std=True) for m in search.members()]
    means, stds = (np.array(part) for part in zip(*each, strict=True))
    assert drawn.mean(axis=1) == pytest.approx(means.mean(axis=0), abs=0.01)
    expected = (stds**2 + means**2).mean(axis=0) - means.mean(axis=0) ** 2
    assert drawn.var(axis=1) == pytest.approx(expected, rel=0.05)


def test_draws_of_several_outputs_and_bad_counts():
    members = [PCEGPRegressor(max_iter=2, n_draws=0) for _ in range(2)]
    both = PCEGPMixture(members).fit(X, np.column_stack([Y, 1000.0 + Y]))
    drawn = both.sample_y(NEW, 3)
    assert drawn.shape == (4, 2, 3)
    assert (drawn[:, 1] > 900.0).all()
    for model in (both, both.members()[0]):
        with pytest.raises(SettingError, match="n_samples=0"):
            model.sample_y(NEW, 0)


def test_intervals_of_a_mixture_cover_as_often_as_they_say():
    rng, inside, trials = np.random.default_rng(1), 0, 12
    for _ in range(trials):
        A, B = (rng.uniform(-1, 1, (60, 1)) for _ in range(2))
        a, b = (np.sin(4 * Z[:, 0]) + rng.standard_t(2, 60) for Z in (A, B))
        members = [PCEGPRegressor(max_iter=3, degree=q, n_draws=0, covariance="matern52")
                   for q in (0, 1)]
        lower, upper = PCEGPMixture(members).fit(A, a).predict_interval(B, 0.8)
        inside += int(((lower <= b) & (b <= upper)).sum())
    assert 0.74 <= inside / (60 * trials) <= 0.88


def test_a_frozen_member_has_not_seen_the_rows_it_is_scored_on():
    frozen = FrozenEstimator(PCEGPRegressor(max_iter=5, n_draws=0).fit(X, Y))
    mixture = PCEGPMixture([PCEGPRegressor(degree=0, max_iter=5, n_draws=0), frozen]).fit(X, Y)
    mixture.predict_interval(NEW, 0.8, n_folds=3)
    found = mixture._cross_fits[3]
    for number, model in enumerate(found.models):
        kept = 40 - int((found.fold == number).sum())
        assert [len(m.model_.training_target()) for m in model.estimators_] == [kept, kept]
    mixture.fit(X, Y)
    assert not hasattr(mixture, "_cross_fits")


def test_intervals_of_a_search_take_its_answer_and_search_no_more(search, monkeypatch):
    monkeypatch.setattr("pcegp.search.estimator.run_rungs", None)
    lower, upper = search.predict_interval(NEW, 0.8, n_folds=3)
    own = search.ensemble_.predict_interval(NEW, 0.8, n_folds=3)
    np.testing.assert_array_equal((lower, upper), own)
    (found,) = search.ensemble_._cross_fits.values()
    for model in found.models:
        ours = [m.get_params() for m in model.estimators_]
        assert ours == [m.get_params() for m in search.members()]
    mean = search.predict(NEW)
    assert ((lower < mean) & (mean < upper)).all()


def test_a_search_with_one_answer_has_its_draws_and_intervals():
    search = quick(n_trials=2, ensemble=1).fit(X, Y)
    best = search.best_estimator_
    assert search.members() == [best]
    np.testing.assert_array_equal(search.sample_y(NEW, 3), best.sample_y(NEW, 3))
    for ours, theirs in zip(search.predict_interval(NEW, 0.8, 3),
                            best.predict_interval(NEW, 0.8, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "mixture" not in str(explain(search, n_refits=0))


@pytest.mark.parametrize("kind", ["mixture", "search"])
def test_an_explanation_is_of_the_first_member_and_says_so(kind, request):
    model = request.getfixturevalue(kind)
    found, alone = (explain(each, n_refits=0) for each in (model, model.members()[0]))
    count = len(model.members())
    assert f"A mixture of {count} models; this is the first of them." in str(found)
    assert str(found).endswith(str(alone))
    assert (found.as_dict()["models"], alone.as_dict()["models"]) == (count, 1)
    np.testing.assert_array_equal(found.relevance(NEW), alone.relevance(NEW))


def test_what_is_for_one_model_names_the_members(mixture):
    with pytest.raises(SettingError, match=r"has several: pass one of model\.members\(\)"):
        diagnose(mixture)


def test_few_rows_and_no_fit(mixture):
    with pytest.warns(DataWarning, match="99 rows"):
        lower, _ = mixture.predict_interval(NEW, 0.99)
    assert np.isinf(lower).all()
    for model in (PCEGPMixture(), quick()):
        assert isinstance(model, Composite)
        for call in (model.sample_y, model.predict_interval, explain):
            with pytest.raises(NotFittedError):
                call(NEW) if call is not explain else explain(model)
