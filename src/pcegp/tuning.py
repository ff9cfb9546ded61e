"""The search loop: ask for a batch of trials, race them over the folds, tell the study.

Trials run in lockstep: all of a batch are suggested before one of them is evaluated, and
all are told when the batch is done. So what is suggested, and who goes on, depends on the
seed and the size of a batch, but not on how many jobs there are or how fast they ran.
Every fold's result is put into the study as it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic, sleep
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from optuna import Study, Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import BaseTrial, FrozenTrial, TrialState

from pcegp import racing
from pcegp.folds import FoldResult, Split, evaluate, mean_scores
from pcegp.records import (
    COPY_OF,
    SCREEN,
    YARDSTICK,
    Record,
    finished,
    fold_key,
    plain,
    record_of,
    records_of,
    signature,
)
from pcegp.sampling import SlotSampler
from pcegp.spaces import Space
from pcegp.studies import (
    REASON,
    REPEATS,
    SETTINGS,
    SLOT,
    STORAGE_FAILURES,
    WORKER,
    Worker,
    free_slot,
    has_rival,
)

FloatArray = NDArray[np.float64]
_LOOK_AGAIN = 0.5  # seconds
Progress = Callable[..., None]  # takes the trials done, and the best score by its name


@dataclass(frozen=True)
class Problem:
    """What is searched: data, folds and the objectives; the first one leads."""

    X: FloatArray
    y: FloatArray
    splits: Sequence[Split]
    objectives: tuple[str, ...]
    space: Space
    fixed: dict[str, Any]  # settings of the base estimator, where the space is silent

    def settings(self, trial: BaseTrial) -> dict[str, Any]:
        """All settings of a trial."""
        return self.completed(self.space.suggest(trial))

    def completed(self, suggested: dict[str, Any]) -> dict[str, Any]:
        """Settings with those that the space leaves open."""
        settings = self.fixed | suggested
        # It must not depend on the checkpoint that is chosen later.
        settings.setdefault("noise_delay", min(200, settings["max_iter"] // 2))
        return settings

    def batch(self, slot: int) -> int:
        """The number of the batch that a slot belongs to."""
        return slot // self.space.batch_size

    @property
    def racing(self) -> bool:
        # With several objectives no trial is hopeless before its last fold.
        return self.space.racing and len(self.objectives) == 1

    @cached_property
    def screen(self) -> tuple[int, Split]:
        """Number and rows of what all trials begin with: the first fold, or fewer of its rows."""
        own = racing.screen_of(self.splits)
        return (0, self.splits[0]) if own is None else (SCREEN, own)

    def split(self, number: int) -> Split:
        """Rows of a fold, or of the screen."""
        return self.screen[1] if number == SCREEN else self.splits[number]


@dataclass
class Entry:
    """A trial of the batch that is being run."""

    trial: Trial
    slot: int
    settings: dict[str, Any]
    folds: dict[int, FoldResult] = field(default_factory=dict)
    copied: Record | Entry | None = None
    reason: str | None = None  # why there is nothing to evaluate
    reported: set[int] = field(default_factory=set)  # numbers of folds with a mean in the study

    @property
    def error(self) -> str | None:
        errors = [fold["error"] for fold in self.folds.values() if "error" in fold]
        return errors[0] if errors else self.reason

    def record(self) -> Record:
        """As it stands now."""
        return Record(self.trial.number, self.slot, TrialState.RUNNING, self.settings,
                      self.folds, self.error, None, 0.0, self.trial.params)


def search(
    problem: Problem, study: Study, sampler: SlotSampler, n_trials: int,
    timeout: float | None, n_jobs: int | None, progress: Progress | None = None,
) -> None:
    """Work on a study until it has that many trials, or the time is over."""
    end = np.inf if timeout is None else monotonic() + timeout
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    with Worker(study) as worker, pool as parallel:
        while monotonic() < end:
            batch = _ask(problem, study, sampler, worker, n_trials)
            if not batch:
                return
            _race(problem, study, batch, parallel)
            for entry in batch:
                _tell(problem, study, entry)
            _show(problem, study, progress)


def _ask(
    problem: Problem, study: Study, sampler: SlotSampler, worker: Worker, n_trials: int
) -> list[Entry]:
    """The next batch: what a killed worker left, then new trials to the end of the batch."""
    batch: list[Entry] = []
    for left in worker.trials_to_repeat():
        batch += _ask_one(problem, study, sampler, worker, n_trials, left)
    while len(batch) < problem.space.batch_size:
        slot = free_slot(study)
        if slot >= n_trials or (batch and problem.batch(slot) != problem.batch(batch[-1].slot)):
            break
        asked = _ask_one(problem, study, sampler, worker, n_trials)
        batch += asked
        if not asked:  # others are asking, too: look again when they have
            sleep(_LOOK_AGAIN)
    _find_copies(study, batch)
    return batch


def _ask_one(
    problem: Problem, study: Study, sampler: SlotSampler, worker: Worker, n_trials: int,
    left: FrozenTrial | None = None,
) -> list[Entry]:
    """The trial of the next slot, or of one that was left; none if another worker was faster."""
    sampler.repeat(left)
    trial = study.ask()
    slot = sampler.slot
    trial.set_user_attr(WORKER, worker.id)
    trial.set_user_attr(SLOT, slot)
    if left is not None:
        trial.set_user_attr(REPEATS, left.number)
    too_many = left is None and slot >= n_trials
    if too_many or has_rival(study, trial.number, slot):
        study.tell(trial, state=TrialState.FAIL)  # never whole, so nobody repeats it
        return []
    try:
        settings = problem.settings(trial)
    except STORAGE_FAILURES:
        raise
    except Exception as error:  # a space of the user's own: one branch of it may be wrong
        return [Entry(trial, slot, {}, reason=f"{type(error).__name__}: {error}")]
    trial.set_user_attr(SETTINGS, plain(settings))
    entry = Entry(trial, slot, settings)
    if left is not None:  # folds that were done need not be done again
        _take_over(problem, entry, record_of(left))
    return [entry]


def _find_copies(study: Study, batch: Sequence[Entry]) -> None:
    """Mark the trials whose settings have been, or are being, evaluated already."""
    known: dict[str, Record | Entry] = {}
    numbers = {entry.trial.number for entry in batch}
    for record in records_of(study):
        if record.number not in numbers and record.state.is_finished() and record.copy_of is None:
            known.setdefault(signature(record.settings), record)
    for entry in batch:
        if entry.error is None:
            key = signature(entry.settings)
            entry.copied = known.get(key)
            known.setdefault(key, entry)


def _take_over(problem: Problem, entry: Entry, record: Record) -> None:
    """The results of another trial with the same settings."""
    for number in sorted(record.results):
        _keep(problem, entry, number, record.results[number])


def _keep(problem: Problem, entry: Entry, number: int, fold: FoldResult) -> None:
    """Put a result into the study, and the mean of the first folds as far as they are there."""
    entry.folds[number] = fold
    with suppress(UpdateFinishedTrialError):  # it took so long that another one repeats it
        entry.trial.set_user_attr(fold_key(number), fold)
        if len(problem.objectives) == 1:
            _report(entry, problem.objectives[0])


def _report(entry: Entry, lead: str) -> None:
    """What a dashboard shows, and by which TPE ranks trials that were stopped."""
    record = entry.record()
    counts = range(0 if record.screen else 1, len(record.folds) + 1)
    for count in (count for count in counts if count not in entry.reported):
        score = record.mean(lead, lead, count) if count else record.screen_score(lead)
        entry.trial.report(score, count)
        entry.reported.add(count)


def _show(problem: Problem, study: Study, progress: Progress | None) -> None:
    """Move the bar."""
    if progress is not None:
        lead = problem.objectives[0]
        done = [record for record in records_of(study) if record.state.is_finished()]
        best = min((record.mean(lead, lead) for record in finished(done)), default=np.nan)
        progress(len(done), best=best)


def _race(problem: Problem, study: Study, batch: Sequence[Entry], parallel: Parallel) -> None:
    """Evaluate fold after fold; at each rung the hopeless stop."""
    mine = {entry.trial.number for entry in batch}
    # Mates are trials of the same batch that were told before a kill.
    earlier = [r for r in records_of(study) if r.number not in mine and r.state.is_finished()]
    running = [entry for entry in batch if entry.copied is None and entry.error is None]
    if problem.racing:
        running = _evaluate(problem, running, [problem.screen[0]], parallel)
        running = _who_passes_screen(problem, earlier, running)
    for rung in racing.rungs(len(problem.splits), problem.racing):
        running = _evaluate(problem, running, range(rung), parallel)
        if rung < len(problem.splits):
            running = _who_passes_rung(problem, earlier, running, rung)


def _evaluate(
    problem: Problem, running: Sequence[Entry], numbers: Sequence[int], parallel: Parallel
) -> list[Entry]:
    """Evaluate the trials on these folds, where they are not yet; those that did not fail."""
    tasks = [(entry, number) for entry in running for number in numbers
             if number not in entry.folds]
    results = parallel(
        delayed(_numbered)(i, entry.settings, problem.X, problem.y, problem.split(number))
        for i, (entry, number) in enumerate(tasks)
    )
    for i, fold in results:
        entry, number = tasks[i]
        _keep(problem, entry, number, fold)
    return [entry for entry in running if entry.error is None]


def _numbered(
    i: int, settings: dict[str, Any], X: FloatArray, y: FloatArray, split: Split
) -> tuple[int, FoldResult]:
    return i, evaluate(settings, X, y, split)


def _who_passes_screen(
    problem: Problem, earlier: Sequence[Record], running: Sequence[Entry]
) -> list[Entry]:
    lead, batch = problem.objectives[0], _batch_of(problem, running)
    # Of this batch, too: trials that were told before a kill.
    known = [r for r in earlier if r.copy_of is None and problem.batch(r.slot) <= batch]
    others = [record.screen_score(lead) for record in known if record.screen or record.folds]
    scores = [entry.record().screen_score(lead) for entry in running]
    return [
        entry for k, entry in enumerate(running)
        if entry.slot == YARDSTICK
        or racing.passes_screen(scores[k], others + scores[:k] + scores[k + 1:])
    ]


def _who_passes_rung(
    problem: Problem, earlier: Sequence[Record], running: Sequence[Entry], rung: int
) -> list[Entry]:
    lead, batch = problem.objectives[0], _batch_of(problem, running)
    before = [r for r in finished(earlier) if problem.batch(r.slot) < batch]
    best = min(before, key=lambda r: r.mean(lead, lead), default=None)
    best_scores = None if best is None else best.scores(lead)[:rung]
    return [
        entry for entry in running
        if entry.slot == YARDSTICK
        or racing.passes_rung(entry.record().scores(lead, rung), best_scores)
    ]


def _batch_of(problem: Problem, running: Sequence[Entry]) -> int:
    return min((problem.batch(entry.slot) for entry in running), default=0)


def _tell(problem: Problem, study: Study, entry: Entry) -> None:
    """Finish a trial in the study: complete, stopped early, or failed with its reason."""
    if study.get_trials(deepcopy=False)[entry.trial.number].state.is_finished():
        return  # it took so long that another worker repeats it
    trial, source = entry.trial, entry.copied
    if source is not None:
        record = source.record() if isinstance(source, Entry) else source
        trial.set_user_attr(COPY_OF, record.number)
        _take_over(problem, entry, record)
        if record.reason is not None:
            entry.reason = record.reason
    if entry.error is not None:
        trial.set_user_attr(REASON, entry.error)
        study.tell(trial, state=TrialState.FAIL)
        return
    record, lead = entry.record(), problem.objectives[0]
    if len(record.folds) < len(problem.splits):
        study.tell(trial, state=TrialState.PRUNED)
    else:
        means = mean_scores(record.folds)[record.step(lead)]
        study.tell(trial, [means[name] for name in problem.objectives])
