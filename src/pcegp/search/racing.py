"""Who of the trials gets how many folds.

A race has two parts. First all trials are scored on the screen: the first fold, or, where
there are many rows, fewer of them to train on. When all are known come the finals: the best
share of the screen gets three folds; of these the best go on to six; then, and after every
second fold, those stop that Wilcoxon's signed-rank test finds to be worse than the best
(the test of Optuna's WilcoxonPruner). Folds are the same for all trials, so scores are
compared pair by pair. Who goes on depends on the scores only, never on how fast or where
they were computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from pcegp.search.evaluation import Split
from pcegp.search.trials import Record, signature

FloatArray = NDArray[np.float64]

_SCREEN_ROWS = 700  # to train on; the cost grows with their cube
_FINALISTS = 0.15  # share of all trials, by the screen
_COMPARE_AFTER = 3  # folds
_GO_ON = 0.10  # share of all trials, by their mean over the first three folds
_TEST_AFTER, _TEST_EVERY = 6, 2  # folds
_P_THRESHOLD = 0.1


def screen_of(splits: Sequence[Split], exchangeable: bool) -> Split | None:
    """Training and validation rows of the screen; None where it is the first fold itself.

    Where rows are exchangeable all that are not trained on are scored: a mean over many rows
    tells more, and a prediction costs little beside a training.
    """
    train, valid = splits[0]
    if len(train) <= _SCREEN_ROWS:
        return None
    # In a fixed random order, whatever the order of the table.
    chosen = np.random.default_rng(len(train)).permutation(len(train))
    kept, rest = np.sort(chosen[:_SCREEN_ROWS]), chosen[_SCREEN_ROWS:]
    return train[kept], np.sort(np.append(valid, train[rest])) if exchangeable else valid


def rungs(n_folds: int) -> tuple[int, ...]:
    """Numbers of folds after which it is decided who goes on; the last is all of them."""
    early = (_COMPARE_AFTER, *range(_TEST_AFTER, n_folds, _TEST_EVERY))
    return (*(rung for rung in early if rung < n_folds), n_folds)


def most_fits(n_trials: int, n_folds: int, shared: bool) -> int:
    """The most trainings that finals take; `shared` if the screen is the first fold."""
    finalists, last = ceil(_FINALISTS * n_trials), ceil(_GO_ON * n_trials)
    first, known = rungs(n_folds)[0], int(shared)
    yardstick = n_folds - known
    return yardstick + finalists * (first - known) + last * (n_folds - first)


def units(records: Sequence[Record], lead: str, n_folds: int) -> list[tuple[Record, int]]:
    """What the finals need next: trials, and how many folds each should have.

    `records` are those of all trials, by slot. Empty when the finals are over.
    """
    once: dict[str, Record] = {}
    for record in filter(_is_scored, records):
        once.setdefault(signature(record.settings), record)
    racers = sorted(once.values(), key=lambda r: (r.screen_score(lead), r.slot))
    running = racers[: ceil(_FINALISTS * len(racers))]
    for rung in rungs(n_folds):
        missing = [record for record in running if len(record.folds) < rung]
        if missing:
            return [(record, rung) for record in missing]
        running = _who_goes_on(running, racers, lead, rung)
        if not running:
            break
    return []


def yardstick_unit(records: Sequence[Record], n_folds: int) -> list[tuple[Record, int]]:
    """The first trial that did not fail gets all folds, whatever its screen, before all others.

    In the automatic space it has the default settings: an answer that is there early, and
    that the others are compared with.
    """
    first = next((record for record in records if record.reason is None), None)
    if first is None or not _is_scored(first) or len(first.folds) == n_folds:
        return []
    return [(first, n_folds)]


def _is_scored(record: Record) -> bool:
    return record.state.is_finished() and record.reason is None


def _who_goes_on(
    running: Sequence[Record], racers: Sequence[Record], lead: str, rung: int
) -> list[Record]:
    """Those of the running trials that are still in after a rung."""
    if rung < _TEST_AFTER:
        ranked = sorted(running, key=lambda r: (r.mean(lead, lead, rung), r.slot))
        return ranked[: ceil(_GO_ON * len(racers))]
    there = [r for r in racers if len(r.folds) >= rung]
    best = min(there, key=lambda r: r.mean(lead, lead, rung)).scores(lead, rung)
    return [r for r in running if not is_worse(r.scores(lead, rung), best)]


def is_worse(scores: FloatArray, best: FloatArray) -> bool:
    """Whether scores (k,) are worse than those of the best trial on the same folds."""
    difference = scores - best
    if difference.mean() <= 0.0:
        return False
    test = wilcoxon(difference, alternative="greater", zero_method="zsplit")
    return bool(test.pvalue < _P_THRESHOLD)
