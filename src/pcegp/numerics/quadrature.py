"""Functions of normal variables as series of Hermite polynomials, by Gauss's quadrature."""

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from pcegp._typing import FloatArray

#: Nodes of the quadrature, and coefficients of a series.
NODES = 32


def _rule() -> tuple[FloatArray, FloatArray]:
    """Compute nodes (NODES,), and the orthonormal polynomials there times weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    values = np.polynomial.hermite_e.hermevander(nodes, NODES - 1)
    orders = np.arange(NODES)
    return nodes, (values * np.exp(-0.5 * gammaln(orders + 1.0))).T * (weights / weights.sum())


_NODES, _WEIGHTED = _rule()


def hermite_coefficients(
    function: Callable[[FloatArray], FloatArray], mean: FloatArray, deviation: FloatArray
) -> FloatArray:
    """Expand function(mean + deviation xi), xi ~ N(0, 1), in orthonormal polynomials of xi.

    The first coefficient is the mean of the function, the squares of the others add up to its
    variance, and two functions of normal variables of correlation r have the covariance
    sum_k c_k c'_k r^k (Mehler, 1866).

    Parameters
    ----------
    mean, deviation : (m,) each

    Returns
    -------
    (NODES, m)
    """
    values = function(mean + np.multiply.outer(_NODES, deviation))
    centre = function(mean)
    # Away from the centre, so that a small variance is not the difference of large numbers.
    coefficients = _WEIGHTED @ (values - centre)
    coefficients[0] += centre
    return coefficients
