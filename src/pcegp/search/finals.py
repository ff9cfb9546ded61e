"""The second part of a race: the best of all trials get their folds.

What is to be done next follows from all scores (see `racing`), in units: a trial, and the
number of folds that it should have. Each unit is a trial of the study of the finals, so
that several workers can share them, and one that was killed is noticed. A fold that is in
the study is never evaluated again, whoever put it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic, sleep

from joblib import Parallel
from optuna import Study
from optuna.trial import TrialState

from pcegp.search import racing
from pcegp.search.entries import Entry, run, suggest, tell
from pcegp.search.problem import Problem
from pcegp.search.sampler import SlotSampler
from pcegp.search.storage import LOOK_AGAIN, SETTINGS, SLOT, WORKER, Worker, has_rival, is_stale
from pcegp.search.trials import Record, records_of, signature

Unit = tuple[Record, int]


@dataclass(frozen=True)
class Finals:
    """The finals of a search, as one worker takes part in them."""

    problem: Problem
    study: Study  # of all trials
    finals: Study
    sampler: SlotSampler
    worker: Worker  # on the study of the finals
    parallel: Parallel
    show: Callable[[], None]

    def hold(self, end: float) -> None:
        """Work on the finals until they are over, or the time is."""
        while monotonic() < end:
            self.worker.clear_up()
            units = self._yardstick() or racing.units(self._records(), self.problem.lead,
                                                      len(self.problem.splits))
            if not units:
                return
            if not self._work_on(units):  # others do: look again when they are done, or dead
                sleep(LOOK_AGAIN)

    def measure_yardstick(self) -> None:
        """Give the first trial all its folds, unless that is done or being done."""
        self.worker.clear_up()
        self._work_on(self._yardstick())

    def _records(self) -> list[Record]:
        return records_of(self.study, self.finals)

    def _yardstick(self) -> list[Unit]:
        return racing.yardstick_unit(self._records(), len(self.problem.splits))

    def _work_on(self, units: Sequence[Unit]) -> bool:
        """Evaluate those units that nobody else does, a batch of them; whether there were any."""
        tasks: list[tuple[Entry, Sequence[int]]] = []
        for record, n_folds in units:
            if len(tasks) < self.problem.space.batch_size:
                tasks += [(entry, range(n_folds)) for entry in self._claimed(record, n_folds)]
        run(self.problem, tasks, self.parallel)
        for entry, _ in tasks:
            self._tell(entry)
        self.show()
        return bool(tasks)

    def _claimed(self, record: Record, n_folds: int) -> list[Entry]:
        """A trial of the finals for this unit; none if another worker has it."""
        unit = f"{sha256(signature(record.settings).encode()).hexdigest()[:12]} to {n_folds}"
        trials = self.finals.get_trials(deepcopy=False)
        if any(t.user_attrs.get(SLOT) == unit and not is_stale(t) for t in trials):
            return []
        self.sampler.repeat(self.study.get_trials(deepcopy=False)[record.number])
        trial = self.finals.ask()
        trial.set_user_attr(WORKER, self.worker.id)
        trial.set_user_attr(SLOT, unit)
        if has_rival(self.finals, trial.number, unit):
            self.finals.tell(trial, state=TrialState.FAIL)
            return []
        trial.set_user_attr(SETTINGS, record.settings)
        entry = suggest(self.problem, trial, record.slot)
        entry.folds |= record.results
        return [entry]

    def _tell(self, entry: Entry) -> None:
        record, lead = entry.record(), self.problem.lead
        whole = len(record.folds) == len(self.problem.splits)
        tell(self.finals, entry, [record.mean(lead, lead)] if whole else None)
