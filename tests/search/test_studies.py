"""Studies: what a pause, a kill, an interrupt or another worker leaves of a search."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.exceptions import StorageInternalError
from sklearn.model_selection import KFold
from sklearn.preprocessing import FunctionTransformer

from pcegp import PCEGPRegressor, nested_cv
from pcegp.errors import (
    StorageError,
)
from pcegp.search import entries, finals
from pcegp.search import loop as tuning
from pcegp.search import storage as studies
from pcegp.search.problem import Problem
from pcegp.search.trials import finished, records_of
from small_search import SMALL, X, Y, outcome, quick, same, small, start_worker

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


def lines(file):
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_more_trials_are_what_they_would_have_been_at_once(fitted, tmp_path):
    file = tmp_path / "study.journal"
    quick(storage=file, n_trials=4).fit(X, Y)
    later = quick(storage=file).fit(X, Y)
    for name in ("params", "screen_crps"):
        assert same(list(later.cv_results_[name]), list(fitted.cv_results_[name]))
    # The finals of the first four gave folds to one that has none at once; none has fewer.
    assert (later.cv_results_["n_folds"] >= fitted.cv_results_["n_folds"]).all()
    assert later.best_score_ <= fitted.best_score_
    again = quick(storage=file).fit(X, Y)  # nothing is left to do
    assert same(outcome(again), outcome(later))
    assert len(again.study_.trials) == 10
    assert again.finals_.trials == later.finals_.trials


def test_a_study_without_storage_lives_in_a_journal_of_its_name(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick(study="plant").fit(X, Y)
    assert (tmp_path / "plant.journal").exists()
    assert same(outcome(quick(study="plant").fit(X, Y)), outcome(fitted))


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
    before = {name: optuna.load_study(study_name=name, storage=storage).trials
              for name in optuna.get_all_study_names(storage)}
    search = quick(storage=file, study="shared").fit(X, Y)
    for study in (search.study_, search.finals_):
        done = {trial.number: trial.values for trial in before.get(study.study_name, ())
                if trial.state.is_finished()}
        after = {trial.number: trial.values for trial in study.trials}
        assert done.items() <= after.items()
        assert not any(trial.state.name == "RUNNING" for trial in study.trials)
    assert same(outcome(search), outcome(fitted))


class Killed(BaseException):
    """Stands for a kill: nothing of ours catches it, and nothing is tidied up."""


def killed_after(monkeypatch, file, calls, **changes):
    """A search that ends as a kill would end it, after some calls of Optuna's ask and tell,
    or of a trial's attributes."""
    count = 0

    def counting(method):
        def call(*args, **named):
            nonlocal count
            count += 1
            if count > calls:
                raise Killed
            return method(*args, **named)
        return call

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "ask", counting(optuna.Study.ask))
        patch.setattr(optuna.Study, "tell", counting(optuna.Study.tell))
        patch.setattr(optuna.Trial, "set_user_attr", counting(optuna.Trial.set_user_attr))
        patch.setattr(studies.Worker, "__exit__", lambda self, *error: self._stopped.set())
        with suppress(Killed):
            quick(storage=file, **changes).fit(X, Y)
    studies._ALIVE_HERE.clear()


@given(first=st.integers(0, 140), second=st.integers(0, 60), third=st.integers(0, 20))
@settings(max_examples=15, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kills_at_any_call_and_again_leave_the_same_search(
    fitted, monkeypatch, tmp_path_factory, first, second, third
):
    file = tmp_path_factory.mktemp("killed") / "study.journal"
    for calls in (first, second, third):
        killed_after(monkeypatch, file, calls)
    search = quick(storage=file).fit(X, Y)
    assert same(outcome(search), outcome(fitted))
    assert [record.slot for record in records_of(search.study_)] == list(range(10))


def test_a_trial_left_before_it_was_whole_gets_the_suggestion_of_its_slot(monkeypatch, tmp_path):
    space = replace(SMALL, starts=({"degree": 0}, {"degree": 1}, {"degree": 2}))
    file = tmp_path / "study.journal"
    undisturbed = quick(space=space, n_trials=4).fit(X, Y)
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "settings", raising)
        patch.setattr(studies.Worker, "__exit__", lambda self, *error: self._stopped.set())
        with pytest.raises(Killed):
            quick(space=space, storage=file, n_trials=4).fit(X, Y)
    studies._ALIVE_HERE.clear()
    assert same(outcome(quick(space=space, storage=file, n_trials=4).fit(X, Y)),
                outcome(undisturbed))


def raising(*_):
    raise Killed


@pytest.mark.parametrize("module", [tuning, finals])
def test_a_worker_that_was_given_up_finds_its_trials_repeated(
    fitted, tmp_path, monkeypatch, module
):
    """Silent for long, as on a suspended machine, and back again."""
    file = tmp_path / "study.journal"
    run, woken = entries.run, []

    def late(problem, tasks, parallel):
        run(problem, tasks, parallel)
        if not woken:
            woken.append(True)
            with monkeypatch.context() as patch:
                patch.setattr(studies, "_ALIVE_HERE", set())
                quick(storage=file, refit=False).fit(X, Y)  # thinks the first one is gone

    monkeypatch.setattr(module, "run", late)
    search = quick(storage=file).fit(X, Y)
    assert same(outcome(search), outcome(fitted))


def test_a_worker_that_was_given_up_with_copies_in_its_batch_ends_well(tmp_path, monkeypatch):
    def two(trial):
        return small(trial) | {"penalty": 1.0, "scale": "shared"}

    space, file = replace(SMALL, suggest=two), tmp_path / "study.journal"
    undisturbed = quick(space=space).fit(X, Y)
    assert any(copy is not None for copy in undisturbed.cv_results_["copy_of"][:4])
    run, woken = entries.run, []

    def late(problem, tasks, parallel):
        run(problem, tasks, parallel)
        if not woken:
            woken.append(True)
            with monkeypatch.context() as patch:
                patch.setattr(studies, "_ALIVE_HERE", set())
                quick(space=space, storage=file, refit=False).fit(X, Y)

    monkeypatch.setattr(tuning, "run", late)
    assert same(outcome(quick(space=space, storage=file).fit(X, Y)), outcome(undisturbed))


@pytest.mark.parametrize("calls", [8, 30, 55, 80])
def test_a_space_that_raises_and_a_kill_leave_the_same_search(monkeypatch, tmp_path, calls):
    def raises_at_two(trial):
        settings = small(trial)
        if settings["degree"] == 2:
            raise RuntimeError("no degree of two")
        return settings

    space, file = replace(SMALL, suggest=raises_at_two), tmp_path / "study.journal"
    undisturbed = quick(space=space, n_trials=16).fit(X, Y)
    assert "fail" in undisturbed.cv_results_["state"]
    killed_after(monkeypatch, file, calls, space=space, n_trials=16)
    search = quick(space=space, n_trials=16, storage=file).fit(X, Y)
    assert same(outcome(search), outcome(undisturbed))


def test_who_is_disturbed_while_leaving_is_not_waited_for(fitted, tmp_path, monkeypatch):
    """A second Ctrl-C, or a storage that is down at the end, leaves trials running."""
    file = tmp_path / "study.journal"
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "run", raising)
        patch.setattr(studies.Worker, "_leave", raising)
        with pytest.raises(Killed):
            quick(storage=file).fit(X, Y)
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


def test_a_process_that_left_a_study_is_not_waited_for(tmp_path):
    storage = studies.open_storage(tmp_path / "study.journal")
    study = optuna.create_study(storage=storage, study_name="a")
    with studies.Worker(study) as gone:
        trial = study.ask()
        for name, value in ((studies.WORKER, gone.id), (studies.SLOT, 0), (studies.SETTINGS, {})):
            trial.set_user_attr(name, value)
    with studies.Worker(study) as worker:
        assert [left.number for left in worker.trials_to_repeat()] == [0]


@pytest.mark.parametrize(("silent", "alive"), [(0.0, True), (10_000.0, False)])
def test_workers_of_another_machine_are_alive_as_long_as_they_are_heard_of(
    tmp_path, silent, alive
):
    study = optuna.create_study(storage=studies.open_storage(tmp_path / "study.journal"))
    study.set_user_attr("worker elsewhere/1/5/abc", time.time() - silent)
    with studies.Worker(study) as worker:
        assert worker._is_alive("elsewhere/1/5/abc") == alive


def test_a_container_of_the_same_name_is_another_machine(tmp_path, monkeypatch):
    """Its first process has the number 1, as ours may have."""
    study = optuna.create_study(storage=studies.open_storage(tmp_path / "study.journal"))
    here = studies._host()
    monkeypatch.setattr(studies, "_host", lambda: "the-same 4026532281")
    other = studies.Worker(study).id
    study.set_user_attr(f"worker {other}", time.time())
    monkeypatch.setattr(studies, "_host", lambda: "the-same 4026532999")
    with studies.Worker(study) as worker:
        assert worker._is_alive(other)
    assert here.split()[0] == socket.gethostname()


def test_without_proc_a_killed_process_is_still_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "_started", lambda pid: None)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    study = optuna.create_study(storage=studies.open_storage(tmp_path / "study.journal"))
    with studies.Worker(study) as worker:
        for pid, alive in ((ended.pid, False), (os.getppid(), True)):
            name = f"{studies._host()}/{pid}//abc"
            study.set_user_attr(f"worker {name}", time.time())
            assert worker._is_alive(name) == alive


@pytest.mark.parametrize("calls", [30, 100])
def test_a_line_that_was_half_written_is_cut_off(fitted, tmp_path, monkeypatch, calls):
    file = tmp_path / "study.journal"
    killed_after(monkeypatch, file, calls)
    with file.open("ab") as stream:
        stream.write(b'{"op_code": 8, "wor')
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


def test_several_workers_share_a_study(tmp_path):
    file = tmp_path / "study.journal"
    workers = [start_worker(file, 12) for _ in range(2)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    search = quick(storage=file, study="shared", n_trials=12).fit(X, Y)
    trials = search.study_.trials
    records = records_of(search.study_)
    assert sorted(record.slot for record in records) == list(range(12))
    assert len({trial.user_attrs.get("worker") for trial in trials} - {None}) == 2
    assert all(trial.state.is_finished() for trial in trials)
    units = [t.user_attrs["slot"] for t in search.finals_.trials if not studies.is_stale(t)]
    assert len(set(units)) == len(units) > 2  # each was worked on once


def test_what_was_left_is_repeated_once_by_workers_that_start_together(tmp_path, monkeypatch):
    file = tmp_path / "study.journal"
    killed_after(monkeypatch, file, calls=60, study="shared", n_trials=12)
    workers = [start_worker(file, 12) for _ in range(3)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    search = quick(storage=file, study="shared", n_trials=12).fit(X, Y)
    assert [record.slot for record in records_of(search.study_)] == list(range(12))


def test_a_storage_that_fails_ends_the_run_not_the_trial(fitted, tmp_path, monkeypatch):
    file, suggest, calls = tmp_path / "study.journal", optuna.Trial.suggest_int, []

    def failing(self, *args, **named):
        calls.append(1)
        if len(calls) == 7:
            raise StorageInternalError("the server went away")
        return suggest(self, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Trial, "suggest_int", failing)
        with pytest.raises(StorageError, match=r"server went away.*start again"):
            quick(storage=file).fit(X, Y)
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


def doubled(values):
    return 2 * values


def test_an_object_in_the_settings_is_the_same_in_another_process(tmp_path):
    def own(trial):
        return small(trial) | {"input_scaler": FunctionTransformer(doubled)}

    space, file = replace(SMALL, suggest=own), tmp_path / "study.journal"
    quick(space=space, storage=file, n_trials=1).fit(X, Y)
    again = quick(space=space, storage=file, n_trials=2).fit(X, Y)  # new objects, other addresses
    assert len(again.cv_results_["params"]) == 2


def test_a_study_of_another_estimator_or_space_is_not_carried_on(tmp_path):
    file = tmp_path / "study.journal"
    quick(storage=file, n_trials=1).fit(X, Y)

    def changed(trial):
        return small(trial) | {"max_iter": 9}

    changed.__module__, changed.__qualname__ = small.__module__, small.__qualname__
    with pytest.raises(StorageError, match="another space or estimator"):
        quick(storage=file, estimator=PCEGPRegressor(noise_floor=0.5)).fit(X, Y)
    with pytest.raises(StorageError, match="another space or estimator"):
        quick(storage=file, space=replace(SMALL, suggest=changed)).fit(X, Y)


def test_a_study_of_other_data_is_not_carried_on(tmp_path):
    file = tmp_path / "study.journal"
    before = quick(storage=file, n_trials=1).fit(X, Y).study_.trials
    with pytest.raises(StorageError, match="another data"):
        quick(storage=file).fit(X, 2 * Y)
    with pytest.raises(StorageError, match="another seed"):
        quick(storage=file, cv=KFold(6, shuffle=True, random_state=0), random_state=1).fit(X, Y)
    for other in ({"space": replace(SMALL, racing=False)}, {"objective": "rmse"}):
        with pytest.raises(StorageError, match=r"another (screen|objective)"):
            quick(storage=file, **other).fit(X, Y)
    assert quick(storage=file, n_trials=1).fit(X, Y).study_.trials == before


def test_a_file_of_another_kind_is_left_alone(tmp_path):
    for content in (b"a,b\n1,2\n", b"PK\x03\x04 not a journal", b"[1]\n", b"\x00"):
        file = tmp_path / "table.csv"
        file.write_bytes(content)
        with pytest.raises(StorageError, match="not the journal"):
            quick(storage=file).fit(X, Y)
        assert file.read_bytes() == content


def test_a_nested_run_keeps_a_study_per_outer_fold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    search = quick(n_trials=1, cv=3, study="plant")
    first = nested_cv(search, X, Y, cv=2, groups=np.arange(40) // 2)
    again = nested_cv(search, X, Y, cv=2, groups=np.arange(40) // 2)
    assert (first["RMSE"] == again["RMSE"]).all()
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend("plant.journal")
    )
    assert optuna.get_all_study_names(storage) == [
        "plant-outer0", "plant-outer0 finals", "plant-outer1", "plant-outer1 finals",
    ]
    nested_cv(quick(n_trials=1, cv=3, storage=tmp_path / "other.journal"), X, Y, cv=2)


def test_results_are_plain_data_in_the_study(fitted):
    for trial in (*fitted.study_.trials, *fitted.finals_.trials):
        json.dumps(trial.user_attrs)
    assert finished(records_of(fitted.study_, fitted.finals_))
