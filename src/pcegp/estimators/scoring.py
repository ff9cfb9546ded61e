"""R2 of a regressor, for targets of its own shape and any number of rows."""

import math

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from pcegp import metrics
from pcegp.errors import DataError, DataWarning, warn
from pcegp.preprocessing import validation


class Scored(RegressorMixin):
    """A regressor that scores its own predictions."""

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute R2, the share of the variance of y (m,) or (m, t) that is explained at X (m, D).

        Of one row it is not defined: NaN, with a warning.
        """
        mean = self.predict(X)
        validation.check_targets(y)
        observed = np.asarray(y, dtype=np.float64)
        one_column = observed.ndim == 2 and observed.shape[1] == 1  # as one target, as in `fit`
        if observed.shape != mean.shape and not (one_column and len(observed) == mean.size):
            raise DataError(f"y has shape {observed.shape}, and the predictions have {mean.shape}: "
                            "give one target for each of them")
        score = metrics.r2(observed.reshape(mean.shape), mean, sample_weight)
        if math.isnan(score):
            warn(metrics.UNDEFINED_R2, DataWarning)
        return score
