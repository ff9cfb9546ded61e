"""How far a fitted model can be trusted: leave-one-out errors and what they say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from pcegp import metrics
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inspection.explanation import posterior_of

FloatArray = NDArray[np.float64]

LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Diagnostics:
    """Every training target predicted from all others, (n,) each, in the target's units.

    The parameters were trained with the target in question, so the errors are somewhat
    smaller than those on new data.
    """

    y: FloatArray
    mean: FloatArray
    std: FloatArray

    @property
    def residual(self) -> FloatArray:
        """y minus its prediction."""
        return self.y - self.mean

    @property
    def standardised(self) -> FloatArray:
        """Residuals in predicted standard deviations; normal if the model is right."""
        return np.asarray(self.residual / self.std)

    @property
    def pit(self) -> FloatArray:
        """Probability that the model gave to smaller values; uniform if it is right."""
        return np.asarray(ndtr(self.standardised))

    @property
    def normal_quantiles(self) -> FloatArray:
        """Where the sorted standardised residuals should be."""
        n = len(self.y)
        return np.asarray(ndtri((np.arange(n) + 0.5) / n))

    def scores(self) -> dict[str, float]:
        """MAE, MedAE, MSE, RMSE, R2, NLL, CRPS and coverage95."""
        return metrics.scores(self.y, self.mean, self.std)

    def coverage(self, levels: tuple[float, ...] = LEVELS) -> dict[float, float]:
        """Share of targets inside the central interval of each level."""
        return {level: metrics.coverage(self.y, self.mean, self.std, level) for level in levels}

    def worst(self, n: int = 10) -> NDArray[np.intp]:
        """Training rows that are explained worst, by standardised residual."""
        return np.argsort(-np.abs(self.standardised), kind="stable")[:n]


def diagnose(model: PCEGPRegressor, output: int = 0) -> Diagnostics:
    """Leave-one-out diagnostics of a fitted model; rows of zero weight are left out."""
    posterior, scaler = posterior_of(model, output), model._targets[output]
    mean, variance = posterior.leave_one_out()
    return Diagnostics(
        y=scaler.mean(posterior.y), mean=scaler.mean(mean),
        std=scaler.deviation(np.sqrt(variance)),
    )
