"""GPBoost: tree boosting and a stationary Gaussian process in one model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pcegp.baselines.scaled import ScaledRegressor

FloatArray = NDArray[np.float64]

#: The grid of its paper; trees may have as many leaves as their depth allows.
GRID = {
    "learning_rate": [0.001, 0.01, 0.1, 1.0, 10.0],
    "min_data_in_leaf": [1, 10, 100, 1000],
    "max_depth": [-1, 1, 2, 3, 5, 10],
    "lambda_l2": [0.0, 1.0, 10.0, 100.0],
}
_FIXED = {"num_leaves": 2**10, "verbose": -1, "num_threads": 1}
_EARLY_STOPPING = 5


class GPBoost(ScaledRegressor):
    """The paper's GPBoost: exponential covariance on all inputs, which are the trees' too.

    Parameters
    ----------
    n_candidates : points of the grid that are tried, drawn at random; None for all
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

    def __init__(
        self, *, n_candidates: int | None = None, max_rounds: int = 1000, n_folds: int = 4,
        random_state: int = 0,
    ) -> None:
        self.n_candidates = n_candidates
        self.max_rounds = max_rounds
        self.n_folds = n_folds
        self.random_state = random_state

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        import gpboost

        process, data = _fresh(X, y)
        chosen = gpboost.grid_search_tune_parameters(
            param_grid=GRID, params=dict(_FIXED), num_try_random=self.n_candidates,
            nfold=self.n_folds, seed=self.random_state, gp_model=process,
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
    import gpboost

    process = gpboost.GPModel(gp_coords=X, cov_function="exponential", likelihood="gaussian",
                              num_parallel_threads=1)
    return process, gpboost.Dataset(X, y)
