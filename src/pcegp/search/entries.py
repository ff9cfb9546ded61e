"""Trials that are being run: every result goes into the study as it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from optuna import Study, Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from pcegp.search.evaluation import FoldResult, Split, evaluate
from pcegp.search.problem import Problem
from pcegp.search.storage import REASON, STORAGE_FAILURES
from pcegp.search.trials import Record, fold_key

FloatArray = NDArray[np.float64]


@dataclass
class Entry:
    """A trial that this worker runs."""

    trial: Trial
    slot: int
    settings: dict[str, Any]
    folds: dict[int, FoldResult] = field(default_factory=dict)
    copied: Record | Entry | None = None
    reason: str | None = None  # why there is nothing to evaluate
    reported: set[int] = field(default_factory=set)  # numbers of folds with a mean in the study

    @property
    def error(self) -> str | None:
        for _, fold in sorted(self.folds.items()):
            if "error" in fold:
                return str(fold["error"])
        return self.reason

    def record(self) -> Record:
        """As it stands now."""
        return Record(self.trial.number, self.slot, TrialState.RUNNING, self.settings,
                      self.folds, self.error, None, self.trial.params)

    def keep(self, problem: Problem, number: int, fold: FoldResult) -> None:
        """Put a result into the study, and the mean of the first folds as far as they are there."""
        self.folds[number] = fold
        with suppress(UpdateFinishedTrialError):  # it took so long that another one repeats it
            self.trial.set_user_attr(fold_key(number), fold)
            if len(problem.objectives) == 1:
                self._report(problem.lead)

    def take_over(self, problem: Problem, record: Record) -> None:
        """The results of another trial with the same settings."""
        for number in sorted(record.results):
            self.keep(problem, number, record.results[number])

    def _report(self, lead: str) -> None:
        """What a dashboard shows."""
        record = self.record()
        for count in range(1, len(record.folds) + 1):
            if count not in self.reported:
                self.trial.report(record.mean(lead, lead, count), count)
                self.reported.add(count)


def suggest(problem: Problem, trial: Trial, slot: int) -> Entry:
    """A trial with its settings, or with the reason why it has none."""
    try:
        return Entry(trial, slot, problem.settings(trial))
    except STORAGE_FAILURES:
        raise
    except Exception as error:  # a space of the user's own: one branch of it may be wrong
        return Entry(trial, slot, {}, reason=f"{type(error).__name__}: {error}")


def run(
    problem: Problem, tasks: Sequence[tuple[Entry, Sequence[int]]], parallel: Parallel
) -> None:
    """Evaluate trials that have not failed on folds, where they are not yet."""
    missing = [(entry, number) for entry, numbers in tasks for number in numbers
               if entry.error is None and number not in entry.folds]
    results = parallel(
        delayed(_numbered)(i, entry.settings, problem.X, problem.y, problem.split(number))
        for i, (entry, number) in enumerate(missing)
    )
    for i, fold in results:
        entry, number = missing[i]
        entry.keep(problem, number, fold)


def _numbered(
    i: int, settings: dict[str, Any], X: FloatArray, y: FloatArray, split: Split
) -> tuple[int, FoldResult]:
    return i, evaluate(settings, X, y, split)


def is_told(study: Study, entry: Entry) -> bool:
    """Whether a trial is finished in the study, perhaps by one who took this worker for dead."""
    return study.get_trials(deepcopy=False)[entry.trial.number].state.is_finished()


def tell(study: Study, entry: Entry, values: Sequence[float] | None) -> None:
    """Finish a trial in the study: with its values, failed with a reason, or stopped early."""
    if is_told(study, entry):
        return
    with suppress(UpdateFinishedTrialError, ValueError):  # given up at this very moment
        if entry.error is not None:
            entry.trial.set_user_attr(REASON, entry.error)
            study.tell(entry.trial, state=TrialState.FAIL)
        elif values is None:
            study.tell(entry.trial, state=TrialState.PRUNED)
        else:
            study.tell(entry.trial, list(values))
