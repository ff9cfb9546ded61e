"""Studies: what a pause, a kill, an interrupt or another run leaves of a search."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from dataclasses import replace
from threading import current_thread, main_thread

import numpy as np
import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.exceptions import StorageInternalError
from optuna.storages import JournalStorage, RDBStorage
from optuna.trial import TrialState
from sklearn.model_selection import KFold
from sklearn.preprocessing import FunctionTransformer

from pcegp import PCEGPRegressor, nested_cv
from pcegp.errors import StorageError
from pcegp.search import loop, records_of, storage
from pcegp.search.coordinator import Coordinator
from pcegp.search.sampler import suggest
from small_search import SMALL, X, Y, outcome, quick, same, small, start_worker, wait_for

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


@pytest.fixture
def database(tmp_path, monkeypatch):
    """The URL of a database in which a killed process is noticed after a second."""
    monkeypatch.setattr(storage, "HEARTBEAT_INTERVAL", 1)
    monkeypatch.setattr(storage, "HEARTBEAT_GRACE", 1)
    return f"sqlite:///{tmp_path / 'study.db'}"


def lines(file):
    return file.read_bytes().count(b"\n") if file.exists() else 0


def study_in(file, name="pcegp"):
    """The study of a journal, as it stands; None if it was not made yet."""
    journal = JournalStorage(optuna.storages.journal.JournalFileBackend(str(file)))
    with suppress(KeyError):
        return optuna.load_study(study_name=name, storage=journal)
    return None


def results_in(file):
    """Every result of a journal, by position and split."""
    study = study_in(file)
    if study is None or "pcegp" not in study.user_attrs:
        return {}
    return {(record.position, name): result for record in records_of(study)
            if record.copy_of is None for name, result in record.results.items()}


@pytest.mark.parametrize("n_first", [4, 6])
def test_more_trials_are_what_they_would_have_been_at_once(fitted, tmp_path, n_first):
    file = tmp_path / "study.journal"
    quick(storage=file, n_trials=n_first).fit(X, Y)
    later = quick(storage=file).fit(X, Y)
    for name in ("params", "pilot_crps"):
        assert same(list(later.cv_results_[name]), list(fitted.cv_results_[name]))
    # The race of the first ones gave folds to some that have none at once; none has fewer.
    assert (later.cv_results_["n_folds"] >= fitted.cv_results_["n_folds"]).all()
    assert later.best_score_ <= fitted.best_score_
    again = quick(storage=file).fit(X, Y)  # nothing is left to do
    assert same(outcome(again), outcome(later))
    assert again.study_.trials == later.study_.trials


def test_a_stopped_trial_that_is_wanted_again_goes_on_with_what_it_has(tmp_path, monkeypatch):
    """Of four trials one goes on, of 14 three do: here the first ones, each worse than the last."""
    file, penalties = tmp_path / "study.journal", []

    def ranked(settings, X, y, split):
        if settings["penalty"] not in penalties:
            penalties.append(settings["penalty"])
        rank = float(penalties.index(settings["penalty"]))
        return {"scores": {"8": {"rmse": rank, "nll": rank, "crps": rank}}, "factorisations": 1}

    monkeypatch.setattr(loop, "evaluate", ranked)
    first = quick(storage=file, n_trials=4, refit=False).fit(X, Y)
    assert first.cv_results_["n_folds"].tolist() == [6, 1, 1, 1]
    later = quick(storage=file, n_trials=14, refit=False).fit(X, Y)
    assert later.cv_results_["n_folds"].tolist() == [6, 6, 3, *[1] * 11]
    retries = {t.number: t.system_attrs["retry_history"] for t in later.study_.trials
               if "retry_history" in t.system_attrs}
    assert retries == {14: [1], 15: [2]}
    for new, (old,) in retries.items():
        trials = later.study_.trials
        assert trials[old].state.name == "PRUNED"
        assert trials[old].user_attrs.items() <= trials[new].user_attrs.items()
        assert trials[old].params == trials[new].params


def test_a_study_without_storage_lives_in_a_journal_of_its_name(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick(study="plant").fit(X, Y)
    assert (tmp_path / "plant.journal").exists()
    assert same(outcome(quick(study="plant").fit(X, Y)), outcome(fitted))


@pytest.fixture(scope="module")
def n_lines(tmp_path_factory):
    file = tmp_path_factory.mktemp("whole") / "whole.journal"
    quick(storage=file).fit(X, Y)
    return lines(file)


@pytest.mark.parametrize("share", [0.15, 0.5, 0.85])
def test_a_killed_search_loses_nothing_and_ends_the_same(fitted, tmp_path, n_lines, share):
    file = tmp_path / "killed.journal"
    worker = start_worker(file, study="pcegp")
    wait_for(lambda: lines(file) >= share * n_lines or worker.poll() is not None, worker)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    before = results_in(file)
    told = {t.number: t.values for t in study_in(file).trials if t.state.is_finished()}
    search = quick(storage=file).fit(X, Y)
    assert before.items() <= results_in(file).items()  # seconds included: none computed again
    assert told.items() <= {trial.number: trial.values for trial in search.study_.trials}.items()
    assert all(trial.state.is_finished() for trial in search.study_.trials)
    assert same(outcome(search), outcome(fitted))


class Killed(BaseException):
    """Stands for a kill: nothing of ours catches it, and nothing is written after it."""


WRITES = ("create_new_study", "set_study_user_attr", "create_new_trial", "set_trial_user_attr",
          "set_trial_state_values", "set_trial_intermediate_value")


def killed_after(monkeypatch, place, calls, kind=JournalStorage, **changes):
    """A search that ends as a kill would end it, after some writes to its storage."""
    count = 0

    def counting(method):
        def call(*args, **named):
            nonlocal count
            if current_thread() is main_thread():  # heartbeats come when the clock says so
                count += 1
                if count > calls:
                    raise Killed
            return method(*args, **named)
        return call

    with monkeypatch.context() as patch:
        for name in (*WRITES, *(["record_heartbeat"] if kind is RDBStorage else [])):
            patch.setattr(kind, name, counting(getattr(kind, name)))
        with suppress(Killed):
            quick(storage=place, **changes).fit(X, Y)


@given(first=st.integers(0, 90), second=st.integers(0, 40), third=st.integers(0, 15))
@settings(max_examples=15, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kills_at_any_write_and_again_leave_the_same_search(
    fitted, monkeypatch, tmp_path_factory, first, second, third
):
    file = tmp_path_factory.mktemp("killed") / "study.journal"
    for calls in (first, second, third):
        before = results_in(file)
        killed_after(monkeypatch, file, calls)
        assert before.items() <= results_in(file).items()
    before = results_in(file)
    search = quick(storage=file).fit(X, Y)
    assert same(outcome(search), outcome(fitted))
    assert before.items() <= results_in(file).items()
    assert [record.position for record in records_of(search.study_)] == list(range(10))


@pytest.mark.parametrize("calls", [8, 15, 45])
def test_a_database_is_carried_on_when_the_killed_process_is_noticed(
    database, monkeypatch, calls
):
    killed_after(monkeypatch, database, calls, kind=RDBStorage)
    search = quick(storage=database).fit(X, Y)
    records = records_of(search.study_)
    assert [record.position for record in records] == list(range(10))
    assert all(trial.state.is_finished() for trial in search.study_.trials)
    trials = search.study_.trials
    for trial in trials:
        for number in trial.system_attrs.get("retry_history", ()):
            assert trials[number].user_attrs.items() <= trial.user_attrs.items()


def test_a_retry_that_a_kill_prevented_is_made_up_for(fitted, database, monkeypatch):
    """The trial was failed, and who failed it was killed before it could put it back."""
    killed_after(monkeypatch, database, 30, kind=RDBStorage)
    study = optuna.load_study(study_name="pcegp", storage=database)
    running = [t.number for t in study.trials if t.state is TrialState.RUNNING]
    assert running
    for number in running:
        study.tell(number, state=TrialState.FAIL)
    search = quick(storage=database).fit(X, Y)
    assert same(outcome(search), outcome(fitted))  # nobody was waited for


def test_a_process_that_was_given_up_finds_its_trials_carried_on(fitted, database, monkeypatch):
    """Silent for long, as on a suspended machine, and back again."""
    evaluate, woken = loop._evaluate, []

    def late(problem, coordinator, tasks, parallel):
        if not woken:
            woken.append(True)
            for record, _ in tasks:  # as Optuna does after the last heartbeat
                coordinator._study.tell(record.number, state=TrialState.FAIL)
            quick(storage=database, refit=False).fit(X, Y)
        yield from evaluate(problem, coordinator, tasks, parallel)

    monkeypatch.setattr(loop, "_evaluate", late)
    search = quick(storage=database).fit(X, Y)
    assert same(outcome(search), outcome(fitted))
    assert all(trial.state.is_finished() for trial in search.study_.trials)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_of_two_trials_in_one_position_the_first_counts(database):
    problem = quick(storage=database)._problem(X, Y, None)
    with (storage.quiet_optuna(),
          storage.open_study(database, "pcegp", problem.identity()) as (study, place),
          Coordinator(study, place) as one, Coordinator(study, place) as other):
        for coordinator in (one, other):  # neither had seen the other's
            coordinator.add(suggest(problem, [], [0, 1]))
        assert len(study.trials) == 4
        one.refresh(most=1)
        other.refresh(most=4)
        assert (list(one.mine), list(other.mine)) == ([0], [1])
        assert [trial.state.name for trial in study.trials] == ["RUNNING"] * 2 + ["FAIL"] * 2
        assert [record.number for record in records_of(study)] == [0, 1]


def test_a_journal_belongs_to_one_search_at_a_time(fitted, tmp_path):
    file = tmp_path / "study.journal"
    problem = quick()._problem(X, Y, None)
    with storage.open_study(file, "pcegp", problem.identity()):
        with pytest.raises(StorageError, match=r"study\.journal is in use.*database"):
            quick(storage=file).fit(X, Y)
        with pytest.raises(StorageError, match="in use"):
            quick(storage=file, study="another").fit(X, Y)
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


@pytest.mark.parametrize("calls", [8, 30, 55])
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


@pytest.mark.parametrize("calls", [20, 50])
def test_a_line_that_was_half_written_is_cut_off(fitted, tmp_path, monkeypatch, calls):
    file = tmp_path / "study.journal"
    killed_after(monkeypatch, file, calls)
    with file.open("ab") as stream:
        stream.write(b'{"op_code": 8, "wor')
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


def test_a_storage_that_fails_ends_the_run_not_the_trial(fitted, tmp_path, monkeypatch):
    file, write, calls = tmp_path / "study.journal", JournalStorage.set_trial_user_attr, []

    def failing(self, *args):
        calls.append(1)
        if len(calls) >= 7:
            raise StorageInternalError("the server went away")
        return write(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(JournalStorage, "set_trial_user_attr", failing)
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
        with pytest.raises(StorageError, match=r"another (rungs|objective)"):
            quick(storage=file, **other).fit(X, Y)
    assert quick(storage=file, n_trials=1).fit(X, Y).study_.trials == before


def test_a_study_of_another_layout_is_refused(tmp_path):
    """Of an earlier version, or of Optuna's own."""
    for name, identity in (("old", {"seed": 0}), ("none", None)):
        file = tmp_path / f"{name}.journal"
        study = optuna.create_study(study_name="pcegp", storage=JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(file))))
        study.ask()
        if identity is not None:
            study.set_user_attr("pcegp", identity)
        with pytest.raises(StorageError, match=r"not made by this version.*another name"):
            quick(storage=file).fit(X, Y)


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
    journal = JournalStorage(optuna.storages.journal.JournalFileBackend("plant.journal"))
    assert optuna.get_all_study_names(journal) == ["plant-outer0", "plant-outer1"]
    nested_cv(quick(n_trials=1, cv=3, storage=tmp_path / "other.journal"), X, Y, cv=2)


def test_results_are_plain_data_in_the_study(fitted):
    for trial in fitted.study_.trials:
        json.dumps(trial.user_attrs)
