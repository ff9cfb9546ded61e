"""What baselines have in common: scaled inputs, a standardised target, one interface."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from pcegp._typing import FloatArray

# A method that reports no or a negative variance is as sure as this, in standardised units.
_LEAST_VARIANCE = 1e-10


class ScaledRegressor(RegressorMixin, BaseEstimator, ABC):
    """Inputs in [-1, 1], the target standardised, results in the units of the user.

    A baseline says how to train on scaled data (`_train`) and how to predict mean and
    variance, with noise, from scaled inputs (`_posterior`). It is a dataclass, whose fields
    are what scikit-learn reads as its parameters.

    Attributes
    ----------
    n_bad_variances_ : int
        Variances of all predictions so far that were not positive; they are replaced by a
        very small one.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on X (n, d) and y (n,)."""
        columns, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._inputs = MinMaxScaler((-1.0, 1.0)).fit(columns)
        self._centre, self._unit = float(target.mean()), float(target.std()) or 1.0
        self.n_bad_variances_ = 0
        self._train(self._inputs.transform(columns), (target - self._centre) / self._unit)
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Predict the mean (m,) at X (m, d), and the deviation of a new value if asked."""
        check_is_fitted(self, "n_bad_variances_")
        columns = validate_data(self, X, dtype=np.float64, reset=False)
        mean, variance = self._posterior(self._inputs.transform(columns))
        if not return_std:
            return self._centre + self._unit * mean
        bad = ~(variance > 0.0)
        self.n_bad_variances_ += int(bad.sum())
        deviation = np.sqrt(np.where(bad, _LEAST_VARIANCE, variance))
        return self._centre + self._unit * mean, self._unit * deviation

    @abstractmethod
    def _train(self, X: FloatArray, y: FloatArray) -> None:
        """Train on scaled inputs (n, d) and a standardised target (n,)."""

    @abstractmethod
    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predict mean and variance (m,), with noise, at scaled inputs (m, d)."""
