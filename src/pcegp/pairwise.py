"""Compiled loops over pairs of points: fill the covariance, pull the gradient back.

K components, d inputs, n points, m new points.

    Z          (K, d, n)  warped points; a run of points is contiguous
    kernels    (K,)       addresses of the compiled covariance functions
    shapes     (K,)       their shape parameters (0 where there is none)
    variances  (K,)       their output variances s_k
    C          (n, n)     row-major; only the lower triangle is written or read

This is the only module that knows about tiles, threads and vector instructions.
Rows go to a fixed number of shares in turn (row i to share i mod SHARES), so that the
triangle is balanced and the result has the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pcegp.covariance import CovarianceFunction

FloatArray = NDArray[np.float64]

_TILE = 512  # distances handled at once: four such rows stay in the first-level cache
_SHARES = 8
# Distances beyond this are as good as infinite, and inf * 0 in a kernel would be NaN.
_FARTHEST_SQUARED = 1e30
# Sums may be reordered so that they vectorise; NaN and inf keep their meaning.
_FLAGS = {"contract", "reassoc", "nsz"}
_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": _FLAGS,
    "error_model": "numpy",
    "boundscheck": False,
}
# Inlined by Numba, not left to the linker: code from the cache then has the bits of code
# compiled just now.
_INLINED: dict[str, Any] = {**_OPTIONS, "inline": "always"}


@intrinsic
def _call_kernel(typingctx: Any, address: Any, D: Any, n: Any, shape: Any, value: Any,
                 slope: Any, shape_slope: Any) -> Any:
    """Call the compiled covariance function at `address` on contiguous rows."""
    row = types.Array(types.float64, 1, "C")
    signature = types.void(types.uint64, row, types.intp, types.float64, row, row, row)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def data(k: int) -> Any:
            return context.make_array(signature.args[k])(context, builder, args[k]).data

        pointer, size, real = ir.DoubleType().as_pointer(), ir.IntType(64), ir.DoubleType()
        function = ir.FunctionType(ir.VoidType(), [pointer, size, real] + [pointer] * 3)
        target = builder.inttoptr(args[0], function.as_pointer())
        builder.call(target, [data(1), args[2], args[3], data(4), data(5), data(6)])
        return context.get_dummy_value()

    return signature, codegen


@njit(**_INLINED)
def _distances(Z, k, i, Zj, start, stop, D):
    """D[j] = |Z[k, :, i] - Zj[k, :, start + j]|^2, two inputs per sweep."""
    d = Z.shape[1]
    size = stop - start
    zi = Z[k, 0, i]
    row = Zj[k, 0, start:stop]
    if d % 2 == 1:
        for j in range(size):
            t = zi - row[j]
            D[j] = t * t
    else:
        zi2 = Z[k, 1, i]
        row2 = Zj[k, 1, start:stop]
        for j in range(size):
            t = zi - row[j]
            u = zi2 - row2[j]
            D[j] = t * t + u * u
    for c in range(2 - d % 2, d, 2):
        zi = Z[k, c, i]
        zi2 = Z[k, c + 1, i]
        row = Zj[k, c, start:stop]
        row2 = Zj[k, c + 1, start:stop]
        for j in range(size):
            t = zi - row[j]
            u = zi2 - row2[j]
            D[j] += t * t + u * u
    for j in range(size):
        D[j] = min(D[j], _FARTHEST_SQUARED)


@njit(**_INLINED)
def _covariance_tile(Zi, i, Zj, start, stop, kernels, shapes, variances, work, out):
    """Write sum_k s_k f_k(D_k) between point i of Zi and points start:stop of Zj."""
    D, f, g, h = work[0], work[1], work[2], work[3]
    size = stop - start
    for k in range(kernels.size):
        _distances(Zi, k, i, Zj, start, stop, D)
        _call_kernel(kernels[k], D, size, shapes[k], f, g, h)
        s = variances[k]
        if k == 0:
            for j in range(size):
                out[j] = s * f[j]
        else:
            for j in range(size):
                out[j] += s * f[j]


@njit(**_OPTIONS)
def _fill_share(share, shares, Z, kernels, shapes, variances, noise, C):
    n = Z.shape[2]
    work = np.zeros((4, _TILE))
    diagonal = variances.sum()  # every correlation is 1 at distance 0
    for i in range(share, n, shares):
        for start in range(0, i, _TILE):
            stop = min(start + _TILE, i)
            _covariance_tile(Z, i, Z, start, stop, kernels, shapes, variances, work,
                             C[i, start:stop])
        C[i, i] = diagonal + noise[i]


@njit(**_OPTIONS)
def _cross_share(share, shares, Z_new, Z, kernels, shapes, variances, out):
    m, n = Z_new.shape[2], Z.shape[2]
    work = np.zeros((4, _TILE))
    for i in range(share, m, shares):
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            _covariance_tile(Z_new, i, Z, start, stop, kernels, shapes, variances, work,
                             out[i, start:stop])


@njit(**_INLINED)
def _pull_tile(Z, k, i, start, stop, weight, dZ):
    """Add weight[j] * (z_i - z_j) to the gradient of z_i and subtract it from that of z_j."""
    size = stop - start
    for c in range(Z.shape[1]):
        zi = Z[k, c, i]
        row = Z[k, c, start:stop]
        out = dZ[k, c, start:stop]
        total = 0.0
        for j in range(size):
            t = weight[j] * (zi - row[j])
            total += t
            out[j] -= t
        dZ[k, c, i] += total


@njit(**_OPTIONS)
def _pull_share(share, shares, Z, kernels, shapes, variances, inverse, dual, dZ, dvariance, dshape):
    K, _, n = Z.shape
    work = np.zeros((6, _TILE))
    D, f, g, h, pair, weight = work[0], work[1], work[2], work[3], work[4], work[5]
    for i in range(share, n, shares):
        ai = dual[i]
        for start in range(0, i, _TILE):
            stop = min(start + _TILE, i)
            size = stop - start
            row = inverse[i, start:stop]
            a = dual[start:stop]
            # d nll / dC = (C^-1 - a a') / 2, and each pair stands in C twice.
            for j in range(size):
                pair[j] = row[j] - ai * a[j]
            for k in range(K):
                _distances(Z, k, i, Z, start, stop, D)
                _call_kernel(kernels[k], D, size, shapes[k], f, g, h)
                s = variances[k]
                by_variance = 0.0
                by_shape = 0.0
                for j in range(size):
                    by_variance += pair[j] * f[j]
                    by_shape += pair[j] * h[j]
                    weight[j] = 2.0 * s * pair[j] * g[j]
                dvariance[k] += by_variance
                if shapes[k] > 0.0:
                    dshape[k] += s * by_shape
                _pull_tile(Z, k, i, start, stop, weight, dZ)


def _run(task: Callable[[int], None], threads: int) -> None:
    """Run `task` for every share, on this thread or on a few others.

    Threads are made anew for each call (some 50 microseconds): no pool outlives it,
    so that fork, nested workers and concurrent fits are all safe.
    """
    if threads == 1:
        for share in range(_SHARES):
            task(share)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(task, range(_SHARES)))


class Components(NamedTuple):
    """The covariance functions as the compiled loops take them, (K,) each."""

    kernels: NDArray[np.uint64]
    shapes: FloatArray
    variances: FloatArray


def components(
    covariances: tuple[CovarianceFunction, ...], shapes: FloatArray, variances: FloatArray
) -> Components:
    """Components with these shape parameters (0 where there is none) and variances."""
    addresses = [covariance.kernel.address for covariance in covariances]
    return Components(np.array(addresses, dtype=np.uint64), shapes, variances)


def fill(Z: FloatArray, parts: Components, noise: FloatArray, C: FloatArray,
         threads: int = 1) -> None:
    """Write the lower triangle of sum_k s_k f_k(D_k) + diag(noise) into C (n, n)."""
    _run(lambda share: _fill_share(share, _SHARES, Z, *parts, noise, C), threads)


def cross(Z_new: FloatArray, Z: FloatArray, parts: Components, threads: int = 1) -> FloatArray:
    """Covariance (m, n) between new points Z_new (K, d, m) and points Z (K, d, n)."""
    out = np.empty((Z_new.shape[2], Z.shape[2]))
    _run(lambda share: _cross_share(share, _SHARES, Z_new, Z, *parts, out), threads)
    return out


def pull_back(
    Z: FloatArray,
    parts: Components,
    inverse: FloatArray,
    dual: FloatArray,
    threads: int = 1,
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
    dZ = np.zeros((_SHARES, *Z.shape))
    dvariances, dshapes = np.zeros((_SHARES, K)), np.zeros((_SHARES, K))
    _run(
        lambda share: _pull_share(share, _SHARES, Z, *parts, inverse, dual, dZ[share],
                                  dvariances[share], dshapes[share]),
        threads,
    )
    on_diagonal = 0.5 * float(np.sum(inverse.diagonal() - dual**2))
    return dZ.sum(axis=0), dvariances.sum(axis=0) + on_diagonal, dshapes.sum(axis=0)
