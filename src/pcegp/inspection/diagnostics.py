"""Diagnostics of a fitted model: leave-one-out errors and what they say."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from pcegp import metrics
from pcegp._typing import FloatArray, IntArray
from pcegp.estimators import PCEGPRegressor, fitted_output

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
        """Targets minus their predictions."""
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
        """Values that the sorted standardised residuals should have."""
        n = len(self.y)
        return np.asarray(ndtri((np.arange(n) + 0.5) / n))

    def scores(self) -> dict[str, float]:
        """Compute MAE, MedAE, MSE, RMSE, R2, NLL, CRPS and coverage95."""
        return metrics.scores(self.y, self.mean, self.std)

    def coverage(self, levels: tuple[float, ...] = LEVELS) -> dict[float, float]:
        """Compute the share of targets inside the central interval of each level."""
        return {level: metrics.coverage(self.y, self.mean, self.std, level) for level in levels}

    def worst(self, n: int = 10) -> IntArray:
        """Find the training rows that are explained worst, by standardised residual."""
        return np.argsort(-np.abs(self.standardised), kind="stable")[:n]


def diagnose(model: PCEGPRegressor, output: int = 0) -> Diagnostics:
    """Diagnose a fitted model by leave-one-out; rows of zero weight are left out."""
    fitted, out = fitted_output(model, output, "diagnose")
    mean, variance = out.posterior.leave_one_out()
    return Diagnostics(fitted.training_target(output), out.target.mean(mean),
                       out.target.deviation(np.sqrt(variance)))
