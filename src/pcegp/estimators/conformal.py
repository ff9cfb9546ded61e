"""Intervals with a guarantee: CV+ on residuals in predicted standard deviations.

The model is trained again without each of K folds. Row i, in fold k(i), gets the score
R_i = |y_i - m_k(i)(x_i)| / s_k(i)(x_i) from the model that has not seen it. For a new x,
every row proposes the ends m_k(i)(x) -+ R_i s_k(i)(x), and the interval runs between the
quantiles of the lower and of the upper ends. Whatever the data and however wrong the model,
it covers a new value with a probability of at least 1 - 2 alpha - O(K / n) for
exchangeable rows, and of about 1 - alpha in practice (Barber, Candes, Ramdas and
Tibshirani, 2021). A row of weight 2 is trained on, and proposes its ends, as two rows.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from pcegp._progress import bar
from pcegp._typing import FloatArray, IntArray
from pcegp.errors import DataError, DataWarning, PCEGPWarning, SettingError, warn
from pcegp.estimators.fitted_model import FittedModel
from pcegp.preprocessing import validation

_BLOCK = 10_000_000  # ends of rows that are sorted together: n times some of the m


@dataclass(frozen=True)
class CrossFit:
    """Models trained without one fold each, and the scores of the rows they left out."""

    models: list[Any]
    fold: IntArray  # (n,) of each row
    scores: FloatArray  # (n,) residuals in predicted standard deviations
    weights: FloatArray  # (n,)

    def interval(self, X: Any, coverage: float) -> tuple[FloatArray, FloatArray]:
        """Compute lower and upper ends (m,) at X (m, D)."""
        with warnings.catch_warnings(action="ignore", category=PCEGPWarning):
            pairs = [model.predict(X, return_std=True) for model in self.models]
        means, deviations = (np.array(part) for part in zip(*pairs, strict=True))  # (folds, m)
        rank = _rank(coverage, float(self.weights.sum()))
        lower, upper = np.empty(len(X)), np.empty(len(X))
        size = max(_BLOCK // len(self.scores), 1)
        for start in range(0, len(X), size):
            block = slice(start, start + size)
            mean = means[self.fold, block]
            reach = self.scores[:, None] * deviations[self.fold, block]
            lower[block] = -_end(reach - mean, self.weights, rank)
            upper[block] = _end(mean + reach, self.weights, rank)
        return lower, upper


def _rank(coverage: float, total: float) -> float:
    """Tell how many of `total` sorted ends must lie within; beyond them only infinity is safe."""
    return coverage * (total + 1)


def _end(values: FloatArray, weights: FloatArray, rank: float) -> FloatArray:
    """Find the smallest of values (n, m) that, with those below, count for a rank: (m,)."""
    if (weights == 1.0).all():
        k = int(np.ceil(rank)) - 1
        return np.asarray(np.partition(values, k, axis=0)[k])
    order = np.argsort(values, axis=0)
    below = np.cumsum(weights[order], axis=0) < rank
    at = np.minimum(below.sum(axis=0), len(values) - 1)  # of a sum rounded down
    return np.asarray(np.take_along_axis(values, order, axis=0)[at, np.arange(values.shape[1])])


def _rows_needed(coverage: float) -> int:
    """Count the rows that a finite interval takes."""
    n = int(coverage / (1.0 - coverage))
    while _rank(coverage, n) > n:
        n += 1
    return n


def cross_fit(
    model: Any, X: FloatArray, y: FloatArray, n_folds: int, show: bool = False,
    weights: FloatArray | None = None,
) -> CrossFit:
    """Train clones of a model on X (n, D), y (n,) and weights (n,) without each fold."""
    weights = np.ones(len(y)) if weights is None else weights
    are_equal = (weights == 1.0).all()
    fold = np.empty(len(y), dtype=np.int64)
    scores = np.empty(len(y))
    models: list[Any] = []
    with (warnings.catch_warnings(action="ignore", category=PCEGPWarning),
          bar(show, n_folds, "training without each fold") as update):
        splits = KFold(n_folds, shuffle=True, random_state=0).split(X)
        for number, (train, left) in enumerate(splits):
            models.append(clone(model).fit(X[train], y[train],
                                           None if are_equal else weights[train]))
            mean, std = models[-1].predict(X[left], return_std=True)
            fold[left], scores[left] = number, np.abs(y[left] - mean) / std
            if update is not None:
                update(len(models))
    return CrossFit(models, fold, scores, weights)


def interval(
    model: Any, fitted: FittedModel, known: dict[int, CrossFit], columns: FloatArray,
    coverage: float, n_folds: int, show: bool,
) -> tuple[FloatArray, FloatArray]:
    """Compute lower and upper ends (m,) at columns (m, D).

    Parameters
    ----------
    model : regressor whose clones are trained without each fold
    fitted : fitted model, which has the rows of the training
    known : earlier results by number of folds; a new one is added
    """
    if not fitted.one_output:
        raise SettingError("predict_interval is for one output: fit one model for each")
    coverage = validation.check_number("coverage", coverage, 0.0, 1.0, open_low=True)
    n_folds = validation.check_integer("n_folds", n_folds, 2)
    y = fitted.training_target()
    if len(y) < n_folds:
        raise DataError(f"{len(y)} rows cannot be split into {n_folds} folds: lower n_folds")
    weights = fitted.outputs[0].base.data.weights
    total = float(weights.sum())
    if _rank(coverage, total) > total:
        # With few rows the quantile lies beyond the last of them: no finite end is safe.
        enough = ("no number of rows is enough" if coverage == 1.0
                  else f"it takes {_rows_needed(coverage):,} rows or more")
        warn(f"{total:g} rows allow no finite interval of coverage {coverage:g}, so all are "
             f"infinite: {enough}, or lower coverage", DataWarning)
        infinite = np.full(len(columns), np.inf)
        return -infinite, infinite
    if n_folds not in known:
        known[n_folds] = cross_fit(model, fitted.training_inputs(), y, n_folds, show, weights)
    return known[n_folds].interval(columns, coverage)
