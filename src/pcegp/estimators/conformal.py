"""Intervals with a guarantee: CV+ on residuals in predicted standard deviations.

The model is trained again without each of K folds. Row i, in fold k(i), gets the score
R_i = |y_i - m_k(i)(x_i)| / s_k(i)(x_i) from the model that has not seen it. For a new x,
every row proposes the ends m_k(i)(x) -+ R_i s_k(i)(x), and the interval runs between the
quantiles of the lower and of the upper ends. Whatever the data and however wrong the model,
it covers a new value with a probability of at least 1 - 2 alpha - O(K / n) for
exchangeable rows, and of about 1 - alpha in practice (Barber, Candes, Ramdas and
Tibshirani, 2021).
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


@dataclass(frozen=True)
class CrossFit:
    """Models trained without one fold each, and the scores of the rows they left out."""

    models: list[Any]
    fold: IntArray  # (n,) of each row
    scores: FloatArray  # (n,) residuals in predicted standard deviations

    def interval(self, X: Any, coverage: float) -> tuple[FloatArray, FloatArray]:
        """Compute lower and upper ends (m,) at X (m, D)."""
        with warnings.catch_warnings(action="ignore", category=PCEGPWarning):
            pairs = [model.predict(X, return_std=True) for model in self.models]
        means = np.array([mean for mean, _ in pairs])[self.fold]  # (n, m)
        reach = self.scores[:, None] * np.array([std for _, std in pairs])[self.fold]
        k = _quantile(coverage, len(self.scores))
        lower = -np.partition(reach - means, k - 1, axis=0)[k - 1]
        upper = np.partition(means + reach, k - 1, axis=0)[k - 1]
        return lower, upper


def _quantile(coverage: float, n: int) -> int:
    """Find which of n sorted ends is safe, counted from 1; beyond n only an infinite one is."""
    return int(np.ceil(coverage * (n + 1)))


def _rows_needed(coverage: float) -> int:
    """Count the rows that a finite interval takes."""
    n = int(coverage / (1.0 - coverage))
    while _quantile(coverage, n) > n:
        n += 1
    return n


def cross_fit(
    model: Any, X: FloatArray, y: FloatArray, n_folds: int, show: bool = False
) -> CrossFit:
    """Train clones of a model on X (n, D) and y (n,) without each fold."""
    fold = np.empty(len(y), dtype=np.int64)
    scores = np.empty(len(y))
    models: list[Any] = []
    with (warnings.catch_warnings(action="ignore", category=PCEGPWarning),
          bar(show, n_folds, "training without each fold") as update):
        splits = KFold(n_folds, shuffle=True, random_state=0).split(X)
        for number, (train, left) in enumerate(splits):
            models.append(clone(model).fit(X[train], y[train]))
            mean, std = models[-1].predict(X[left], return_std=True)
            fold[left], scores[left] = number, np.abs(y[left] - mean) / std
            if update is not None:
                update(len(models))
    return CrossFit(models, fold, scores)


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
    if _quantile(coverage, len(y)) > len(y):
        # With few rows the quantile lies beyond the last of them: no finite end is safe.
        enough = ("no number of rows is enough" if coverage == 1.0
                  else f"it takes {_rows_needed(coverage):,} rows or more")
        warn(f"{len(y)} rows allow no finite interval of coverage {coverage:g}, so all are "
             f"infinite: {enough}, or lower coverage", DataWarning)
        infinite = np.full(len(columns), np.inf)
        return -infinite, infinite
    if n_folds not in known:
        known[n_folds] = cross_fit(model, fitted.training_inputs(), y, n_folds, show)
    return known[n_folds].interval(columns, coverage)
