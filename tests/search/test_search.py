"""The search as an estimator: its answer, honest scores, clear refusals."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.preprocessing import PowerTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from pcegp import PCEGPMixture, PCEGPRegressor, PCEGPSearchCV, nested_cv
from pcegp.errors import (
    DataError,
    DataWarning,
    NumericalWarning,
    SearchError,
    SettingError,
    StorageError,
    TrainingError,
)
from pcegp.metrics import crps
from pcegp.search import spaces
from small_models import known_failures
from small_search import RNG, SMALL, X, Y, outcome, quick, same, small

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


def test_the_answer_predicts_and_looks_like_scikit_learns(fitted):
    mean, std = fitted.predict(X[:3], return_std=True)
    assert mean.shape == std.shape == (3,)
    assert (std > 0).all()
    assert fitted.score(X, Y) > 0.8
    assert fitted.best_params_.items() <= fitted.best_estimator_.get_params().items()
    assert len(fitted.cv_results_["params"]) == 10
    assert fitted.cv_results_["rank_test_crps"][fitted.best_index_] == 1
    assert fitted.best_score_ == fitted.cv_results_["mean_test_crps"][fitted.best_index_]
    assert fitted.cv_results_["optimistic"].all()
    assert fitted.n_features_in_ == 2
    assert clone(fitted).get_params() == fitted.get_params()


def test_the_best_score_is_what_scikit_learn_computes_for_the_best_settings(fitted):
    model = PCEGPRegressor(**fitted.best_params_, n_draws=0)  # as trials are scored
    found = []
    for train, test in KFold(6, shuffle=True, random_state=0).split(X):
        mean, std = model.fit(X[train], Y[train]).predict(X[test], return_std=True)
        found.append(crps(Y[test], mean, std))
    assert np.mean(found) == pytest.approx(fitted.best_score_, rel=1e-12)


def test_jobs_do_not_change_the_result(fitted):
    assert same(outcome(quick(n_jobs=2).fit(X, Y)), outcome(fitted))


def test_batches_do(fitted):
    assert not same(outcome(quick(batch_size=1).fit(X, Y)), outcome(fitted))


def test_several_objectives_keep_a_front():
    search = quick(objective=["rmse", "nll"], n_trials=8, cv=3).fit(X, Y)
    front = search.pareto_front_
    points = np.array([[entry["rmse"], entry["nll"]] for entry in front])
    everyone = np.column_stack([search.cv_results_[f"mean_test_{n}"] for n in ("rmse", "nll")])
    for point in points:
        assert not ((everyone <= point).all(axis=1) & (everyone < point).any(axis=1)).any()
    assert search.best_score_ == points[:, 0].min()


def test_a_trial_that_fails_is_recorded_and_does_not_end_the_search():
    def risky(trial):
        degree = trial.suggest_int("degree", 0, 90)
        return {"degree": degree, "max_iter": 4, "max_basis_gb": 1e-4}

    search = quick(space=risky, n_trials=8).fit(X, Y)
    failed = search.cv_results_["state"] == "fail"
    assert failed.any()
    assert not failed.all()
    assert all("max_basis_gb" in reason for reason in search.cv_results_["reason"][failed])
    with pytest.raises(SearchError, match=r"none of 2 trials.*max_basis_gb"):
        quick(space=lambda t: {**risky(t), "max_basis_gb": 1e-9}, n_trials=2).fit(X, Y)


def test_whatever_a_users_own_parts_raise_ends_a_trial_not_the_search(tmp_path):
    def own(trial):
        degree = trial.suggest_int("degree", 0, 3)
        if degree == 3:
            raise RuntimeError("a branch that was never tried")
        scaler = PowerTransformer("box-cox") if degree == 2 else "minmax"  # needs positive data
        return {"degree": degree, "input_scaler": scaler, "max_iter": 3,
                **({"degre": 1} if degree == 1 else {})}

    space = spaces.Space(own, tuple({"degree": degree} for degree in range(4)))
    for _ in range(2):  # and a second run has nothing to repeat
        search = quick(space=space, n_trials=4, storage=tmp_path / "own.journal").fit(X - 0.5, Y)
        assert list(search.cv_results_["state"]) == ["complete", "fail", "fail", "fail"]
        assert len(search.study_.trials) == 4
    for number, text in enumerate(("degre", "strictly positive", "never tried"), 1):
        assert text in search.cv_results_["reason"][number]


def test_a_target_that_never_changes_has_an_answer():
    with pytest.warns(DataWarning, match="constant"):
        search = quick(n_trials=2, objective="rmse").fit(X, np.full(40, 3.0))
    assert search.predict(X[:2]) == pytest.approx([3.0, 3.0])


def empty(trial):
    return {}


def unknown(trial):
    return {"degre": trial.suggest_int("degre", 0, 2)}


def impossible(trial):
    return {"degree": trial.suggest_int("degree", -3, -1)}


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"space": empty}, SettingError, "empty"),
        ({"space": lambda t: {"degree": 1}}, SettingError, "suggests nothing"),
        ({"space": unknown}, SettingError, "'degre' is not known"),
        ({"space": impossible}, SettingError, "degree=-"),
        ({"space": "best"}, SettingError, "auto, paper"),
        ({"space": 3}, SettingError, "function that takes a trial"),
        ({"objective": "mse"}, SettingError, "rmse, nll, crps"),
        ({"objective": ["rmse", "rmse"]}, SettingError, "once"),
        ({"objective": []}, SettingError, "once"),
        ({"objective": 5}, SettingError, "a name or a list"),
        ({"n_trials": 0}, SettingError, "n_trials=0"),
        ({"ensemble": 0}, SettingError, "ensemble=0"),
        ({"timeout": -1.0}, SettingError, "timeout"),
        ({"batch_size": 0}, SettingError, "batch_size"),
        ({"estimator": "gp"}, SettingError, "PCEGPRegressor"),
        ({"cv": 41}, DataError, "40 rows cannot be split into 41 folds"),
        ({"cv": 1}, SettingError, "cv=1"),
        ({"cv": "ten"}, SettingError, "splitter"),
        ({"storage": "postgresql://nobody:secret@127.0.0.1:1/none"}, StorageError, r"\*\*\*"),
        ({"storage": "nosuch://"}, StorageError, "cannot be used"),
        ({"storage": "/dev/null/study.journal"}, StorageError, "/dev/null/study.journal"),
    ],
)
def test_what_cannot_work_is_refused_before_any_training(monkeypatch, changes, error, text):
    monkeypatch.setattr("pcegp.search.loop.evaluate", None)
    with pytest.raises(error, match=text) as caught:
        quick(**changes).fit(X, Y)
    assert "secret" not in str(caught.value)


def test_bad_data_are_refused(tmp_path):
    for bad in (np.where(X > 0.9, np.nan, X), np.full((40, 2), "a")):
        with pytest.raises(DataError):
            quick(storage=tmp_path / "s.journal").fit(bad, Y)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="1d array"):
        quick().fit(X, np.column_stack([Y, Y]))
    with pytest.raises(NotFittedError):
        quick().predict(X)


def test_groups_are_never_on_both_sides():
    groups = np.repeat(np.arange(10), 4)
    copied = np.repeat(X[::4], 4, axis=0)
    grouped = quick(n_trials=1).fit(copied, Y, groups=groups)
    assert len(grouped.cv_results_["params"]) == 1
    noise = RNG.normal(size=10)[groups]  # can only be known from a copy of the row
    leaking = quick(n_trials=1, objective="rmse").fit(copied, noise)
    honest = quick(n_trials=1, objective="rmse").fit(copied, noise, groups=groups)
    assert honest.best_score_ > 2.0 * leaking.best_score_
    with pytest.raises(DataError, match="10 groups"):
        quick(cv=11).fit(X, Y, groups=groups)
    with pytest.raises(SettingError, match="both sides"):
        quick(cv=KFold(6, shuffle=True, random_state=0)).fit(X, Y, groups=groups)


def test_nested_scores_tell_noise_from_signal():
    table = nested_cv(quick(n_trials=3, cv=3), X, RNG.normal(size=40), cv=4)
    assert table["R2"].mean() < 0.2
    table = nested_cv(quick(n_trials=3, cv=3), X, Y, cv=ShuffleSplit(2, random_state=0))
    assert table["R2"].shape == (2,)
    assert table["R2"].mean() > 0.5


def test_a_timeout_begins_no_further_batch(monkeypatch):
    search = quick(timeout=1e-9, n_trials=100)
    with pytest.raises(SearchError, match="in the time given"):
        search.fit(X, Y)
    clock = count(step=1.0)
    monkeypatch.setattr("pcegp.search.loop.monotonic", lambda: next(clock))  # a second per look
    search = quick(timeout=13.0, n_trials=10_000).fit(X, Y)
    # A look for new trials, one for their first fold; the first trial takes one more.
    assert len(search.cv_results_["params"]) == 12
    assert (search.cv_results_["n_folds"] > 1).sum() > 1  # half of the time is for the best


def test_the_base_estimator_sets_what_the_space_leaves_open():
    base = PCEGPRegressor(noise_floor=1e-3, max_iter=7)
    search = quick(estimator=base, n_trials=1).fit(X, Y)
    assert search.best_estimator_.noise_floor == 1e-3
    assert search.best_params_["max_iter"] in (4, 8)  # the space's own


def test_the_ensemble_has_different_structures_and_the_best_one_first():
    search = quick(n_trials=16).fit(X, Y)
    structures = [(p["scale"], p["degree"]) for p in search.ensemble_params_]
    assert len(set(structures)) == len(structures) > 1
    assert search.ensemble_params_[0] == search.best_params_
    alone = quick(n_trials=16, ensemble=1).fit(X, Y)
    assert alone.ensemble_ is None
    assert (alone.predict(X) == search.best_estimator_.predict(X)).all()
    members = np.array([m.predict(X) for m in search.ensemble_.estimators_])
    assert (search.predict(X) >= members.min(axis=0) - 1e-12).all()
    assert (search.predict(X) <= members.max(axis=0) + 1e-12).all()


def test_the_first_start_is_a_member_and_a_first_trial_at_random_is_not():
    worst = {"scale": "shared", "degree": 0, "penalty": 10.0}
    space = replace(SMALL, starts=(worst,))
    search = quick(space=space, n_trials=12).fit(X, Y)
    assert search.ensemble_params_[1]["penalty"] == 10.0
    paper = PCEGPSearchCV(replace(spaces.SPACES["paper"], suggest=small), n_trials=8, cv=3)
    assert paper.fit(X, Y).ensemble_ is None  # the paper's search has one answer


def test_a_first_trial_that_is_not_the_default_must_earn_its_place():
    """Of a space with names of its own the default setting knows nothing."""
    def own(trial):
        return {"noise_floor": trial.suggest_float("my_floor", 1e-6, 50.0, log=True),
                "degree": trial.suggest_int("my_degree", 0, 2), "max_iter": 8, "n_draws": 0}

    search = quick(space=own, n_trials=8, random_state=3).fit(X, Y)
    table = search.cv_results_
    first, best = table["mean_test_crps"][0], search.best_score_
    assert first > 2.0 * best  # it was a bad one
    floors = [params["noise_floor"] for params in search.ensemble_params_]
    assert table["params"][0]["my_floor"] not in floors
    # A space that only leaves something away still begins with the default.
    kept = quick(space=lambda t: {**small(t), "scale": "per_input"}, n_trials=8).fit(X, Y)
    assert any(params["penalty"] == 3.0 for params in kept.ensemble_params_)


def test_a_member_that_fails_on_all_rows_is_left_out(monkeypatch):
    search = quick(n_trials=16, refit=False).fit(X, Y)
    assert len(search.ensemble_params_) == 2
    bad = search.ensemble_params_[1]
    fit = PCEGPRegressor._fit

    def failing(self, X, y, *rest, **more):
        if len(X) == len(Y) and self.degree == bad["degree"] and self.scale == bad["scale"]:
            raise TrainingError("no finite likelihood")
        return fit(self, X, y, *rest, **more)

    monkeypatch.setattr(PCEGPRegressor, "_fit", failing)
    with pytest.warns(NumericalWarning, match="left out: no finite likelihood"):
        other = quick(n_trials=16).fit(X, Y)
    assert other.ensemble_params_ == [search.best_params_]
    assert other.ensemble_ is None
    assert np.isfinite(other.predict(X)).all()
    bad = search.best_params_
    with pytest.raises(TrainingError, match="no finite likelihood"):
        quick(n_trials=16).fit(X, Y)


def test_only_what_the_user_can_change_is_warned_about():
    wide = np.column_stack([X, np.ones(40)])
    with pytest.warns(DataWarning, match="constant column number 2"):
        quick(n_trials=1).fit(wide, Y)


def test_a_bar_shows_trials_and_best_score(capsys):
    quick(n_trials=2, verbose=True).fit(X, Y)
    shown = capsys.readouterr().err
    assert "2 of 2 trials" in shown
    assert "best crps" in shown
    quick(n_trials=2).fit(X, Y)
    assert capsys.readouterr() == ("", "")


class Tiny:
    """A space with the same text in every process, which names the tests."""

    def __repr__(self):
        return "tiny"

    def __call__(self, trial):
        return {"degree": trial.suggest_int("degree", 0, 1), "max_iter": 3}


def failures_of(estimator):
    """Name the checks that are known to fail; a search takes no weights."""
    return known_failures(estimator) if isinstance(estimator, PCEGPMixture) else {}


@pytest.mark.filterwarnings("ignore")  # of data that are made to be odd
@parametrize_with_checks(
    [PCEGPSearchCV(Tiny(), n_trials=1, cv=2), PCEGPMixture([PCEGPRegressor(max_iter=3)]),
     PCEGPMixture([PCEGPRegressor(optimizer="nadam", max_iter=3)])],
    expected_failed_checks=failures_of, xfail_strict=True,
)
def test_scikit_learns_contract(estimator, check):
    check(estimator)
