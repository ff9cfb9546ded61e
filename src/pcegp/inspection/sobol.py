"""Sobol indices: which inputs, alone and together, a function of the inputs varies with.

Inputs are uniform on a box. Of a polynomial chaos expansion the indices follow from its
coefficients in closed form; of any other function they are estimated on quasi-random points.

    first  (d,)  share of the variance that input i explains alone
    total  (d,)  share that would be left if only input i were unknown
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from pcegp._typing import FloatArray
from pcegp.polynomials import Expansion


class SobolIndices(NamedTuple):
    """Mean, variance and the shares of it; all shares are 0 where nothing varies."""

    mean: float
    variance: float
    first: FloatArray
    total: FloatArray


def of_expansion(expansion: Expansion) -> SobolIndices:
    """Compute the indices of an expansion on its training box, from its coefficients."""
    coefficients, present = expansion.on_box, expansion.basis.indices > 0
    squares, order = coefficients**2, present.sum(axis=1)
    alone = present & (order == 1)[:, None]
    return _shares(coefficients[order == 0].sum(), squares[order > 0].sum(), squares @ alone,
                   squares @ present)


def by_sampling(
    function: Callable[[FloatArray], FloatArray],
    lower: FloatArray,
    upper: FloatArray,
    log2_points: int = 12,
) -> list[SobolIndices]:
    """Estimate the indices of several functions of X (m, d) on a box.

    The estimators are those of Saltelli (first order) and Jansen (total), on two halves of a
    scrambled Sobol sequence. `scipy.stats.sobol_indices` has the same, but it holds the values
    for all inputs at once and fails for one function of one input.

    Parameters
    ----------
    function : from X (m, d) to values (q, m) of q functions
    log2_points : logarithm of the number m of points in each half
    """
    d = len(lower)
    sampler = qmc.Sobol(2 * d, scramble=True, rng=np.random.default_rng(0))
    halves = np.split(sampler.random_base2(log2_points), 2, axis=1)
    A, B = (lower + (upper - lower) * half for half in halves)
    f_A, f_B = function(A), function(B)
    values = np.concatenate([f_A, f_B], axis=1)
    mean, variance = values.mean(axis=1), values.var(axis=1)
    first, total = np.empty((2, len(f_A), d))
    for i in range(d):
        mixed = A.copy()
        mixed[:, i] = B[:, i]
        change = function(mixed) - f_A
        first[:, i] = ((f_B - mean[:, None]) * change).mean(axis=1)
        total[:, i] = 0.5 * (change**2).mean(axis=1)
    return [_shares(*parts) for parts in zip(mean, variance, first, total, strict=True)]


def _shares(
    mean: np.float64, variance: np.float64, first: FloatArray, total: FloatArray
) -> SobolIndices:
    """Divide parts of the variance by it; rounding may leave a variance of 1e-32."""
    if variance <= 1e-24 * max(mean**2, 1e-300):
        return SobolIndices(float(mean), 0.0, np.zeros_like(first), np.zeros_like(total))
    return SobolIndices(float(mean), float(variance), first / variance, total / variance)
