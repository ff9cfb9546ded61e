"""Cholesky factor and inverse by tiles, with one thread or several: the same bits.

Matrices are row-major and symmetric; only the lower triangle counts. BLAS reads
column-major, so it sees every tile transposed: our lower L is its upper U = L'.

Threads take tasks in a fixed order, and a task waits only for tasks that were taken
before it. Each BLAS call runs on the thread that makes it. That is as fast as BLAS's own
threads, whose idle ones would spin and take a core from the loops of `pairwise`, and
rounding does not depend on the number of threads.
"""

import numpy as np
from numba.extending import get_cython_function_address
from scipy.linalg import blas, lapack

from pcegp._typing import FloatArray
from pcegp.numerics.compile import call_fortran, claim, loop, publish, read
from pcegp.numerics.resources import ONE_THREAD, Threads

# Ways to factor, tried in turn: a jitter relative to the mean of the diagonal, and whether
# tiles are solved for with care.
ATTEMPTS = ((0.0, False), *((jitter, True) for jitter in (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)))

_N, _T, _U, _L, _R = (np.uint8(ord(letter)) for letter in "NTULR")
_GEMM, _SYRK, _TRSM, _TRMM, TRSV, POTRF, _TRTRI = range(7)
#: Addresses of these subroutines, for `call_fortran`.
LIBRARY = np.array(
    [get_cython_function_address("scipy.linalg.cython_blas", name)
     for name in ("dgemm", "dsyrk", "dtrsm", "dtrmm", "dtrsv")]
    + [get_cython_function_address("scipy.linalg.cython_lapack", name)
       for name in ("dpotrf", "dtrtri")],
    dtype=np.uint64,
)
# What the threads share: the next task, what is done, and whether it went wrong.
_NEXT, _DONE, _FAILED, _ROWS = 0, 1, 2, 3
_SOLVED_AT_ONCE = 64  # right-hand sides


def _tile(n: int) -> int:
    """Rows of a tile: enough tiles to share, large enough for BLAS."""
    return 64 if n <= 1000 else 96


@loop
def _at(matrix, row, column):
    """Address of an element of a row-major matrix."""
    return np.uint64(matrix.ctypes.data + 8 * (row * matrix.shape[1] + column))


@loop
def _wait(state, index, value):
    """Wait until state[index] has reached a value; False if some task failed."""
    while read(state, index) < value:
        if read(state, _FAILED) != 0:
            return False
    return True


@loop
def _invert_diagonal(L, W, row, rows, library):
    """W_ii = L_ii^-1, with zeros above its diagonal."""
    n = L.shape[0]
    for i in range(row, row + rows):
        for j in range(row, i + 1):
            W[i, j] = L[i, j]
        for j in range(i + 1, row + rows):
            W[i, j] = 0.0
    info = np.zeros(1, np.int64)  # always 0: a factor has a positive diagonal
    call_fortran(library[_TRTRI], (_U, _N, rows, _at(W, row, row), n,
                                   np.uint64(info.ctypes.data)))


@loop
def _factor_tasks(C, W, tile, exact, library, state):
    """Tile (i, b), column after column; state[_ROWS + i] counts the done tiles of row i.

    W gets the inverses of the diagonal tiles.
    """
    n = C.shape[0]
    tiles = (n + tile - 1) // tile
    task, b, before = claim(state, _NEXT), 0, 0  # tasks before column b
    while True:
        while b < tiles and task >= before + tiles - b:
            before += tiles - b
            b += 1
        if b == tiles:
            return
        i = b + task - before
        row, rows = i * tile, min(tile, n - i * tile)
        column, columns = b * tile, min(tile, n - b * tile)
        if not (_wait(state, _ROWS + i, b) and _wait(state, _ROWS + b, b)):
            return
        if b > 0:  # C_ib - L_i L_b'
            call_fortran(library[_GEMM], (_T, _N, columns, rows, column, -1.0, _at(C, column, 0),
                                          n, _at(C, row, 0), n, 1.0, _at(C, row, column), n))
        if i == b:
            call_fortran(library[POTRF], (_U, rows, _at(C, row, row), n,
                                           np.uint64(state.ctypes.data + 8 * _FAILED)))
            if read(state, _FAILED) != 0:
                return
            _invert_diagonal(C, W, row, rows, library)
        else:  # times L_bb'^-1
            if not _wait(state, _ROWS + b, b + 1):
                return
            if exact:
                call_fortran(library[_TRSM], (_L, _U, _T, _N, columns, rows, 1.0,
                                              _at(C, column, column), n, _at(C, row, column), n))
            else:
                call_fortran(library[_TRMM], (_L, _U, _T, _N, columns, rows, 1.0,
                                              _at(W, column, column), n, _at(C, row, column), n))
        publish(state, _ROWS + i, b + 1)
        task = claim(state, _NEXT)


@loop
def _invert_column(L, W, column, columns, tile, library):
    """Column c of W = L^-1: W_ic = -L_ii^-1 (sum of L_ij W_jc over j from c to i - 1)."""
    n = L.shape[0]
    for row in range(column + columns, n, tile):
        rows = min(tile, n - row)
        call_fortran(library[_GEMM], (_N, _N, columns, rows, row - column, 1.0,
                                      _at(W, column, column), n, _at(L, row, column), n, 0.0,
                                      _at(W, row, column), n))
        call_fortran(library[_TRMM], (_R, _U, _N, _N, columns, rows, -1.0,
                                      _at(W, row, row), n, _at(W, row, column), n))


@loop
def _multiply_row(W, C, row, rows, library):
    """Row i of C^-1 = W'W: (C^-1)_ij is the sum of W_ki' W_kj over k from i on."""
    n = C.shape[0]
    if row > 0:
        call_fortran(library[_GEMM], (_N, _T, row, rows, n - row, 1.0, _at(W, row, 0), n,
                                      _at(W, row, row), n, 0.0, _at(C, row, 0), n))
    call_fortran(library[_SYRK], (_U, _N, rows, n - row, 1.0, _at(W, row, row), n, 0.0,
                                  _at(C, row, row), n))


@loop
def _solve(L, x, library):
    """x = (L L')^-1 x."""
    n, address = L.shape[0], np.uint64(x.ctypes.data)
    for transposed in (_T, _N):
        call_fortran(library[TRSV], (_U, transposed, _N, n, _at(L, 0, 0), n, address, 1))


@loop
def _inverse_tasks(C, x, W, tile, library, state):
    """Solve; columns of W below its diagonal tiles; rows of the inverse, which replaces L."""
    n = C.shape[0]
    tiles = (n + tile - 1) // tile
    while True:
        task = claim(state, _NEXT)
        if task == 0:
            _solve(C, x, library)
        elif task <= tiles:
            column = (task - 1) * tile
            _invert_column(C, W, column, min(tile, n - column), tile, library)
        elif task <= 2 * tiles:
            _wait(state, _DONE, tiles + 1)  # L is not needed any more
            row = (task - tiles - 1) * tile
            _multiply_row(W, C, row, min(tile, n - row), library)
        else:
            return
        claim(state, _DONE)


@loop
def _half_solve_tasks(L, B, library, state):
    """Rows of B, some at a time: b' = b' L'^-1."""
    n, m = L.shape[0], B.shape[0]
    while True:
        row = claim(state, _NEXT) * _SOLVED_AT_ONCE
        if row >= m:
            return
        rows = min(_SOLVED_AT_ONCE, m - row)
        call_fortran(library[_TRSM], (_L, _U, _T, _N, n, rows, 1.0, _at(L, 0, 0), n,
                                      _at(B, row, 0), n))


def factor(
    C: FloatArray, workspace: FloatArray, threads: Threads = ONE_THREAD, jitter: float = 0.0,
    careful: bool = False,
) -> float | None:
    """Replace the lower triangle of C (n, n) by its Cholesky factor.

    The diagonal tiles of `workspace` (n, n) get the inverses of those of the factor. Below
    them the factor is made by multiplication with these inverses, which is faster than
    solving and loses a digit or two where C is nearly singular; `careful` solves.

    Returns
    -------
    What was added to the diagonal, `jitter` times its mean, or None if there is no factor. C
    is destroyed then.
    """
    added = 0.0
    if jitter > 0.0:
        diagonal = C.diagonal()
        added = jitter * float(diagonal.mean())
        C[np.diag_indices_from(C)] = diagonal + added
    tile = _tile(len(C))
    state = np.zeros(_ROWS + -(-len(C) // tile), dtype=np.int64)
    threads.run_on_all(_factor_tasks, C, workspace, tile, careful, LIBRARY, state)
    return added if state[_FAILED] == 0 and np.isfinite(C.diagonal()).all() else None


def solve_and_invert(
    factor: FloatArray, y: FloatArray, workspace: FloatArray, threads: Threads = ONE_THREAD
) -> FloatArray:
    """Solve C x = y (n,) and replace the factor in the lower triangle (n, n) by C^-1.

    `workspace` is the one that `factor` has left.
    """
    x = y.copy()
    state = np.zeros(_ROWS, dtype=np.int64)
    threads.run_on_all(_inverse_tasks, factor, x, workspace, _tile(len(factor)), LIBRARY, state)
    return x


def solve(factor: FloatArray, y: FloatArray) -> FloatArray:
    """Solve C x = y (n,) with the factor of C (n, n)."""
    # BLAS reads column-major: to it, our lower L is the upper L'.
    half = blas.dtrsv(factor.T, y, lower=0, trans=1)
    return np.asarray(blas.dtrsv(factor.T, half, lower=0, overwrite_x=1))


def half_solve(
    factor: FloatArray, B: FloatArray, threads: Threads = ONE_THREAD
) -> FloatArray:
    """Replace each row b of B (m, n) by L^-1 b: its squares add up to b' C^-1 b."""
    threads.run_on_all(_half_solve_tasks, factor, B, LIBRARY, np.zeros(_ROWS, dtype=np.int64))
    return B


def condition_number(factor: FloatArray) -> float:
    """Estimate of the condition number of C = L L' in the 1-norm, from its factor L (n, n)."""
    upper = factor.T  # L' in column-major order, as LAPACK wants it: no copy
    ones = np.ones(len(factor))
    # All covariances are positive, so the norm is the largest sum of a row, C 1 = L L' 1.
    norm = float(blas.dtrmv(upper, blas.dtrmv(upper, ones), trans=1).max())
    reciprocal, _ = lapack.dpocon(upper, norm, uplo="U")
    return float(1.0 / max(reciprocal, np.finfo(np.float64).tiny))
