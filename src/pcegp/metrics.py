"""Scores of predictions, as the paper's appendix H defines them, and CRPS and coverage.

y, mean, std: (n,) true values, predicted means and predicted standard deviations.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from pcegp._typing import FloatArray


def _point_scores() -> Any:
    """Import scikit-learn's scores where one is asked for: importing this module is quick."""
    from sklearn import metrics

    return metrics


def mae(y: FloatArray, mean: FloatArray) -> float:
    """Mean absolute error."""
    return float(_point_scores().mean_absolute_error(y, mean))


def medae(y: FloatArray, mean: FloatArray) -> float:
    """Median absolute error."""
    return float(_point_scores().median_absolute_error(y, mean))


def mse(y: FloatArray, mean: FloatArray) -> float:
    """Mean squared error."""
    return float(_point_scores().mean_squared_error(y, mean))


def rmse(y: FloatArray, mean: FloatArray) -> float:
    """Root mean squared error."""
    return float(_point_scores().root_mean_squared_error(y, mean))


def r2(y: FloatArray, mean: FloatArray) -> float:
    """Share of the variance that is explained; of one row it is not defined, so NaN."""
    return float("nan") if len(y) < 2 else float(_point_scores().r2_score(y, mean))


def nll(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean negative log density of a normal prediction."""
    return float(np.mean(0.5 * ((y - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)))


def crps(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean continuous ranked probability score of a normal prediction."""
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return float(np.mean(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))))


def search_scores(
    y: FloatArray, predictions: Iterable[tuple[FloatArray, FloatArray]]
) -> list[dict[str, float]]:
    """Compute what a search can minimise for several predictions (mean, std) of y."""
    return [{"rmse": rmse(y, mean), "nll": nll(y, mean, std), "crps": crps(y, mean, std)}
            for mean, std in predictions]


def coverage(y: FloatArray, mean: FloatArray, std: FloatArray, level: float = 0.95) -> float:
    """Share of true values inside the central interval of that level."""
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + level / 2) * std))


def scores(y: FloatArray, mean: FloatArray, std: FloatArray) -> dict[str, float]:
    """Compute all scores, by the names that the paper's tables use."""
    return {
        "MAE": mae(y, mean),
        "MedAE": medae(y, mean),
        "MSE": mse(y, mean),
        "RMSE": rmse(y, mean),
        "R2": r2(y, mean),
        "NLL": nll(y, mean, std),
        "CRPS": crps(y, mean, std),
        "coverage95": coverage(y, mean, std),
    }
