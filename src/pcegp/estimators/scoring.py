"""R2 of a regressor, in any unit of the target and for any number of rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from pcegp._typing import FloatArray
from pcegp.errors import DataWarning, warn
from pcegp.preprocessing import validation


class Scored(RegressorMixin):
    """A regressor that scores its own predictions."""

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute R2, the share of the variance of y (m,) or (m, t) that is explained at X (m, D).

        Of one row it is not defined: NaN, with a warning.
        """
        mean = self.predict(X)
        validation.check_targets(y)
        if len(mean) == 1:
            warn("R2 of one row is not defined, so it is NaN: score 2 rows or more", DataWarning)
            return float("nan")
        observed = np.asarray(y, dtype=np.float64)
        exponent = _exponent(observed)
        return float(r2_score(np.ldexp(observed, -exponent), np.ldexp(mean, -exponent),
                              sample_weight=sample_weight))


def _exponent(y: FloatArray) -> Any:
    """Find the power of two just above each target, so that its square is a number."""
    return np.frexp(np.abs(y).max(axis=0, initial=0.0))[1]
