"""What users would pick for many rows: boosted trees, inducing points, GPBoost's neighbours."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from pcegp._typing import FloatArray
from pcegp.benchmarks.baselines.scaled import ScaledRegressor
from pcegp.errors import needed

_KEPT_OUT = 0.1  # share of the rows
_EARLY_STOPPING = 50  # rounds without a better loss
_BATCH = 1024  # rows of a step, and rows that are predicted at once


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBM(ScaledRegressor):
    """LightGBM with early stopping; the variance is the error on the rows that are kept out.

    Parameters
    ----------
    n_rounds : boosting rounds at most
    learning_rate : of each round
    random_state : seed of the rows that are kept out
    """

    n_rounds: int = 500
    learning_rate: float = 0.05
    random_state: int = 0

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        lightgbm = needed("lightgbm", type(self).__name__)
        inner, kept_out, y_inner, y_kept_out = train_test_split(
            X, y, test_size=_KEPT_OUT, random_state=self.random_state)
        self._trees = lightgbm.LGBMRegressor(
            n_estimators=self.n_rounds, learning_rate=self.learning_rate, verbose=-1,
            random_state=self.random_state,
        ).fit(inner, y_inner, eval_set=[(kept_out, y_kept_out)],
              callbacks=[lightgbm.early_stopping(_EARLY_STOPPING, verbose=False)])
        self._variance = float(np.mean((y_kept_out - self._trees.predict(kept_out)) ** 2))

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._trees.predict(X), np.full(len(X), self._variance)


@dataclass(kw_only=True, eq=False, repr=False)
class InducingPoints(ScaledRegressor):
    """GPyTorch's variational process (SVGP): Matérn 5/2, a scale per input, inducing points.

    Parameters
    ----------
    n_inducing : inducing points
    n_steps : steps of Adam, each on 1,024 rows
    learning_rate : of Adam
    random_state : seed of the steps and of the first inducing points
    """

    n_inducing: int = 512
    n_steps: int = 2000
    learning_rate: float = 0.02
    random_state: int = 0

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        needed("gpytorch", type(self).__name__)
        from pcegp.benchmarks.baselines.inducing import trained

        self._model = trained(X, y, self.n_inducing, self.n_steps, self.learning_rate,
                              self.random_state)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = [self._model.moments(X[start : start + _BATCH])
                 for start in range(0, len(X), _BATCH)]
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, variance


@dataclass(kw_only=True, eq=False, repr=False)
class GPBoostNeighbours(ScaledRegressor):
    """GPBoost's process by nearest neighbours (Vecchia): Matérn 5/2, a scale per input.

    Parameters
    ----------
    n_neighbours : rows that each row is conditioned on
    """

    n_neighbours: int = 20

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        gpboost = needed("gpboost", type(self).__name__)
        self._model: Any = gpboost.GPModel(
            gp_coords=X, cov_function="matern_ard", cov_fct_shape=2.5, gp_approx="vecchia",
            num_neighbors=self.n_neighbours)
        self._model.fit(y=y)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = self._model.predict(gp_coords_pred=X, predict_var=True, predict_response=True)
        return found["mu"], found["var"]
