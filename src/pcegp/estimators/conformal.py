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

from pcegp._typing import FloatArray, IntArray
from pcegp.errors import DataError, PCEGPWarning
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
        n = len(self.scores)
        # With few rows the quantile lies beyond the last of them: no finite end is safe.
        k = int(np.ceil(coverage * (n + 1)))
        if k > n:
            infinite = np.full(means.shape[1], np.inf)
            return -infinite, infinite
        lower = -np.partition(reach - means, k - 1, axis=0)[k - 1]
        upper = np.partition(means + reach, k - 1, axis=0)[k - 1]
        return lower, upper


def cross_fit(model: Any, X: FloatArray, y: FloatArray, n_folds: int) -> CrossFit:
    """Train clones of a model on X (n, D) and y (n,) without each fold."""
    n_folds = validation.check_integer("n_folds", n_folds, 2)
    if len(y) < n_folds:
        raise DataError(f"{len(y)} rows cannot be split into {n_folds} folds: lower n_folds")
    fold = np.empty(len(y), dtype=np.int64)
    scores = np.empty(len(y))
    models = []
    with warnings.catch_warnings(action="ignore", category=PCEGPWarning):
        splits = KFold(n_folds, shuffle=True, random_state=0).split(X)
        for number, (train, left) in enumerate(splits):
            models.append(clone(model).fit(X[train], y[train]))
            mean, std = models[-1].predict(X[left], return_std=True)
            fold[left], scores[left] = number, np.abs(y[left] - mean) / std
    return CrossFit(models, fold, scores)
