"""The spaces of a search: the paper's tables, the automatic one, your own."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from pcegp import PCEGPRegressor, PCEGPSearchCV
from pcegp.estimators import resolve
from pcegp.search import spaces
from small_search import X, Y, quick

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


def test_the_papers_space_is_its_table_of_bounds():
    paper = spaces.resolve("paper")
    assert (paper.n_trials, paper.n_random, paper.objective) == (200, 100, "rmse")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = [paper.suggest(study.ask()) for _ in range(300)]
    assert {s["learning_rate"] for s in seen} == {0.001, 0.0025, 0.005, 0.01, 0.05, 0.1}
    assert {s["max_iter"] for s in seen} == {50, *range(100, 1001, 100)}
    starts = {round(a, 6) for s in seen for a in s["initial_scale"]}
    assert starts == {round(0.1 * k, 6) for k in range(1, 21)}
    assert all(len(s["initial_scale"]) == len(s["covariance"]) == 5 for s in seen)
    fixed = {"scale": "shared", "degree": 5, "basis": "legendre", "scale_transform": "identity",
             "noise": "constant", "penalty": 0.0, "noise_floor": 1e-4, "prior": 0.0, "averaging": 1,
             "n_restarts": 0, "n_draws": 0, "warm_up_rows": None}
    assert all(fixed.items() <= s.items() for s in seen)
    wine = spaces.resolve("paper_wine")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    assert max(wine.suggest(study.ask())["max_iter"] for _ in range(100)) == 500


@pytest.mark.parametrize("name", ["paper", "paper_wine", "general"])
def test_the_papers_searches_suggest_one_by_one_and_stop_nothing_early(name):
    space = spaces.resolve(name)
    assert (space.racing, space.batch_size, space.multivariate, space.ensemble) == (
        False, 1, False, 1)


def test_the_general_algorithm_searches_what_appendix_f_lists():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = [spaces.suggest_general(study.ask()) for _ in range(300)]
    assert {s["degree"] for s in seen} == set(range(6))
    assert {(s["noise"], s["noise_degree"]) for s in seen} == {
        ("constant", 0), ("expansion", 1), ("expansion", 2)}
    assert {s["learning_rate"] for s in seen} == {0.001, 0.0025, 0.005, 0.01, 0.05, 0.1}
    assert {s["input_range"] for s in seen} == {(-r, r) for r in (0.25, 0.5, 0.75, 1.0)}
    for name, low, high in (("penalty", 1e-3, 10.0), ("l1_ratio", 0.0, 1.0)):
        values = np.array([s[name] for s in seen])
        assert (low <= values).all()
        assert (values <= high).all()
        assert len(set(values)) == 300
    assert {s["checkpoints"] for s in seen} == {(50, 100, 200, 300, 400, 500)}


def test_the_automatic_space_has_all_its_dimensions_and_begins_with_nadams_default():
    space = spaces.resolve("auto")
    study = optuna.create_study(sampler=space.sampler(0, seed=0))
    trial = study.ask()
    settings = space.suggest(trial)
    assert trial.params.keys() == {
        "scale", "degree", "basis", "covariance", "scale_transform", "input_scaler",
        "input_range", "noise", "penalty", "learning_rate", "n_restarts"}
    assert settings.pop("checkpoints") == (100, 200, 300, 400)
    first = PCEGPRegressor(**settings)
    default = PCEGPRegressor(optimizer="nadam", degree=2, max_interaction=None)
    assert resolve(first.get_params(deep=False)) == resolve(default.get_params(deep=False))
    changed = {name for name, value in default.get_params(deep=False).items()
               if value != PCEGPRegressor().get_params(deep=False)[name]}
    assert changed == {"optimizer", "degree", "max_interaction"}


@pytest.mark.parametrize("failing", [False, True])
def test_suggestions_are_random_up_to_their_place_and_then_the_parzen_estimators(failing):
    """Trials that fail count: the paper's hundred random ones are a hundred."""
    space = spaces.Space(lambda t: {"penalty": t.suggest_float("penalty", 0.0, 1.0)},
                         n_random=20, batch_size=1)
    study = optuna.create_study()
    values = []
    for number in range(60):
        study.sampler = space.sampler(number, seed=0)
        trial = study.ask()
        values.append(space.suggest(trial)["penalty"])
        if failing and number % 2:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, (values[-1] - 0.3) ** 2)
    assert np.std(values[:20]) > 0.2  # 0.29 for a uniform density
    assert np.median(np.abs(np.array(values[20:]) - 0.3)) < 0.1


def test_a_start_that_is_not_in_a_users_space_is_not_tried():
    def own(trial):
        return {"degree": trial.suggest_int("degree", 1, 3, step=2),
                "penalty": trial.suggest_float("penalty", 0.5, 5.5, step=1.0),
                "noise_floor": trial.suggest_float("scale", 1e-6, 1e-4), "max_iter": 4}

    search = quick(space=own, n_trials=4, refit=False).fit(X, Y)
    for params in search.cv_results_["params"]:
        assert params["degree"] in (1, 3)
        assert params["penalty"] % 1.0 == 0.5
        assert 1e-6 <= params["scale"] <= 1e-4


@pytest.mark.parametrize("name", ["paper", "general", "auto"])
def test_every_space_runs(name):
    search = PCEGPSearchCV(name, n_trials=2, cv=2, random_state=5).fit(X[:16], Y[:16])
    assert np.isfinite(search.best_score_)
    assert len(search.cv_results_["params"]) == 2


def test_the_automatic_space_can_be_restricted_and_extended():
    def mine(trial):
        return spaces.suggest_auto(
            trial, degree=trial.suggest_int("degree", 0, 1), scale="shared", max_iter=5,
            checkpoints=(), noise_floor=trial.suggest_float("noise_floor", 1e-5, 1e-4),
        )

    search = quick(space=mine, n_trials=4).fit(X, Y)
    for params in search.cv_results_["params"]:
        assert "scale" not in params
        assert params["degree"] <= 1
        assert 1e-5 <= params["noise_floor"] <= 1e-4
    assert search.best_params_["scale"] == "shared"


def test_a_longer_training_is_scored_to_its_end():
    trial = optuna.create_study().ask()
    assert spaces.suggest_auto(trial, max_iter=1000)["checkpoints"] == (100, 200, 300, 400, 1000)
    assert spaces.suggest_auto(trial, max_iter=150)["checkpoints"] == (100, 150)
    assert spaces.suggest_auto(trial)["checkpoints"] == (100, 200, 300, 400)
