"""Sobol indices: which inputs, alone and together, a function of the inputs varies with.

Inputs are uniform on a box. Of a polynomial chaos expansion the indices follow from its
coefficients in closed form; of any other function they are estimated on quasi-random
points.

    first   (d,)    share of the variance that input i explains alone
    total   (d,)    share that would be left if only input i were unknown
    second  (d, d)  share of the pairs beyond their two inputs; symmetric, 0 on the diagonal
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from pcegp.polynomials.expansion import Expansion

FloatArray = NDArray[np.float64]


class SobolIndices(NamedTuple):
    """Mean, variance and the shares of it; all shares are 0 where nothing varies."""

    mean: float
    variance: float
    first: FloatArray
    total: FloatArray
    second: FloatArray


def of_expansion(expansion: Expansion) -> SobolIndices:
    """Indices of an expansion on its training box, from its coefficients."""
    coefficients, indices = expansion.on_box, expansion.basis.indices
    d, present = indices.shape[1], indices > 0
    n_present = present.sum(axis=1)
    squares = coefficients**2
    variance = float(squares[n_present > 0].sum())
    first, total, second = np.zeros(d), np.zeros(d), np.zeros((d, d))
    for i in range(d):
        first[i] = squares[present[:, i] & (n_present == 1)].sum()
        total[i] = squares[present[:, i]].sum()
        for j in range(i):
            both = present[:, i] & present[:, j] & (n_present == 2)
            second[i, j] = second[j, i] = squares[both].sum()
    mean = float(coefficients[n_present == 0].sum())
    return _shares(mean, variance, first, total, second)


def by_sampling(
    function: Callable[[FloatArray], FloatArray],
    lower: FloatArray,
    upper: FloatArray,
    log2_points: int = 12,
    pairs: bool = True,
) -> list[SobolIndices]:
    """Indices of several functions of X (m, d) on a box, estimated on 2^log2_points points.

    Estimators of Saltelli (first order and pairs) and Jansen (total), on two halves of a
    scrambled Sobol sequence.

    Parameters
    ----------
    function : from X (m, d) to values (q, m) of q functions
    pairs : without them, `second` is NaN off the diagonal
    """
    d = len(lower)
    sampler = qmc.Sobol(2 * d, scramble=True, rng=np.random.default_rng(0))
    both = sampler.random_base2(log2_points)
    A, B = (lower + (upper - lower) * half for half in np.split(both, 2, axis=1))
    f_A, f_B = function(A), function(B)
    mixed = [function(_with_column(A, B, i)) for i in range(d)]
    swapped = [function(_with_column(B, A, i)) for i in range(d)] if pairs else None
    return [
        _estimate(f_A[q], f_B[q], [f[q] for f in mixed],
                  None if swapped is None else [f[q] for f in swapped])
        for q in range(len(f_A))
    ]


def _estimate(
    f_A: FloatArray, f_B: FloatArray, mixed: list[FloatArray], swapped: list[FloatArray] | None
) -> SobolIndices:
    """From values at A and B, at A with a column of B, and at B with a column of A."""
    d, all_values = len(mixed), np.concatenate([f_A, f_B])
    mean, variance = float(all_values.mean()), float(all_values.var())
    f_A, f_B, mixed = f_A - mean, f_B - mean, [f - mean for f in mixed]
    first = np.array([np.mean(f_B * (f - f_A)) for f in mixed])
    total = np.array([0.5 * np.mean((f_A - f) ** 2) for f in mixed])
    second = np.full((d, d), np.nan)
    np.fill_diagonal(second, 0.0)
    if swapped is not None:
        for i in range(d):
            for j in range(i):
                closed = np.mean((swapped[i] - mean) * mixed[j] - f_A * f_B)
                second[i, j] = second[j, i] = closed - first[i] - first[j]
    return _shares(mean, variance, first, total, second)


def _with_column(A: FloatArray, B: FloatArray, i: int) -> FloatArray:
    """A with column i of B."""
    out = A.copy()
    out[:, i] = B[:, i]
    return out


def _shares(mean: float, variance: float, *parts: FloatArray) -> SobolIndices:
    """Parts of the variance as shares of it; rounding may leave a variance of 1e-32."""
    flat = variance <= 1e-24 * max(mean**2, 1e-300)
    first, total, second = (np.zeros_like(p) if flat else p / variance for p in parts)
    return SobolIndices(mean, 0.0 if flat else variance, first, total, second)
