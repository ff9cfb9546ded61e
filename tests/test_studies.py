"""Studies: what a pause, a kill, an interrupt or another worker leaves of a search."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace

import numpy as np
import optuna
import pytest
from sklearn.model_selection import KFold

from pcegp import nested_cv
from pcegp.errors import (
    NumericalWarning,
    StorageError,
)
from pcegp.records import finished, records_of
from small_search import SMALL, X, Y, outcome, quick, same, small, start_worker

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


def lines(file):
    return file.read_bytes().count(b"\n") if file.exists() else 0


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


@pytest.mark.usefixtures("interruptible")
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


def test_results_are_plain_data_in_the_study(fitted):
    for trial in fitted.study_.trials:
        json.dumps(trial.user_attrs)
    assert finished(records_of(fitted.study_))
