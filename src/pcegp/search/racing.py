"""The race of the trials over the folds.

A race goes in rungs; a rung is the splits that a trial must be scored on to be compared.
On the first one, the pilot split, are all trials. When all are known, the best share of them
gets three folds; of these the best go on to six; then, and after every second fold, those stop
that Wilcoxon's signed-rank test finds to be worse than the best (the test of Optuna's
WilcoxonPruner). Folds are the same for all trials, so scores are compared pair by pair. Who
goes on depends on the scores only, never on how fast or where they were computed.

A plain loop is a race with one rung: all folds for everybody.
"""

from collections.abc import Sequence
from math import ceil

from scipy.stats import wilcoxon

from pcegp._typing import FloatArray
from pcegp.search.trials import TrialRecord, fold_name

Rungs = tuple[tuple[str, ...], ...]  # names of splits
Task = tuple[TrialRecord, list[str]]  # a trial, and the splits to score it on

_FINALISTS = 0.15  # share of all trials, by the pilot split
_COMPARE_AFTER = 3  # folds
_GO_ON = 0.10  # share of all trials, by their mean over the first three folds
_TEST_AFTER, _TEST_EVERY = 6, 2  # folds
_P_THRESHOLD = 0.1


def rungs_of(n_folds: int, pilot: str | None) -> Rungs:
    """Make the rungs of a race that begins with a pilot split, or of a plain loop without one."""
    folds = tuple(map(fold_name, range(n_folds)))
    if pilot is None:
        return (folds,)
    early = (_COMPARE_AFTER, *range(_TEST_AFTER, n_folds, _TEST_EVERY))
    return ((pilot,), *(folds[:count] for count in early if count < n_folds), folds)


def most_fits(n_trials: int, rungs: Rungs) -> int:
    """Count the trainings that so many trials take at most, if none of them fails."""
    first, *later = rungs
    if not later:
        return n_trials * len(first)
    after_first = [len(set(rung) - set(first)) for rung in (later[0], later[-1])]
    finalists, last = ceil(_FINALISTS * n_trials), ceil(_GO_ON * n_trials)
    reference = after_first[1]
    return (n_trials * len(first) + reference + finalists * after_first[0]
            + last * (after_first[1] - after_first[0]))


def wanted(
    records: Sequence[TrialRecord], rungs: Rungs, primary: str, more_to_come: bool
) -> list[Task]:
    """Find what must be scored next: nothing when the race is over, or waits for more trials.

    All trials take the first rung. The first one that did not fail, the reference trial, gets
    all folds whatever its score: in the automatic space it has the default settings, an answer
    that is there early and that the others are compared with. When no more trials are to come,
    the best go through the later rungs.
    """
    sources = [r for r in records if r.reason is None and r.copy_of is None]
    tasks = _tasks([r for r in sources if r.outcome == "running"], rungs[0])
    if sources and sources[0].outcome != "running":
        tasks += _tasks(sources[:1], rungs[-1])
    if tasks or more_to_come:
        return tasks
    racers = sorted(sources, key=lambda r: (r.first_score(primary), r.position))
    running = racers[: ceil(_FINALISTS * len(racers))]
    for rung in rungs[1:]:
        tasks = _tasks(running, rung)
        if tasks or not running:
            return tasks
        running = _who_goes_on(running, racers, primary, len(rung))
    return []


def _tasks(records: Sequence[TrialRecord], rung: Sequence[str]) -> list[Task]:
    missing = [(r, [name for name in rung if name not in r.results]) for r in records]
    return [(record, names) for record, names in missing if names]


def _who_goes_on(
    running: Sequence[TrialRecord], racers: Sequence[TrialRecord], primary: str, n_folds: int
) -> list[TrialRecord]:
    """Select the running trials that are still in the race after that many folds."""
    if n_folds < _TEST_AFTER:
        ranked = sorted(running, key=lambda r: (r.mean(primary, n_folds), r.position))
        return ranked[: ceil(_GO_ON * len(racers))]
    there = [r for r in racers if len(r.folds) >= n_folds]
    best = min(there, key=lambda r: r.mean(primary, n_folds)).scores(primary, n_folds)
    return [r for r in running if not is_worse(r.scores(primary, n_folds), best)]


def is_worse(scores: FloatArray, best: FloatArray) -> bool:
    """Tell whether scores (k,) are worse than those of the best trial on the same folds."""
    difference = scores - best
    if difference.mean() <= 0.0:
        return False
    test = wilcoxon(difference, alternative="greater", zero_method="zsplit")
    return bool(test.pvalue < _P_THRESHOLD)
