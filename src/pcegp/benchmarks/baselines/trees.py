"""What many users would pick instead of a Gaussian process: boosted trees and forests."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from pcegp._typing import FloatArray, IntArray
from pcegp.benchmarks.baselines.scaled import ScaledRegressor
from pcegp.errors import needed

_GAUSSIAN = "RMSEWithUncertainty"  # CatBoost's name of the loss
_RATE = 0.05  # one and the same with and without rows kept out
_KEPT_OUT = 0.1  # share of the rows
_EARLY_STOPPING = 50  # rounds without a better loss


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostGaussian(ScaledRegressor):
    """CatBoost twice: the mean by its squared loss, the variance by its Gaussian loss.

    The Gaussian loss alone would do both, but not well: its variances shrink with the rounds
    towards those of rows known by heart, and where they are best, on a tenth of the rows that
    are kept out, the means are far from it.

    Parameters
    ----------
    n_rounds : boosting rounds of the mean, and of the variance at most
    random_state : seed

    Attributes
    ----------
    n_rounds_ : int
        Rounds of the variance.
    """

    n_rounds: int = 1000
    random_state: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train on X (n, d) and y (n,); rows of one group are kept out together."""
        self._groups = groups
        return super().fit(X, y)

    def _boosted(self, loss: str, n_rounds: int, **changes: Any) -> Any:
        return needed("catboost", type(self).__name__).CatBoostRegressor(
            iterations=n_rounds, loss_function=loss, verbose=False, thread_count=1,
            random_seed=self.random_state, allow_writing_files=False, **changes,
        )

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        self._mean = self._boosted("RMSE", self.n_rounds).fit(X, y)
        inner, kept_out = self._divided(X)
        stopped = self._boosted(_GAUSSIAN, self.n_rounds, learning_rate=_RATE).fit(
            X[inner], y[inner], eval_set=(X[kept_out], y[kept_out]),
            early_stopping_rounds=_EARLY_STOPPING,
        )
        self.n_rounds_ = stopped.get_best_iteration() + 1
        self._variance = self._boosted(_GAUSSIAN, self.n_rounds_, learning_rate=_RATE).fit(X, y)

    def _divided(self, X: FloatArray) -> tuple[IntArray, IntArray]:
        """Divide the rows into those that train and those that are kept out."""
        kind = ShuffleSplit if self._groups is None else GroupShuffleSplit
        splitter = kind(1, test_size=_KEPT_OUT, random_state=self.random_state)
        return next(splitter.split(X, None, self._groups))

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        variance = self._variance.predict(X, prediction_type=_GAUSSIAN)[:, 1]
        return self._mean.predict(X), variance


@dataclass(kw_only=True, eq=False, repr=False)
class ForestGaussian(ScaledRegressor):
    """A random forest; its trees, each grown to single rows, spread as new values do.

    Parameters
    ----------
    n_trees : trees
    random_state : seed
    """

    n_trees: int = 500
    random_state: int = 0

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        self._forest = RandomForestRegressor(
            self.n_trees, max_features=1 / 3, random_state=self.random_state, n_jobs=1
        ).fit(X, y)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        each = np.array([tree.predict(X) for tree in self._forest.estimators_])
        return each.mean(axis=0), each.var(axis=0)
