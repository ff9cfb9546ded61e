"""Scores of predictions, as the paper's appendix H defines them, and CRPS and coverage.

y, mean, std: (n,) true values, predicted means and predicted standard deviations.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from pcegp._typing import FloatArray

#: What users are told where R2 is NaN.
UNDEFINED_R2 = "R2 of one row is not defined, so it is NaN: score 2 rows or more"
_FEWEST = 2  # rows that have a variance


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
    """Mean squared error; infinite where it is beyond floating-point numbers."""
    with np.errstate(over="ignore"):
        return float(_point_scores().mean_squared_error(y, mean))


def rmse(y: FloatArray, mean: FloatArray) -> float:
    """Root mean squared error, in any unit."""
    exponent = max(_exponent(np.ravel(y)), _exponent(np.ravel(mean)))
    scaled = _point_scores().root_mean_squared_error(np.ldexp(y, -exponent),
                                                     np.ldexp(mean, -exponent))
    return float(np.ldexp(scaled, exponent))


def r2(y: FloatArray, mean: FloatArray, sample_weight: ArrayLike | None = None) -> float:
    """Share of the variance that is explained, in any unit; NaN of one row, see `UNDEFINED_R2`.

    y and mean may be (n, t), and rows may have weights (n,).
    """
    if len(y) < _FEWEST:
        return float("nan")
    exponent = _exponent(y)
    return float(_point_scores().r2_score(np.ldexp(y, -exponent), np.ldexp(mean, -exponent),
                                          sample_weight=sample_weight))


def _exponent(values: FloatArray) -> Any:
    """Find the power of two just above each column, by which squares of it become numbers.

    The square of 1e200 is none, nor is that of 1e-200. A power of two changes no digit.
    """
    return np.frexp(np.abs(np.asarray(values)).max(axis=0, initial=0.0))[1]


def nll(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean negative log density of a normal prediction."""
    return float(np.mean(0.5 * ((y - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)))


def crps(
    y: FloatArray, mean: FloatArray, std: FloatArray, sample_weight: FloatArray | None = None
) -> float:
    """Mean continuous ranked probability score of a normal prediction."""
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    each = std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return float(np.average(each, weights=sample_weight))


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
