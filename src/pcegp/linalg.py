"""Cholesky factor with a reported jitter, inverse and solves, and the thread policy.

Matrices are row-major and symmetric; only the lower triangle counts. LAPACK reads
column-major, so to it our lower triangle is the upper one of the transpose: every call
passes ``C.T`` with ``lower=0`` and works in place, without a copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from threadpoolctl import ThreadpoolController

from pcegp.errors import NotPositiveDefiniteError

FloatArray = NDArray[np.float64]

# Tried in turn, times the mean of the diagonal.
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
# Below this size several threads cost more than they bring (up to 100 times).
_SMALLEST_FOR_THREADS = 300


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


class _BlasLimit:
    """A limit on BLAS threads that several concurrent blocks share.

    The limit is a setting of the whole process: it is put back when the last block ends,
    to what it was when the first one began.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._limit: Any = None
        self._allowed = 1

    def enter(self, n_points: int, n_jobs: int | None) -> int:
        with self._lock:
            controller = ThreadpoolController().select(user_api="blas")
            if self._blocks == 0:
                pools = [pool["num_threads"] for pool in controller.info()]
                self._allowed = min(pools, default=1)
            wanted = self._allowed if n_jobs is None else min(self._allowed, n_jobs)
            threads = wanted if n_points >= _SMALLEST_FOR_THREADS else 1
            if self._blocks == 0:
                self._limit = controller.limit(limits=threads)
            self._blocks += 1
            return threads

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                self._limit.restore_original_limits()


_blas = _BlasLimit()


def _forget_other_threads() -> None:
    """A forked child has only the forking thread: no block of another one will end."""
    global _blas  # noqa: PLW0603
    _blas = _BlasLimit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def thread_limit(n_points: int, n_jobs: int | None = None) -> Iterator[int]:
    """Limit BLAS for matrices of this size, and say how many threads to use elsewhere.

    As many as BLAS is allowed now (so a worker process that was given one keeps to
    one), at most `n_jobs`, and one for small matrices. The limit ends with the block.
    """
    threads = _blas.enter(n_points, n_jobs)
    try:
        yield threads
    finally:
        _blas.leave()
