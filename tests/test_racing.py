"""What makes a search cheap: racing, copies, checkpoints, remembered bases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from pcegp import PCEGPRegressor, PCEGPSearchCV, racing, spaces
from pcegp.folds import evaluate
from pcegp.records import records_of, signature
from pcegp.remembering import Memory, remembering
from small_search import X, Y, quick, same, small

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


def test_the_same_settings_are_never_evaluated_twice():
    def two(trial):
        return {"degree": trial.suggest_int("degree", 0, 1), "max_iter": 5}

    search = quick(space=two, n_trials=8).fit(X, Y)
    copies = search.cv_results_["copy_of"]
    assert sum(copy is None for copy in copies) == 2
    for number, copy in enumerate(copies):
        if copy is not None:
            for name in ("state", "screen_crps", "n_folds"):
                assert same(search.cv_results_[name][number], search.cv_results_[name][copy])
    assert search.savings_["factorisations"] < 0.3 * search.savings_["plain_factorisations"]


def test_settings_that_give_the_same_model_have_one_signature():
    stationary = {"degree": 0, "noise": "constant", "penalty": 1.0, "basis": "legendre"}
    assert signature(stationary) == signature({**stationary, "penalty": 3.0, "basis": "hermite"})
    assert signature({**stationary, "degree": 1}) != signature(
        {**stationary, "degree": 1, "penalty": 3.0}
    )


@pytest.mark.parametrize("noise", ["constant", "expansion"])
def test_a_checkpoint_is_the_training_of_that_many_steps(noise):
    train, test = np.arange(30), np.arange(30, 40)
    settings = {"max_iter": 60, "checkpoints": (20, 60), "noise": noise, "noise_delay": 30}
    result = evaluate(settings, X, Y, (train, test))
    for step in (20, 60):
        alone = evaluate({**settings, "max_iter": step, "checkpoints": ()}, X, Y, (train, test))
        assert alone["scores"] == {str(step): result["scores"][str(step)]}
    assert result["factorisations"] == 61 + 1 + 1


def test_a_checkpoint_has_the_start_that_a_short_training_chooses():
    split = np.arange(30), np.arange(30, 40)
    settings = {"max_iter": 400, "checkpoints": (400, 800), "n_restarts": 3, "noise_delay": 50}
    both = evaluate({**settings, "max_iter": 800}, X, Y, split)
    alone = evaluate({**settings, "checkpoints": ()}, X, Y, split)
    assert alone["scores"] == {"400": both["scores"]["400"]}


def test_wilcoxons_test_is_asked_after_six_folds_and_every_second_one():
    assert racing.rungs(10, racing=True) == (3, 6, 8, 10)
    assert racing.rungs(5, racing=True) == (3, 5)
    assert racing.rungs(3, racing=True) == racing.rungs(3, racing=False) == (3,)
    best = np.linspace(1.0, 2.0, 8)
    slightly_worse_everywhere = best + np.linspace(0.001, 0.008, 8)
    lucky_at_last = np.append(best[:7] + 0.01, 0.0)
    assert not racing.passes_rung(slightly_worse_everywhere, best)
    assert racing.passes_rung(lucky_at_last, best)
    assert racing.passes_rung(best, None)
    # Before that, the mean decides.
    assert not racing.passes_rung(best[:3] + np.array([0.1, 0.0, -0.05]), best[:3])


def test_bases_are_computed_once_per_fold_and_degree():
    memory = Memory(max_bytes=10**7)
    with remembering(memory):
        PCEGPRegressor(degree=2, max_iter=2).fit(X, Y)
        assert memory.hits == 0
        PCEGPRegressor(degree=2, max_iter=2, penalty=1.0, scale="shared").fit(X, Y)
        assert memory.hits == 2  # of scale and noise
        PCEGPRegressor(degree=1, max_iter=2, noise="constant").fit(X, Y)
        assert memory.hits == 3  # degree 1 was the noise's
    with remembering(Memory(max_bytes=0)):
        PCEGPRegressor(degree=2, max_iter=2).fit(X, Y)


def test_remembered_bases_change_nothing():
    memory, models = Memory(max_bytes=10**7), []
    for _ in range(2):
        with remembering(memory):
            models.append(PCEGPRegressor(max_iter=5).fit(X, Y))
    plain = PCEGPRegressor(max_iter=5).fit(X, Y)
    for model in models:
        assert (model.posteriors_[0].theta == plain.posteriors_[0].theta).all()


scores_of_folds = st.lists(st.floats(0.1, 10), min_size=6, max_size=10)


@given(scores_of_folds)
def test_no_trial_is_worse_than_itself(values):
    scores = np.array(values)
    assert not racing.is_worse(scores, scores)
    assert racing.is_worse(scores + 1.0, scores)
    assert not racing.is_worse(scores - 0.01, scores)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40, unique=True))
def test_the_best_always_passes_the_screen_and_few_others_do(values):
    passed = [v for k, v in enumerate(values)
              if racing.passes_screen(v, values[:k] + values[k + 1:])]
    assert min(values) in passed
    assert len(passed) <= max(1, int(np.ceil(len(values) / 8)))


@given(st.integers(2, 10), st.integers(20, 4000))
def test_the_screen_is_the_first_fold_with_a_limit_on_its_rows(n_folds, n_rows):
    splits = list(KFold(n_folds, shuffle=True, random_state=0).split(np.zeros((n_rows, 1))))
    screen = racing.screen_of(splits)
    if len(splits[0][0]) <= 1000:
        assert screen is None
    else:
        train, valid = screen
        assert (valid == splits[0][1]).all()
        assert len(train) == 1000
        assert (np.diff(train) > 0).all()
        assert set(train) <= set(splits[0][0])


def test_a_large_table_is_screened_on_fewer_rows():
    rng = np.random.default_rng(0)
    many = rng.uniform(0, 1, (1200, 1))

    def cheap(trial):
        return {"penalty": trial.suggest_float("penalty", 1.0, 2.0), "degree": 1,
                "covariance": "matern52", "max_iter": 2}

    search = PCEGPSearchCV(cheap, n_trials=2, refit=False).fit(many, np.sin(6 * many[:, 0]))
    assert search.savings_["n_fits"] == 2 + search.cv_results_["n_folds"].sum()
    assert search.cv_results_["n_folds"][0] == 10


def test_stopped_trials_had_a_reason_to_stop(fitted):
    records = records_of(fitted.study_)
    assert records[0].state.name == "COMPLETE"  # the yardstick
    best = min(record.screen_score("crps") for record in records)
    stopped = [r for r in records if len(r.folds) == 1 and not r.copy_of]
    assert stopped
    assert all(record.screen_score("crps") > best for record in stopped)
    assert fitted.savings_["share"] < 0.6
    spent = sum(r.factorisations() for r in records)
    assert spent == fitted.savings_["factorisations"]


def test_without_racing_every_trial_gets_every_fold():
    space = spaces.Space(small, racing=False, objective="rmse", n_trials=3)
    search = PCEGPSearchCV(space, cv=3).fit(X, Y)
    assert (search.cv_results_["n_folds"] == 3).all()
    assert search.savings_["share"] == pytest.approx(1.0)
    assert "mean_test_rmse" in search.cv_results_
