"""The search loop: ask for a batch of trials, score them, tell the study; then the finals.

Trials run in lockstep: all of a batch are suggested before one of them is evaluated, and
all are told when the batch is done. So what is suggested depends on the seed and the size
of a batch, but not on how many jobs there are or how fast they ran. Every fold's result is
put into the study as it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, sleep

import numpy as np
from joblib import Parallel
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from pcegp.search.entries import Entry, is_told, run, suggest, tell
from pcegp.search.evaluation import mean_scores
from pcegp.search.finals import Finals
from pcegp.search.problem import Problem
from pcegp.search.sampler import SlotSampler
from pcegp.search.storage import (
    LOOK_AGAIN,
    REPEATS,
    SETTINGS,
    SLOT,
    WORKER,
    Worker,
    free_slot,
    has_rival,
    is_busy,
)
from pcegp.search.trials import COPY_OF, Record, finished, plain, record_of, records_of, signature

_EXPLORING = 0.5  # share of the time given; the rest is for the finals
Progress = Callable[..., None]  # takes the trainings done, the trials, and the best score


def search(
    problem: Problem, study: Study, finals: Study | None, sampler: SlotSampler, n_trials: int,
    timeout: float | None, n_jobs: int | None, progress: Progress | None = None,
) -> None:
    """Work on a study until it has that many trials, or the time is over."""
    time = np.inf if timeout is None else timeout
    begin = monotonic()

    def show() -> None:
        if progress is not None:
            _show(problem, records_of(study, finals), progress)

    show()  # what was there before
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    with Worker(study) as worker, pool as parallel:
        if finals is None:
            _explore(problem, study, sampler, worker, n_trials, parallel, begin + time, show)
            return
        with Worker(finals) as judge:
            last = Finals(problem, study, finals, sampler, judge, parallel, show)
            _explore(problem, study, sampler, worker, n_trials, parallel,
                     begin + _EXPLORING * time, last.measure_yardstick)
            last.hold(begin + time)


def _explore(
    problem: Problem, study: Study, sampler: SlotSampler, worker: Worker, n_trials: int,
    parallel: Parallel, end: float, after_batch: Callable[[], None],
) -> None:
    """Score that many trials; when it ends in time, those of other workers are done, too."""
    while monotonic() < end:
        batch = _ask(problem, study, sampler, worker, n_trials)
        if batch:
            run(problem, [(entry, problem.explored_on) for entry in batch
                          if entry.copied is None], parallel)
            for entry in batch:
                _tell(problem, study, entry)
            after_batch()
        elif is_busy(study):
            sleep(LOOK_AGAIN)
        else:
            return


def _ask(
    problem: Problem, study: Study, sampler: SlotSampler, worker: Worker, n_trials: int
) -> list[Entry]:
    """The next batch: what a killed worker left, then new trials to the end of the batch."""
    size = problem.space.batch_size
    batch: list[Entry] = []
    for left in worker.trials_to_repeat():
        batch += _ask_one(problem, study, sampler, worker, n_trials, left)
    while len(batch) < size:
        slot = free_slot(study)
        if slot >= n_trials or (batch and slot // size != batch[-1].slot // size):
            break
        asked = _ask_one(problem, study, sampler, worker, n_trials)
        batch += asked
        if not asked:  # others are asking, too: look again when they have
            sleep(LOOK_AGAIN)
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
    entry = suggest(problem, trial, slot)
    if entry.error is not None:
        tell(study, entry, None)  # at once: without settings it would count as never made
        return [entry]
    if left is not None:  # folds that were done need not be done again
        entry.take_over(problem, record_of(left))
    trial.set_user_attr(SETTINGS, plain(entry.settings))
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


def _tell(problem: Problem, study: Study, entry: Entry) -> None:
    """Finish a trial in the study, with the score of the screen or the means over all folds."""
    if is_told(study, entry):
        return
    source = entry.copied
    if source is not None:
        record = source.record() if isinstance(source, Entry) else source
        entry.trial.set_user_attr(COPY_OF, record.number)
        entry.take_over(problem, record)
        entry.reason = record.reason
    if entry.error is not None:
        tell(study, entry, None)
    elif problem.racing:
        tell(study, entry, [entry.record().screen_score(problem.lead)])
    else:
        record = entry.record()
        means = mean_scores(record.folds)[record.step(problem.lead)]
        tell(study, entry, [means[name] for name in problem.objectives])


def _show(problem: Problem, records: Sequence[Record], progress: Progress) -> None:
    """Move the bar."""
    lead = problem.lead
    best = min((r.mean(lead, lead) for r in finished(records)), default=np.nan)
    progress(sum(r.n_fits() for r in records), best=best,
             trials=sum(r.state.is_finished() for r in records))
