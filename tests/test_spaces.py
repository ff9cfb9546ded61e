"""The spaces of a search: the paper's tables, the automatic one, your own."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from pcegp import PCEGPSearchCV, spaces
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
             "noise": "constant", "penalty": 0.0}
    assert all(fixed.items() <= s.items() for s in seen)
    wine = spaces.resolve("paper_wine")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    assert max(wine.suggest(study.ask())["max_iter"] for _ in range(100)) == 500


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
