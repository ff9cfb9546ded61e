"""The part of one process in a study: it takes trials, stores results and tells their ends.

A trial is put into the study whole, WAITING, and taken by setting it RUNNING, which a database
grants to one process only. So a kill leaves no half-made trial at any instant. On a database the
heartbeat of a trial is recorded before it is taken and then by a thread, and Optuna fails the
trials of a process that has gone silent. A trial that failed without a reason is put back: by
whoever sees it, because the one that failed it may be killed before it could.
"""

from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from threading import Event, Thread
from types import TracebackType
from typing import Self

from optuna import Study
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import (
    BaseStorage,
    RDBStorage,
    RetryHeartbeatStaleTrialCallback,
    fail_stale_trials,
)
from optuna.trial import FrozenTrial, TrialState

from pcegp.search.evaluation import FoldResult
from pcegp.search.storage import STORAGE_FAILURES
from pcegp.search.trials import IDENTITY, POSITION, TrialRecord, records_of


class Coordinator:
    """The trials of a study that this process runs."""

    def __init__(self, study: Study, storage: BaseStorage) -> None:
        self._study, self._storage = study, storage
        self._id = storage.get_study_id_from_name(study.study_name)
        self._objectives: list[str] = study.user_attrs[IDENTITY]["objective"]
        # Only where killed processes are noticed may several work on a study; elsewhere all
        # running trials are ours, left by an earlier run.
        self._shared: RDBStorage | None = None
        if isinstance(storage, RDBStorage) and storage.heartbeat_interval is not None:
            self._shared = storage
        #: The running trials of this process: number of a trial, and its number in the storage.
        self.mine: dict[int, int] = {}
        self._reported: dict[int, int] = {}  # number of a trial: its results at the last report
        self._stopped = Event()
        self._heart = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        with suppress(*(STORAGE_FAILURES if error is not None else ())):
            self.end_trials(records_of(self._study))
            if self._shared is not None:  # what has no score yet is for others to carry on
                for trial_id in self.mine.values():
                    with suppress(UpdateFinishedTrialError):
                        self._storage.set_trial_state_values(trial_id, TrialState.FAIL)
        self._heart.join()

    def _beat(self) -> None:
        storage = self._shared
        if storage is None:
            return
        while not self._stopped.wait(storage.heartbeat_interval):
            for trial_id in list(self.mine.values()):
                with suppress(*STORAGE_FAILURES):  # the next beat tries again
                    storage.record_heartbeat(trial_id)

    def end_trials(self, records: Sequence[TrialRecord]) -> bool:
        """Tell the ends of our scored trials; return whether other processes have some to tell."""
        for record in records:
            self._tell_if_ended(record)
            if record.number in self.mine and record.outcome == "pruned":
                self._tell(record, TrialState.PRUNED)
        return self._shared is not None and any(
            not trial.state.is_finished() and trial.number not in self.mine
            for trial in self._study.get_trials(deepcopy=False) if POSITION in trial.user_attrs
        )

    def refresh(self, most: int) -> list[TrialRecord]:
        """Bring the study up to date, take at most so many waiting trials, and read all of them."""
        if self._shared is not None:
            fail_stale_trials(self._study)
        records = records_of(self._study)
        abandoned = [r for r in records if r.state is TrialState.FAIL and r.reason is None]
        if abandoned:
            self.put_back(abandoned)
            records = records_of(self._study)
        counted = {record.number for record in records}
        self.mine = {number: i for number, i in self.mine.items() if number in counted}
        if self._shared is not None:
            self._fail_conflicting(counted)
        waiting = [r for r in records if r.state is TrialState.WAITING]
        for record in waiting[:most]:
            self._take(record)
        for record in records:
            if record.state is TrialState.RUNNING and self._shared is None:
                self.mine.setdefault(record.number, self._id_of(record.number))
            self._tell_if_ended(record)
        return records

    def add(self, trials: Iterable[FrozenTrial]) -> None:
        """Put new trials into the study, each as soon as it is made."""
        self._study.add_trials(trials)

    def put_back(self, records: Sequence[TrialRecord]) -> None:
        """Let finished trials wait to be carried on, with the results that they have."""
        trials = self._study.get_trials(deepcopy=False)
        for record in records:
            RetryHeartbeatStaleTrialCallback()(self._study, deepcopy(trials[record.number]))

    def keep(self, record: TrialRecord, name: str, result: FoldResult) -> None:
        """Put the result on a split into the study."""
        if record.number in self.mine:
            try:
                self._storage.set_trial_user_attr(self.mine[record.number], name, result)
            except UpdateFinishedTrialError:  # it took so long that another process has it now
                del self.mine[record.number]

    def _id_of(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, number)

    def _take(self, record: TrialRecord) -> None:
        trial_id = self._id_of(record.number)
        if self._shared is not None:
            # First of all: Optuna does not look for trials that never had a heartbeat.
            self._shared.record_heartbeat(trial_id)
        with suppress(UpdateFinishedTrialError):
            if self._storage.set_trial_state_values(trial_id, TrialState.RUNNING):
                self.mine[record.number] = trial_id

    def _fail_conflicting(self, counted: Container[int]) -> None:
        """Fail trials whose position another one has, made at the same moment."""
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            if trial.number not in counted and POSITION in trial.user_attrs:
                with suppress(UpdateFinishedTrialError):
                    trial_id = self._id_of(trial.number)
                    self._storage.set_trial_state_values(trial_id, TrialState.FAIL)

    def _tell_if_ended(self, record: TrialRecord) -> None:
        """Report the score so far, which a dashboard shows, and tell a final one."""
        n_results = len(record.results)
        if record.number not in self.mine or self._reported.get(record.number) == n_results:
            return
        self._reported[record.number] = n_results
        if record.outcome == "fail":
            self._tell(record, TrialState.FAIL)
        elif record.outcome != "running":
            values = record.means(self._objectives)
            if len(values) == 1:  # Optuna allows no reports for several objectives
                with suppress(UpdateFinishedTrialError):
                    self._storage.set_trial_intermediate_value(
                        self.mine[record.number], len(record.folds), values[0]
                    )
            if record.outcome == "complete":
                self._tell(record, TrialState.COMPLETE, values)

    def _tell(
        self, record: TrialRecord, state: TrialState, values: list[float] | None = None
    ) -> None:
        del self.mine[record.number]
        with suppress(UpdateFinishedTrialError):
            self._study.tell(record.number, values, state, skip_if_finished=True)
