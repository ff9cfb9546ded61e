"""The search: laws of racing and resuming, honest scores, clear refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

import pcegp
from pcegp import PCEGPMixture, PCEGPRegressor, PCEGPSearchCV, nested_cv, racing, spaces
from pcegp.errors import (
    DataError,
    DataWarning,
    NumericalWarning,
    SearchError,
    SettingError,
    StorageError,
)
from pcegp.folds import evaluate
from pcegp.records import finished, records_of, signature
from pcegp.remembering import Memory, remembering

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (40, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.05 * RNG.normal(size=40)


def small(trial):
    """A space whose trials take milliseconds."""
    return {
        "scale": trial.suggest_categorical("scale", ["shared", "per_input"]),
        "degree": trial.suggest_int("degree", 0, 2),
        "penalty": trial.suggest_float("penalty", 0.1, 10.0, log=True),
        "max_iter": 8,
        "checkpoints": (4, 8),
    }


SMALL = spaces.Space(small, n_random=4)  # so that TPE gets to work


def quick(**changes):
    return PCEGPSearchCV(**{"space": SMALL, "n_trials": 10, "cv": 6, **changes})


def outcome(search):
    """What must not depend on jobs, kills or pauses."""
    table = search.cv_results_
    names = ["state", "n_folds", "steps", "mean_test_crps", "screen_crps"]
    return [table["params"], *(np.asarray(table[name]).tolist() for name in names)]


def same(one, other):
    return repr(one) == repr(other)  # NaN equals NaN


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
    model = PCEGPRegressor(**fitted.best_params_)
    crps = []
    for train, test in KFold(6, shuffle=True, random_state=0).split(X):
        mean, std = model.fit(X[train], Y[train]).predict(X[test], return_std=True)
        crps.append(pcegp.metrics.crps(Y[test], mean, std))
    assert np.mean(crps) == pytest.approx(fitted.best_score_, rel=1e-12)


def test_jobs_do_not_change_the_result(fitted):
    assert same(outcome(quick(n_jobs=2).fit(X, Y)), outcome(fitted))


def test_batches_do(fitted):
    assert not same(outcome(quick(batch_size=1).fit(X, Y)), outcome(fitted))


def test_a_paused_search_goes_on_as_if_undisturbed(fitted, tmp_path):
    file = tmp_path / "study.journal"
    quick(storage=file, n_trials=4).fit(X, Y)
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))
    again = quick(storage=file).fit(X, Y)  # nothing is left to do
    assert same(outcome(again), outcome(fitted))
    assert len(again.study_.trials) == 10


def test_a_study_without_storage_lives_in_a_journal_of_its_name(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick(study="plant").fit(X, Y)
    assert (tmp_path / "plant.journal").exists()
    assert same(outcome(quick(study="plant").fit(X, Y)), outcome(fitted))


WORKER = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
from test_search import X, Y, quick
warnings.simplefilter("ignore")
quick(storage=sys.argv[2], study="shared", n_trials=int(sys.argv[3])).fit(X, Y)
"""


def start_worker(storage, n_trials=10):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(Path(__file__).parent), str(storage), str(n_trials)]
    )


def lines(file):
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.85])
def test_a_killed_search_loses_nothing_and_ends_the_same(fitted, tmp_path, share):
    whole = tmp_path / "whole.journal"
    quick(storage=whole, study="shared").fit(X, Y)
    file = tmp_path / "killed.journal"
    worker = start_worker(file)
    while lines(file) < share * lines(whole) and worker.poll() is None:
        time.sleep(0.002)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(file)))
    before = optuna.load_study(study_name="shared", storage=storage).trials
    done = {trial.number: trial.values for trial in before if trial.state.is_finished()}
    search = quick(storage=file, study="shared").fit(X, Y)
    after = {trial.number: trial.values for trial in search.study_.trials}
    assert done.items() <= after.items()
    assert same(outcome(search), outcome(fitted))
    assert not any(trial.state.name == "RUNNING" for trial in search.study_.trials)


def test_a_line_that_was_half_written_is_cut_off(fitted, tmp_path):
    file = tmp_path / "study.journal"
    quick(storage=file, n_trials=4).fit(X, Y)
    with file.open("ab") as stream:
        stream.write(b'{"op_code": 8, "wor')
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


def test_several_workers_share_a_study(tmp_path):
    file = tmp_path / "study.journal"
    workers = [start_worker(file, 12) for _ in range(2)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    search = quick(storage=file, study="shared", n_trials=12).fit(X, Y)
    trials = search.study_.trials
    assert 12 <= len(trials) <= 12 + 1  # both may ask for the last one at the same moment
    assert len({trial.user_attrs["worker"] for trial in trials}) == 2
    assert all(trial.state.is_finished() for trial in trials)


def test_an_interrupt_keeps_the_best_so_far_and_the_rest_is_repeated(fitted, tmp_path):
    file = tmp_path / "study.journal"
    calls = []

    def interrupting(trial):
        calls.append(trial)
        if len(calls) == 1 + 4 + 2:  # the dry run, a batch, and into the next one
            os.kill(os.getpid(), signal.SIGINT)
        return small(trial)

    interrupting.__module__, interrupting.__qualname__ = small.__module__, small.__qualname__
    space = replace(SMALL, suggest=interrupting)
    with pytest.warns(NumericalWarning, match="interrupted"):
        stopped = quick(space=space, storage=file).fit(X, Y)
    assert len(stopped.cv_results_["params"]) == 4
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


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
def test_what_cannot_work_is_refused_before_any_training(changes, error, text):
    begin = time.perf_counter()
    with pytest.raises(error, match=text) as caught:
        quick(**changes).fit(X, Y)
    assert "secret" not in str(caught.value)
    assert time.perf_counter() - begin < 5.0


def test_bad_data_are_refused(tmp_path):
    for bad in (np.where(X > 0.9, np.nan, X), np.full((40, 2), "a")):
        with pytest.raises(DataError):
            quick(storage=tmp_path / "s.journal").fit(bad, Y)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="1d array"):
        quick().fit(X, np.column_stack([Y, Y]))
    with pytest.raises(NotFittedError):
        quick().predict(X)


def test_a_study_of_other_data_is_not_carried_on(tmp_path):
    file = tmp_path / "study.journal"
    before = quick(storage=file, n_trials=1).fit(X, Y).study_.trials
    with pytest.raises(StorageError, match="another data"):
        quick(storage=file).fit(X, 2 * Y)
    with pytest.raises(StorageError, match="another seed"):
        quick(storage=file, cv=KFold(6, shuffle=True, random_state=0), random_state=1).fit(X, Y)
    assert quick(storage=file, n_trials=1).fit(X, Y).study_.trials == before


def test_a_file_of_another_kind_is_left_alone(tmp_path):
    for content in (b"a,b\n1,2\n", b"PK\x03\x04 not a journal", b"[1]\n", b"\x00"):
        file = tmp_path / "table.csv"
        file.write_bytes(content)
        with pytest.raises(StorageError, match="not the journal"):
            quick(storage=file).fit(X, Y)
        assert file.read_bytes() == content


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


def test_nested_scores_tell_noise_from_signal():
    table = nested_cv(quick(n_trials=3, cv=3), X, RNG.normal(size=40), cv=4)
    assert table["R2"].mean() < 0.2
    table = nested_cv(quick(n_trials=3, cv=3), X, Y, cv=ShuffleSplit(2, random_state=0))
    assert table["R2"].shape == (2,)
    assert table["R2"].mean() > 0.5


def test_a_nested_run_keeps_a_study_per_outer_fold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    search = quick(n_trials=1, cv=3, study="plant")
    first = nested_cv(search, X, Y, cv=2, groups=np.arange(40) // 2)
    again = nested_cv(search, X, Y, cv=2, groups=np.arange(40) // 2)
    assert (first["RMSE"] == again["RMSE"]).all()
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend("plant.journal")
    )
    assert optuna.get_all_study_names(storage) == ["plant-outer0", "plant-outer1"]


def test_a_timeout_begins_no_further_batch():
    search = quick(timeout=1e-9, n_trials=100)
    with pytest.raises(SearchError, match="in the time given"):
        search.fit(X, Y)
    search = quick(timeout=0.5, n_trials=10_000).fit(X, Y)
    assert 4 <= len(search.cv_results_["params"]) < 10_000


def test_the_base_estimator_sets_what_the_space_leaves_open():
    base = PCEGPRegressor(noise_floor=1e-3, max_iter=7)
    search = quick(estimator=base, n_trials=1).fit(X, Y)
    assert search.best_estimator_.noise_floor == 1e-3
    assert search.best_params_["max_iter"] in (4, 8)  # the space's own


def test_the_ensemble_has_different_structures_and_the_best_one_first():
    search = quick(n_trials=16).fit(X, Y)
    best, first, *others = search.ensemble_params_
    structures = [(p["scale"], p["degree"]) for p in others]
    assert len(set(structures)) == len(structures)
    assert best == search.best_params_
    assert first["penalty"] == search.cv_results_["params"][0]["penalty"]
    alone = quick(n_trials=16, ensemble=1).fit(X, Y)
    assert alone.ensemble_ is None
    assert (alone.predict(X) == search.best_estimator_.predict(X)).all()
    members = np.array([m.predict(X) for m in search.ensemble_.estimators_])
    assert search.predict(X) == pytest.approx(members.mean(axis=0))


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


def test_a_mixture_has_the_moments_of_its_members(tmp_path):
    members = [PCEGPRegressor(degree=q, max_iter=20) for q in (0, 1, 2)]
    mixture = PCEGPMixture(members).fit(X, Y)
    new = RNG.uniform(0.2, 0.8, (4, 2))
    draws = np.concatenate([
        m.sample_y(new, 20_000, random_state=k) for k, m in enumerate(mixture.estimators_)
    ], axis=1)
    mean, std = mixture.predict(new, return_std=True)
    assert mean == pytest.approx(draws.mean(axis=1), abs=4 * std.max() / 60_000**0.5)
    assert std == pytest.approx(draws.std(axis=1), rel=0.02)
    mean, covariance = mixture.predict(new, return_cov=True)
    assert np.sqrt(np.diag(covariance)) == pytest.approx(std)
    assert covariance == pytest.approx(np.cov(draws), abs=0.03 * std.max() ** 2)
    loaded = pcegp.load(mixture.save(tmp_path / "mixture.pcegp"))
    for one, other in zip(loaded.predict(new, return_std=True),
                          mixture.predict(new, return_std=True), strict=True):
        assert (one == other).all()
    with pytest.raises(SettingError, match="at least one"):
        PCEGPMixture([]).fit(X, Y)


def test_only_what_the_user_can_change_is_warned_about():
    wide = np.column_stack([X, np.ones(40)])
    with pytest.warns(DataWarning, match="constant column number 2"):
        quick(n_trials=1).fit(wide, Y)


def test_a_bar_shows_trials_and_best_score(capsys):
    quick(n_trials=2, verbose=True).fit(X, Y)
    shown = capsys.readouterr().err
    assert "2/2" in shown
    assert "best crps" in shown
    quick(n_trials=2).fit(X, Y)
    assert capsys.readouterr() == ("", "")


def tiny(trial):
    return {"degree": trial.suggest_int("degree", 0, 1), "max_iter": 3}


@pytest.mark.filterwarnings("ignore")  # of data that are made to be odd
@parametrize_with_checks([
    PCEGPSearchCV(tiny, n_trials=1, cv=2), PCEGPMixture([PCEGPRegressor(max_iter=3)]),
])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def test_results_are_plain_data_in_the_study(fitted):
    for trial in fitted.study_.trials:
        json.dumps(trial.user_attrs)
    assert finished(records_of(fitted.study_))
