"""Cholesky factor with a reported jitter, inverse and solves, and the thread policy.

Matrices are row-major and symmetric; only the lower triangle counts. LAPACK reads
column-major, so to it our lower triangle is the upper one of the transpose: every call
passes ``C.T`` with ``lower=0`` and works in place, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from threadpoolctl import ThreadpoolController

FloatArray = NDArray[np.float64]

# Tried in turn, times the mean of the diagonal.
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
# Below this size several threads cost more than they bring (up to 100 times).
_SMALLEST_FOR_THREADS = 300


class NotPositiveDefiniteError(ArithmeticError):
    """No jitter of the ladder made the matrix positive definite."""


def cholesky(C: FloatArray, fill: Callable[[FloatArray], None]) -> tuple[FloatArray, float]:
    """Factor L of L L' = C + jitter I in the lower triangle of C, and the jitter.

    Parameters
    ----------
    C : (n, n) workspace, overwritten by the factor
    fill : writes the lower triangle of the matrix; called again for each jitter,
        because a failed factorisation destroys it
    """
    for relative in JITTERS:
        fill(C)
        diagonal = C.diagonal()
        jitter = relative * float(diagonal.mean())
        if jitter > 0.0:
            C[np.diag_indices_from(C)] = diagonal + jitter
        _, info = lapack.dpotrf(C.T, lower=0, clean=0, overwrite_a=1)
        if info == 0 and np.isfinite(C.diagonal()).all():
            return C, jitter
    raise NotPositiveDefiniteError


def invert(factor: FloatArray) -> FloatArray:
    """Lower triangle of C^-1 from the factor of C, in place."""
    _, info = lapack.dpotri(factor.T, lower=0, overwrite_c=1)
    if info != 0:
        raise NotPositiveDefiniteError
    return factor


def solve(factor: FloatArray, y: FloatArray) -> FloatArray:
    """C^-1 y from the factor of C."""
    x, _ = lapack.dpotrs(factor.T, y, lower=0)
    return np.asarray(x)


def half_solve(factor: FloatArray, B: FloatArray) -> FloatArray:
    """L^-1 B' for B (m, n), as (n, m): its squared columns add up to b' C^-1 b."""
    return np.asarray(blas.dtrsm(1.0, factor.T, B.T, lower=0, trans_a=1, overwrite_b=0))


def log_determinant(factor: FloatArray) -> float:
    """log |C| from its factor."""
    return 2.0 * float(np.log(factor.diagonal()).sum())


@contextmanager
def thread_limit(n_points: int, n_jobs: int | None = None) -> Iterator[int]:
    """Limit BLAS for matrices of this size, and say how many threads to use elsewhere.

    As many as BLAS is allowed now (so a worker process that was given one keeps to
    one), at most `n_jobs`, and one for small matrices. The limit ends with the block.
    """
    controller = ThreadpoolController().select(user_api="blas")
    allowed = min((pool["num_threads"] for pool in controller.info()), default=1)
    wanted = allowed if n_jobs is None or n_jobs < 1 else min(allowed, n_jobs)
    threads = wanted if n_points >= _SMALLEST_FOR_THREADS else 1
    with controller.limit(limits=threads):
        yield threads
