"""Compiled loops over pairs of points: fill the covariance, pull the gradient back.

K components, d inputs, n points, m new points.

    Z          (K, d, n)  warped points; a run of points is contiguous
    kernels    (K,)       addresses of the compiled covariance functions
    shapes     (K,)       their shape parameters (0 where there is none)
    variances  (K,)       their output variances s_k
    C          (n, n)     row-major; only the lower triangle is written or read

Points are handled in blocks of four rows by a tile of columns, so that what is loaded
is used several times and the inner loops run over contiguous points. Gradients are summed
in a fixed number of shares, so that they have the same bits for any number of threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray
from pcegp.numerics.compile import call_kernel, claim, inlined, loop, multiply_add
from pcegp.numerics.resources import ONE_THREAD, Threads

_ROWS = 4
_TILE = 256  # columns at once: their points and gradients stay in the first-level cache
_SHARES = 8


@inlined
def _distances(Zi, k, i, Zj, start, stop, D):
    """D[r * size + j] = |Zi[k, :, i + r] - Zj[k, :, start + j]|^2 for the rows of a block.

    Rows beyond the last point repeat it. Two rows and four inputs per sweep.
    """
    d, last, size = Zi.shape[1], Zi.shape[2] - 1, stop - start
    in_fours = d - d % 4
    for j in range(_ROWS * size):
        D[j] = 0.0
    for r in range(0, _ROWS, 2):
        p, q = min(i + r, last), min(i + r + 1, last)
        D0, D1 = D[r * size : (r + 1) * size], D[(r + 1) * size : (r + 2) * size]
        for c in range(0, in_fours, 4):
            p0, p1, p2, p3 = Zi[k, c, p], Zi[k, c + 1, p], Zi[k, c + 2, p], Zi[k, c + 3, p]
            q0, q1, q2, q3 = Zi[k, c, q], Zi[k, c + 1, q], Zi[k, c + 2, q], Zi[k, c + 3, q]
            z0, z1 = Zj[k, c, start:stop], Zj[k, c + 1, start:stop]
            z2, z3 = Zj[k, c + 2, start:stop], Zj[k, c + 3, start:stop]
            for j in range(size):
                t0, t1, t2, t3 = p0 - z0[j], p1 - z1[j], p2 - z2[j], p3 - z3[j]
                u0, u1, u2, u3 = q0 - z0[j], q1 - z1[j], q2 - z2[j], q3 - z3[j]
                D0[j] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3)
                D1[j] += (u0 * u0 + u1 * u1) + (u2 * u2 + u3 * u3)
        for c in range(in_fours, d):
            p0, q0, z0 = Zi[k, c, p], Zi[k, c, q], Zj[k, c, start:stop]
            for j in range(size):
                t0, u0 = p0 - z0[j], q0 - z0[j]
                D0[j] += t0 * t0
                D1[j] += u0 * u0


@inlined
def _covariance_block(Zi, i, rows, Zj, start, stop, kernels, shapes, variances, work):
    """Write sum_k s_k f_k(D_k) of rows i: of Zi and columns start:stop of Zj to work[4]."""
    D, f, g, h, total = work[0], work[1], work[2], work[3], work[4]
    count = rows * (stop - start)
    for k in range(kernels.size):
        _distances(Zi, k, i, Zj, start, stop, D)
        call_kernel(kernels[k], D, count, shapes[k], f, g, h)
        s = variances[k]
        if k == 0:
            for j in range(count):
                total[j] = s * f[j]
        else:
            for j in range(count):
                total[j] += s * f[j]


@inlined
def _copy_row(source, first, target, start, stop):
    """target[start:stop] = source[first:]; nothing if stop is not beyond start."""
    if stop > start:
        row, values = target[start:stop], source[first : first + stop - start]
        for j in range(stop - start):
            row[j] = values[j]


@loop
def _fill_tasks(Z, kernels, shapes, variances, noise, C, taken):
    n = Z.shape[2]
    work = np.empty((5, _ROWS * _TILE))
    diagonal = variances.sum()  # every correlation is 1 at distance 0
    last = (n - 1) // _ROWS * _ROWS
    while True:
        i = last - claim(taken, 0) * _ROWS  # the longest rows first
        if i < 0:
            return
        rows = min(_ROWS, n - i)
        width = i + rows - 1  # columns left of the last row's diagonal
        for start in range(0, width, _TILE):
            stop = min(start + _TILE, width)
            _covariance_block(Z, i, rows, Z, start, stop, kernels, shapes, variances, work)
            for r in range(rows):
                _copy_row(work[4], r * (stop - start), C[i + r], start, min(stop, i + r))
        for r in range(rows):
            C[i + r, i + r] = diagonal + noise[i + r]


@loop
def _cross_tasks(Z_new, Z, kernels, shapes, variances, out, taken):
    m, n = Z_new.shape[2], Z.shape[2]
    work = np.empty((5, _ROWS * _TILE))
    while True:
        i = claim(taken, 0) * _ROWS
        if i >= m:
            return
        rows = min(_ROWS, m - i)
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            _covariance_block(Z_new, i, rows, Z, start, stop, kernels, shapes, variances, work)
            for r in range(rows):
                _copy_row(work[4], r * (stop - start), out[i + r], start, stop)


@loop
def _project_tasks(Z_new, Z, kernels, shapes, variances, duals, out, taken):
    """Four entries of a row of out at a time; row s is of the s-th set of components."""
    (count, n), m = duals.shape, Z_new.shape[2]
    each, blocks = kernels.size // count, (m + _ROWS - 1) // _ROWS
    work = np.empty((5, _ROWS * _TILE))
    while True:
        task = claim(taken, 0)
        if task >= count * blocks:
            return
        s, i = task // blocks, task % blocks * _ROWS
        rows, mine = min(_ROWS, m - i), slice(s * each, (s + 1) * each)
        out[s, i : i + rows] = 0.0
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            _covariance_block(Z_new[mine], i, rows, Z[mine], start, stop, kernels[mine],
                              shapes[mine], variances[mine], work)
            size, dual = stop - start, duals[s, start:stop]
            for r in range(rows):
                values, total = work[4, r * size : (r + 1) * size], 0.0
                for j in range(size):
                    total += values[j] * dual[j]
                out[s, i + r] += total


@inlined
def _pair_weights(i, rows, start, stop, inverse, dual, pair):
    """pair[r * size + j] = C^-1 - a a' below the diagonal, else 0.

    d nll / dC = (C^-1 - a a') / 2, and each pair stands in C twice.
    """
    size = stop - start
    a = dual[start:stop]
    for r in range(_ROWS):
        out = pair[r * size : (r + 1) * size]
        below = max(min(stop, i + r) - start, 0) if r < rows else 0
        if below > 0:
            row, ai = inverse[i + r, start:stop], dual[i + r]
            for j in range(below):
                out[j] = row[j] - ai * a[j]
        for j in range(below, size):
            out[j] = 0.0


@inlined
def _pull_block(Z, k, i, start, stop, weight, dZ):
    """Subtract weight * (z_i - z_j) from the gradient of z_j, add it to that of z_i."""
    size, last = stop - start, Z.shape[2] - 1
    i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
    w0, w1 = weight[:size], weight[size : 2 * size]
    w2, w3 = weight[2 * size : 3 * size], weight[3 * size : 4 * size]
    for c in range(Z.shape[1]):
        z, out = Z[k, c, start:stop], dZ[k, c, start:stop]
        z0, z1, z2, z3 = Z[k, c, i], Z[k, c, i1], Z[k, c, i2], Z[k, c, i3]
        sum0, sum1, sum2, sum3 = 0.0, 0.0, 0.0, 0.0
        for j in range(size):
            t0, t1, t2, t3 = z[j] - z0, z[j] - z1, z[j] - z2, z[j] - z3
            sum0 = multiply_add(w0[j], t0, sum0)
            sum1 = multiply_add(w1[j], t1, sum1)
            sum2 = multiply_add(w2[j], t2, sum2)
            sum3 = multiply_add(w3[j], t3, sum3)
            both = multiply_add(w1[j], t1, multiply_add(w0[j], t0, out[j]))
            out[j] = multiply_add(w3[j], t3, multiply_add(w2[j], t2, both))
        dZ[k, c, i] -= sum0
        dZ[k, c, i1] -= sum1
        dZ[k, c, i2] -= sum2
        dZ[k, c, i3] -= sum3


@loop
def _pull_share(share, Z, kernels, shapes, variances, inverse, dual, work, dZ, dvariance, dshape):
    """Every _SHARES-th block of rows, into the gradients of one share."""
    n = Z.shape[2]
    D, f, g, h, pair, weight = work[0], work[1], work[2], work[3], work[4], work[5]
    for i in range(share * _ROWS, n, _SHARES * _ROWS):
        rows = min(_ROWS, n - i)
        width = i + rows - 1
        for start in range(0, width, _TILE):
            stop = min(start + _TILE, width)
            count = _ROWS * (stop - start)
            _pair_weights(i, rows, start, stop, inverse, dual, pair)
            for k in range(kernels.size):
                _distances(Z, k, i, Z, start, stop, D)
                call_kernel(kernels[k], D, count, shapes[k], f, g, h)
                s = variances[k]
                by_variance = 0.0
                for j in range(count):
                    by_variance += pair[j] * f[j]
                    weight[j] = 2.0 * s * pair[j] * g[j]
                dvariance[k] += by_variance
                if shapes[k] > 0.0:
                    by_shape = 0.0
                    for j in range(count):
                        by_shape += pair[j] * h[j]
                    dshape[k] += s * by_shape
                _pull_block(Z, k, i, start, stop, weight, dZ)


@loop
def _pull_tasks(Z, kernels, shapes, variances, inverse, dual, dZ, dvariance, dshape, taken):
    work = np.empty((6, _ROWS * _TILE))
    while True:
        share = claim(taken, 0)
        if share >= _SHARES:
            return
        dZ[share] = 0.0
        _pull_share(share, Z, kernels, shapes, variances, inverse, dual, work, dZ[share],
                    dvariance[share], dshape[share])


class Components(NamedTuple):
    """The covariance functions as the compiled loops take them, (K,) each."""

    kernels: NDArray[np.uint64]
    shapes: FloatArray
    variances: FloatArray


def _no_task_taken() -> NDArray[np.int64]:
    """The counter from which threads take their tasks."""
    return np.zeros(1, dtype=np.int64)


def fill(Z: FloatArray, parts: Components, noise: FloatArray, C: FloatArray,
         threads: Threads = ONE_THREAD) -> None:
    """Write the lower triangle of sum_k s_k f_k(D_k) + diag(noise) into C (n, n)."""
    threads.run_on_all(_fill_tasks, Z, *parts, noise, C, _no_task_taken())


def cross(
    Z_new: FloatArray, Z: FloatArray, parts: Components, threads: Threads = ONE_THREAD
) -> FloatArray:
    """Covariance (m, n) between new points Z_new (K, d, m) and points Z (K, d, n)."""
    out = np.empty((Z_new.shape[2], Z.shape[2]))
    threads.run_on_all(_cross_tasks, Z_new, Z, *parts, out, _no_task_taken())
    return out


def project(
    Z_new: FloatArray, Z: FloatArray, parts: Components, duals: FloatArray,
    threads: Threads = ONE_THREAD,
) -> FloatArray:
    """Covariances times duals (S, n) of S sets of components at once, (S, m).

    Component by component, Z_new (S K, d, m), Z (S K, d, n) and the parts belong to the
    first set, the second and so on. The covariances themselves are not kept.
    """
    out = np.empty((len(duals), Z_new.shape[2]))
    threads.run_on_all(_project_tasks, Z_new, Z, *parts, duals, out, _no_task_taken())
    return out


def pull_back(
    Z: FloatArray,
    parts: Components,
    inverse: FloatArray,
    dual: FloatArray,
    threads: Threads = ONE_THREAD,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gradient of the negative log likelihood at the covariance C.

    Parameters
    ----------
    inverse : (n, n), C^-1 in its lower triangle
    dual : (n,), C^-1 y

    Returns
    -------
    dZ : (K, d, n), gradient in the warped points
    dvariances : (K,), in the output variances
    dshapes : (K,), in the shape parameters
    """
    K = Z.shape[0]
    dZ = np.empty((_SHARES, *Z.shape))
    dvariances, dshapes = np.zeros((_SHARES, K)), np.zeros((_SHARES, K))
    threads.run_on_all(_pull_tasks, Z, *parts, inverse, dual, dZ, dvariances, dshapes,
                       _no_task_taken())
    on_diagonal = 0.5 * float(np.sum(inverse.diagonal() - dual**2))
    return dZ.sum(axis=0), dvariances.sum(axis=0) + on_diagonal, dshapes.sum(axis=0)
