"""What many users would pick instead of a Gaussian process: boosted trees and forests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

from pcegp.baselines.scaled import ScaledRegressor

FloatArray = NDArray[np.float64]


class CatBoostGaussian(ScaledRegressor):
    """CatBoost with a Gaussian loss: its trees predict mean and variance.

    Parameters
    ----------
    n_rounds : boosting rounds
    random_state : seed
    """

    def __init__(self, *, n_rounds: int = 1000, random_state: int = 0) -> None:
        self.n_rounds = n_rounds
        self.random_state = random_state

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        from catboost import CatBoostRegressor

        self._model = CatBoostRegressor(
            iterations=self.n_rounds, loss_function="RMSEWithUncertainty", verbose=False,
            random_seed=self.random_state, thread_count=1, allow_writing_files=False,
        ).fit(X, y)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance = self._model.predict(X, prediction_type="RMSEWithUncertainty").T
        return mean, variance


class ForestGaussian(ScaledRegressor):
    """A random forest; its trees, each grown to single rows, spread as new values do.

    Parameters
    ----------
    n_trees : trees
    random_state : seed
    """

    def __init__(self, *, n_trees: int = 500, random_state: int = 0) -> None:
        self.n_trees = n_trees
        self.random_state = random_state

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        self._forest = RandomForestRegressor(
            self.n_trees, max_features=1 / 3, random_state=self.random_state, n_jobs=1
        ).fit(X, y)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        each = np.array([tree.predict(X) for tree in self._forest.estimators_])
        return each.mean(axis=0), each.var(axis=0)
