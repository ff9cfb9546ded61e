"""When a trial may stop before its last fold.

All trials begin with the first fold, or with the first fold and fewer rows to train on where
there are many: the screen. Only the best share of all trials goes on to the other folds.
After three folds only those go on that are better than the best finished trial was there;
after six, and then after every second fold, those that Wilcoxon's signed-rank test does not
find to be worse than that one (the test of Optuna's WilcoxonPruner). Folds are the same for
all trials, so scores are compared pair by pair. What a trial is compared with depends on the
trials of its own and of earlier batches only, never on how fast they ran.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Split = tuple[IntArray, IntArray]

_SCREEN_ROWS = 1000  # to train on; the cost grows with their cube
_PASS_SCREEN = 0.125
_COMPARE_AFTER = 3  # folds
_TEST_AFTER, _TEST_EVERY = 6, 2  # folds
_P_THRESHOLD = 0.1


def screen_of(splits: Sequence[Split]) -> Split | None:
    """Training and validation rows of the screen; None where it is the first fold itself."""
    train, valid = splits[0]
    if len(train) <= _SCREEN_ROWS:
        return None
    # In a fixed random order, whatever the order of the table.
    chosen = np.random.default_rng(len(train)).choice(len(train), _SCREEN_ROWS, replace=False)
    return train[np.sort(chosen)], valid


def rungs(n_folds: int, racing: bool) -> tuple[int, ...]:
    """Numbers of folds after which it is decided who goes on; the last is all of them."""
    if not racing:
        return (n_folds,)
    early = (_COMPARE_AFTER, *range(_TEST_AFTER, n_folds, _TEST_EVERY))
    return (*(rung for rung in early if rung < n_folds), n_folds)


def passes_screen(score: float, others: Sequence[float]) -> bool:
    """Whether a score is among the best share of all; `others` are those of the rest."""
    better = sum(other < score for other in others)
    return better < max(1.0, _PASS_SCREEN * (len(others) + 1))


def is_worse(scores: FloatArray, best: FloatArray) -> bool:
    """Whether scores (k,) are worse than those of the best trial on the same folds."""
    difference = scores - best
    if difference.mean() <= 0.0:
        return False
    test = wilcoxon(difference, alternative="greater", zero_method="zsplit")
    return bool(test.pvalue < _P_THRESHOLD)


def passes_rung(scores: FloatArray, best: FloatArray | None) -> bool:
    """Whether a trial with scores (k,) on its first folds goes on to the next ones.

    `best` are the scores (k,) of the best finished trial of earlier batches, if there is one.
    """
    if best is None:
        return True
    if len(scores) < _TEST_AFTER:
        return bool(scores.mean() < best.mean())
    return not is_worse(scores, best)
