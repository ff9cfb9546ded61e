"""GPBoost: tree boosting and a stationary Gaussian process in one model.

Importing this needs GPBoost.
"""

from dataclasses import dataclass
from typing import Any, Self

import gpboost
import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import GroupKFold

from pcegp._typing import FloatArray
from pcegp.benchmarks.baselines.scaled import ScaledRegressor

#: The grid of its paper; trees may have as many leaves as their depth allows.
GRID: dict[str, list[Any]] = {
    "learning_rate": [0.001, 0.01, 0.1, 1.0, 10.0],
    "min_data_in_leaf": [1, 10, 100, 1000],
    "max_depth": [-1, 1, 2, 3, 5, 10],
    "lambda_l2": [0.0, 1.0, 10.0, 100.0],
}
# What is drawn from where not all can be tried: other rates hardly move or diverge.
_DRAWN_RATES = [0.01, 0.1, 1.0]
_FIXED = {"num_leaves": 2**10, "verbose": -1, "num_threads": 1}
_EARLY_STOPPING = 5


@dataclass(kw_only=True, eq=False, repr=False)
class GPBoost(ScaledRegressor):
    """The paper's GPBoost: exponential covariance on all inputs, which are the trees' too.

    Parameters
    ----------
    n_candidates : points of the grid that are tried; None for all. They are drawn at random
        where a tree can be split (leaves of at most half the rows) and rates are 0.01 to 1
    max_rounds : boosting rounds at most
    n_folds : of the inner cross-validation that chooses the point and the rounds
    random_state : seed of folds and candidates

    Attributes
    ----------
    best_params_ : dict
        The chosen point of the grid.
    n_rounds_ : int
        Boosting rounds of the trained model.
    """

    n_candidates: int | None = None
    max_rounds: int = 1000
    n_folds: int = 4
    random_state: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train on X (n, d) and y (n,); rows of one group stay in one inner fold."""
        self._folds = None
        if groups is not None:
            splitter = GroupKFold(self.n_folds, shuffle=True, random_state=self.random_state)
            self._folds = list(splitter.split(X, y, groups))
        return super().fit(X, y)

    def _grid(self, n_rows: int) -> dict[str, list[Any]]:
        if self.n_candidates is None:
            return GRID
        leaves = [size for size in GRID["min_data_in_leaf"] if size <= n_rows // 2]
        return {**GRID, "learning_rate": _DRAWN_RATES, "min_data_in_leaf": leaves}

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        process, data = _fresh(X, y)
        chosen = gpboost.grid_search_tune_parameters(
            param_grid=self._grid(len(y)), params=dict(_FIXED), num_try_random=self.n_candidates,
            nfold=self.n_folds, folds=self._folds, seed=self.random_state, gp_model=process,
            use_gp_model_for_validation=True, train_set=data, verbose_eval=0,
            num_boost_round=self.max_rounds, early_stopping_rounds=_EARLY_STOPPING,
            metric="rmse",
        )
        self.best_params_, self.n_rounds_ = chosen["best_params"], int(chosen["best_iter"])
        # Tuning leaves its mark on both: the final model gets new ones.
        process, data = _fresh(X, y)
        self._booster = gpboost.train(params={**_FIXED, **self.best_params_}, train_set=data,
                                      gp_model=process, num_boost_round=self.n_rounds_)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        out = self._booster.predict(data=X, gp_coords_pred=X, predict_var=True, pred_latent=False)
        return np.asarray(out["response_mean"]), np.asarray(out["response_var"])


def _fresh(X: FloatArray, y: FloatArray) -> tuple[object, object]:
    process = gpboost.GPModel(gp_coords=X, cov_function="exponential", likelihood="gaussian",
                              num_parallel_threads=1)
    return process, gpboost.Dataset(X, y)
