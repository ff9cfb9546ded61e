"""Cholesky factor with a reported jitter, inverse and solves.

Matrices are row-major and symmetric; only the lower triangle counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from pcegp.errors import NotPositiveDefiniteError
from pcegp.numerics import tiles
from pcegp.numerics.threads import ALONE, Workers

FloatArray = NDArray[np.float64]

# Tried in turn, times the mean of the diagonal.
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)


def cholesky(
    C: FloatArray,
    fill: Callable[[FloatArray], None],
    workspace: FloatArray,
    crew: Workers = ALONE,
) -> tuple[FloatArray, float]:
    """Factor L of L L' = C + jitter I in the lower triangle of C, and the jitter.

    Parameters
    ----------
    C : (n, n) workspace, overwritten by the factor
    fill : writes the lower triangle of the matrix; called again for each attempt,
        because a failed factorisation destroys it
    workspace : (n, n), overwritten by what `solve_and_invert` can use
    """
    for relative, exact in ((JITTERS[0], False), *((jitter, True) for jitter in JITTERS)):
        fill(C)
        diagonal = C.diagonal()
        jitter = relative * float(diagonal.mean())
        if jitter > 0.0:
            C[np.diag_indices_from(C)] = diagonal + jitter
        if tiles.factor(C, workspace, crew, exact) and np.isfinite(C.diagonal()).all():
            return C, jitter
    raise NotPositiveDefiniteError


def solve_and_invert(
    factor: FloatArray, y: FloatArray, workspace: FloatArray, crew: Workers = ALONE
) -> tuple[FloatArray, FloatArray]:
    """C^-1 y, and C^-1 in the lower triangle of what was the factor of C.

    `workspace` is the one that `cholesky` has left.
    """
    x = y.copy()
    tiles.solve_and_invert(factor, x, workspace, crew)
    return x, factor


def solve(factor: FloatArray, y: FloatArray) -> FloatArray:
    """C^-1 y from the factor of C."""
    # BLAS reads column-major: to it, our lower L is the upper L'.
    half = blas.dtrsv(factor.T, y, lower=0, trans=1)
    return np.asarray(blas.dtrsv(factor.T, half, lower=0, overwrite_x=1))


def half_solve(factor: FloatArray, B: FloatArray, crew: Workers = ALONE) -> FloatArray:
    """Each row b of B (m, n) becomes L^-1 b, in place: its squares add up to b' C^-1 b."""
    tiles.half_solve(factor, B, crew)
    return B


def condition_number(factor: FloatArray) -> float:
    """Estimate of the condition number of C = L L' in the 1-norm, from its factor L (n, n)."""
    upper = factor.T  # L' in column-major order, as LAPACK wants it: no copy
    ones = np.ones(len(factor))
    # All covariances are positive, so the norm is the largest sum of a row, C 1 = L L' 1.
    norm = float(blas.dtrmv(upper, blas.dtrmv(upper, ones), trans=1).max())
    reciprocal, _ = lapack.dpocon(upper, norm, uplo="U")
    return float(1.0 / max(reciprocal, np.finfo(np.float64).tiny))


def log_determinant(factor: FloatArray) -> float:
    """log |C| from its factor."""
    return 2.0 * float(np.log(factor.diagonal()).sum())
