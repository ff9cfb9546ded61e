"""The search loop: suggest a batch of trials, score them on the first rung, then race the best.

Trials run in lockstep: all of a batch are suggested before one of them is evaluated, and the
next batch is suggested when all are scored. So what is suggested depends on the seed and the
size of a batch, but not on how many jobs there are or how fast they ran. What is to be done
next is read from the study every time round, so a search can be stopped anywhere.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from time import monotonic, sleep
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from pcegp.search.coordinator import Coordinator
from pcegp.search.evaluation import FoldResult, evaluate
from pcegp.search.problem import Problem
from pcegp.search.racing import Task, wanted
from pcegp.search.sampler import suggest
from pcegp.search.trials import TrialRecord

_EXPLORING = 0.5  # share of the time for the first rung; the rest is for the later ones
_LOOK_AGAIN = 0.5  # seconds, for other processes to go on

# Takes the trials, and how many trainings have ended since they were read.
Show = Callable[[Sequence[TrialRecord], int], None]


def run_rungs(
    problem: Problem, coordinator: Coordinator, n_trials: int, timeout: float | None,
    n_jobs: int | None, show: Show | None,
) -> None:
    """Work on a study until the race of that many trials is over, or the time is."""
    time = np.inf if timeout is None else timeout
    begin, share = monotonic(), _EXPLORING if len(problem.rungs) > 1 else 1.0
    with Parallel(n_jobs=n_jobs, return_as="generator_unordered") as parallel:
        while True:
            records = coordinator.refresh(most=problem.space.batch_size)
            if show is not None:
                show(records, 0)
            spent = monotonic() - begin
            if spent >= time:
                return
            more = len(records) < n_trials and spent < share * time
            tasks = wanted(records, problem.rungs, problem.primary, more)
            mine = [task for task in tasks if task[0].number in coordinator.mine]
            stopped = [record for record, _ in tasks if record.state.is_finished()]
            if mine:
                for number in _evaluate(problem, coordinator, mine, parallel):
                    if show is not None:
                        show(records, number)
            elif stopped:  # by an earlier run, which had fewer trials to compare or less time
                coordinator.put_back(stopped)
            elif more:
                _add_batch(problem, coordinator, records, n_trials)
            elif tasks or coordinator.end_trials(records):
                sleep(_LOOK_AGAIN)  # for other processes
            else:
                return


def _add_batch(
    problem: Problem, coordinator: Coordinator, records: Sequence[TrialRecord], n_trials: int
) -> None:
    """Suggest new trials up to the end of a batch, each in the knowledge of those before it."""
    size, taken = problem.space.batch_size, {record.position for record in records}
    first = next(k for k in count() if k not in taken)
    batch = range(first, min(n_trials, (first // size + 1) * size))
    coordinator.add(suggest(problem, records, [k for k in batch if k not in taken]))


def _evaluate(
    problem: Problem, coordinator: Coordinator, tasks: Sequence[Task], parallel: Parallel
) -> Iterator[int]:
    """Score trials on splits; each result goes into the study as it arrives, and is counted."""
    trainings = [(record, problem.settings_of(record.parameters), name)
                 for record, names in tasks for name in names]
    results = parallel(
        delayed(_numbered)(i, settings, problem.X, problem.y, problem.splits[name])
        for i, (_, settings, name) in enumerate(trainings)
    )
    for number, (i, result) in enumerate(results, 1):
        record, _, name = trainings[i]
        coordinator.keep(record, name, result)
        yield number


def _numbered(i: int, *task: Any) -> tuple[int, FoldResult]:
    return i, evaluate(*task)
