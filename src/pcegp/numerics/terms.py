"""Compiled loops over terms: a row conditioned on a few others, its neighbours.

T terms of up to m neighbours each, n points, K components, d inputs.

    Z           (n, K, d)  warped points; all of a point is contiguous
    owners      (T,)       the row that each term predicts
    neighbours  (T, m)     the rows that it is predicted from; only the first `counts` of them
    counts      (T,)

With C the covariance of the neighbours (noise included), k that between them and the owner, and
b = C^-1 k, a = C^-1 y, a term has

    mean  b'y,    variance  v = k(x, x) + noise - b'k,    residual  r = y - mean,
    nll   (log 2 pi v + r^2 / v) / 2

The slope of a term in the covariance of neighbours and owner together has rank two:

    G = g_v e e' + g_r (e a' + a e') / 2,    e = (b, -1), a = (a, 0),
    g_v = (1 / v - r^2 / v^2) / 2,    g_r = r / v

so one Cholesky factor is all that it takes. Gradients are summed in a fixed number of shares, so
that they have the same bits for any number of threads.
"""

from typing import NamedTuple

import numpy as np

from pcegp._typing import FloatArray, IntArray
from pcegp.errors import NotPositiveDefiniteError
from pcegp.numerics.cholesky import LIBRARY, POTRF, TRSV
from pcegp.numerics.compile import call_fortran, call_kernel, claim, inlined, loop
from pcegp.numerics.pairwise import Components
from pcegp.numerics.resources import ONE_THREAD, Threads

SHARES = 4
_CHUNK = 64  # terms that a thread takes at once
_UPPER, _PLAIN, _TRANSPOSED = (np.uint8(ord(letter)) for letter in "UNT")
_LOG_2PI = float(np.log(2.0 * np.pi))
# Tried in turn, relative to the sum of the variances.
_JITTERS = np.array([0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4])


class Terms(NamedTuple):
    """Rows and the neighbours that they are predicted from."""

    owners: IntArray  # (T,)
    neighbours: IntArray  # (T, m)
    counts: IntArray  # (T,)


@inlined
def _gather(Z, neighbours, count, own, i, P):
    """P[k, c, :] are the neighbours' values, then the owner's."""
    for j in range(count):
        row = Z[neighbours[j]]
        for k in range(P.shape[0]):
            for c in range(P.shape[1]):
                P[k, c, j] = row[k, c]
    row = own[i]
    for k in range(P.shape[0]):
        for c in range(P.shape[1]):
            P[k, c, count] = row[k, c]


@inlined
def _pair_distances(P, k, count, D):
    """D[p (p - 1) / 2 + q] = |P[k, :, p] - P[k, :, q]|^2 for q < p <= count."""
    for p in range(1, count + 1):
        first = p * (p - 1) // 2
        row = D[first : first + p]
        z, x = P[k, 0, :p], P[k, 0, p]
        for q in range(p):
            t = x - z[q]
            row[q] = t * t
        for c in range(1, P.shape[1]):
            z, x = P[k, c, :p], P[k, c, p]
            for q in range(p):
                t = x - z[q]
                row[q] += t * t


@inlined
def _pair_covariances(P, count, kernels, shapes, variances, D, f, g, h, total):
    """total = sum_k s_k f_k of all pairs; f, g and h keep those of each component."""
    pairs = count * (count + 1) // 2
    for k in range(kernels.size):
        _pair_distances(P, k, count, D)
        call_kernel(kernels[k], D, pairs, shapes[k], f[k], g[k], h[k])
        s, values = variances[k], f[k]
        if k == 0:
            for j in range(pairs):
                total[j] = s * values[j]
        else:
            for j in range(pairs):
                total[j] += s * values[j]


@inlined
def _factored(total, count, diagonal, noise, neighbours, jitters, C, info, library):
    """Factor the covariance of the neighbours in C; the jitter that it took, or -1."""
    for jitter in jitters:
        for p in range(count):
            first = p * (p - 1) // 2
            row = C[p * count : p * count + p]
            for q in range(p):
                row[q] = total[first + q]
            C[p * count + p] = diagonal * (1.0 + jitter) + noise[neighbours[p]]
        info[0] = 0
        if count > 0:
            call_fortran(library[POTRF], (_UPPER, count, np.uint64(C.ctypes.data), count,
                                          np.uint64(info.ctypes.data)))
        if info[0] == 0:
            return jitter * diagonal
    return -1.0


@inlined
def _solve(C, count, vector, transposed, library):
    """Solve with the lower factor L, which BLAS sees as upper, or with its transpose."""
    call_fortran(library[TRSV], (_UPPER, _PLAIN if transposed else _TRANSPOSED, _PLAIN, count,
                                 np.uint64(C.ctypes.data), count,
                                 np.uint64(vector.ctypes.data), 1))


@inlined
def _conditioned(total, count, diagonal, noise, y, neighbours, jitters, C, b, a, info, library):
    """Factor, and solve half of b and a; the mean and the explained variance are products."""
    jitter = _factored(total, count, diagonal, noise, neighbours, jitters, C, info, library)
    first = count * (count - 1) // 2
    for j in range(count):
        b[j] = total[first + j]
        a[j] = y[neighbours[j]]
    mean, explained = 0.0, 0.0
    if count > 0 and jitter >= 0.0:
        _solve(C, count, b, False, library)
        _solve(C, count, a, False, library)
        for j in range(count):
            mean += b[j] * a[j]
            explained += b[j] * b[j]
    return jitter, mean, explained


@loop
def _predict_tasks(own, Z, neighbours, counts, y, noise, kernels, shapes, variances, jitters,
                   library, mean, variance, jitter, taken):
    """Mean and variance (without noise) of points of their own."""
    K, d, m = kernels.size, Z.shape[2], neighbours.shape[1]
    P, pairs = np.empty((K, d, m + 1)), m * (m + 1) // 2
    D, total = np.empty(pairs), np.empty(pairs)
    f, g, h = np.empty((K, pairs)), np.empty((K, pairs)), np.empty((K, pairs))
    C, b, a, info = np.empty(m * m), np.empty(m), np.empty(m), np.zeros(1, np.int64)
    diagonal = variances.sum()
    while True:
        start = claim(taken, 0) * _CHUNK
        if start >= counts.size:
            return
        for t in range(start, min(start + _CHUNK, counts.size)):
            count = counts[t]
            _gather(Z, neighbours[t], count, own, t, P)
            _pair_covariances(P, count, kernels, shapes, variances, D, f, g, h, total)
            jitter[t], mean[t], explained = _conditioned(
                total, count, diagonal, noise, y, neighbours[t], jitters, C, b, a, info, library)
            variance[t] = diagonal - explained


@inlined
def _pull_pairs(P, k, count, weight, dP):
    """Gradient in the points of a component from weights of its squared distances."""
    for c in range(P.shape[1]):
        for p in range(1, count + 1):
            first = p * (p - 1) // 2
            w, z, out = weight[first : first + p], P[k, c, :p], dP[k, c, :p]
            x, own = P[k, c, p], 0.0
            for q in range(p):
                t = w[q] * (x - z[q])
                own += t
                out[q] -= t
            dP[k, c, p] += own


@inlined
def _pair_slopes(e, a, count, g_v, g_r, G):
    """G of all pairs, each for both of its places; returns its trace."""
    trace = 0.0
    for p in range(count + 1):
        first = p * (p - 1) // 2
        row = G[first : first + p]
        of_e, of_a = 2.0 * g_v * e[p] + g_r * a[p], g_r * e[p]
        for q in range(p):
            row[q] = of_e * e[q] + of_a * a[q]
        trace += g_v * e[p] * e[p] + g_r * e[p] * a[p]
    return trace


@inlined
def _pair_weights(f, g, G, count, s, weight):
    """weight = slopes in the squared distances of a component; returns sum G f."""
    by_variance = 0.0
    for j in range(count * (count + 1) // 2):
        by_variance += G[j] * f[j]
        weight[j] = 2.0 * s * G[j] * g[j]
    return by_variance


@inlined
def _pair_sum(h, G, count):
    total = 0.0
    for j in range(count * (count + 1) // 2):
        total += G[j] * h[j]
    return total


@inlined
def _scatter(dP, k, count, neighbours, i, dZ):
    """Add the gradient of a component to those of the rows."""
    for j in range(count + 1):
        out = dZ[neighbours[j] if j < count else i, k]
        for c in range(dP.shape[1]):
            out[c] += dP[k, c, j]


@loop
def _gradient_share(share, Z, owners, neighbours, counts, y, noise, kernels, shapes, variances,
                    jitters, library, nll, jitter, dZ, dvariance, dshape, dnoise):
    """Every SHARES-th term, into the gradients of one share."""
    K, d, m = kernels.size, Z.shape[2], neighbours.shape[1]
    P, dP, pairs = np.empty((K, d, m + 1)), np.empty((K, d, m + 1)), m * (m + 1) // 2
    D, total, G, weight = np.empty(pairs), np.empty(pairs), np.empty(pairs), np.empty(pairs)
    f, g, h = np.empty((K, pairs)), np.empty((K, pairs)), np.empty((K, pairs))
    C, e, a, info = np.empty(m * m), np.empty(m + 1), np.empty(m + 1), np.zeros(1, np.int64)
    diagonal = variances.sum()
    for t in range(share, counts.size, SHARES):
        count, i = counts[t], owners[t]
        mine = neighbours[t]
        _gather(Z, mine, count, Z, i, P)
        _pair_covariances(P, count, kernels, shapes, variances, D, f, g, h, total)
        jitter[t], mean, explained = _conditioned(
            total, count, diagonal, noise, y, mine, jitters, C, e, a, info, library)
        v, r = diagonal - explained + noise[i], y[i] - mean
        if not (jitter[t] >= 0.0 and v > 0.0):
            jitter[t] = -1.0
            continue
        nll[t] = 0.5 * (_LOG_2PI + np.log(v) + r * r / v)
        if count > 0:
            _solve(C, count, e, True, library)
            _solve(C, count, a, True, library)
        e[count], a[count] = -1.0, 0.0
        g_v, g_r = 0.5 * (1.0 / v - r * r / (v * v)), r / v
        trace = _pair_slopes(e, a, count, g_v, g_r, G)
        for j in range(count):
            dnoise[mine[j]] += g_v * e[j] * e[j] + g_r * e[j] * a[j]
        dnoise[i] += g_v
        for k in range(K):
            dvariance[k] += trace + _pair_weights(f[k], g[k], G, count, variances[k], weight)
            if shapes[k] > 0.0:
                dshape[k] += variances[k] * _pair_sum(h[k], G, count)
            dP[k] = 0.0
            _pull_pairs(P, k, count, weight, dP)
            _scatter(dP, k, count, mine, i, dZ)


@loop
def _gradient_tasks(Z, owners, neighbours, counts, y, noise, kernels, shapes, variances, jitters,
                    library, nll, jitter, dZ, dvariance, dshape, dnoise, taken):
    while True:
        share = claim(taken, 0)
        if share >= SHARES:
            return
        dZ[share] = 0.0
        _gradient_share(share, Z, owners, neighbours, counts, y, noise, kernels, shapes,
                        variances, jitters, library, nll, jitter, dZ[share], dvariance[share],
                        dshape[share], dnoise[share])


class TermGradients(NamedTuple):
    """Values of all terms, and the gradients of their sum."""

    nll: FloatArray  # (T,)
    dZ: FloatArray  # (n, K, d), in the warped points
    dvariances: FloatArray  # (K,)
    dshapes: FloatArray  # (K,)
    dnoise: FloatArray  # (n,)
    jitter: float  # the largest that was added to a diagonal


def evaluate(
    Z: FloatArray, terms: Terms, y: FloatArray, noise: FloatArray, parts: Components,
    threads: Threads = ONE_THREAD,
) -> TermGradients:
    """Compute the negative log likelihoods of terms, and the gradients of their sum.

    Parameters
    ----------
    Z : (n, K, d), warped points
    y, noise : (n,) each, targets and noise variances of the points
    """
    n, K, d = Z.shape
    nll, jitter = np.zeros(len(terms.owners)), np.zeros(len(terms.owners))
    dZ = np.empty((SHARES, n, K, d))
    dvariances, dshapes, dnoise = (np.zeros((SHARES, size)) for size in (K, K, n))
    threads.run_on_all(_gradient_tasks, Z, *terms, y, noise, *parts, _JITTERS, LIBRARY, nll,
                       jitter, dZ, dvariances, dshapes, dnoise, np.zeros(1, dtype=np.int64))
    if jitter.size and jitter.min() < 0.0:
        raise NotPositiveDefiniteError
    return TermGradients(nll, dZ.sum(axis=0), dvariances.sum(axis=0), dshapes.sum(axis=0),
                         dnoise.sum(axis=0), float(jitter.max(initial=0.0)))


def predict(
    own: FloatArray, Z: FloatArray, neighbours: IntArray, counts: IntArray, y: FloatArray,
    noise: FloatArray, parts: Components, threads: Threads = ONE_THREAD,
) -> tuple[FloatArray, FloatArray, float]:
    """Compute mean and variance, without noise, of points (T, K, d) from their neighbours.

    Returns
    -------
    Mean and variance, (T,) each, and the largest jitter.
    """
    mean, variance, jitter = (np.zeros(len(own)) for _ in range(3))
    threads.run_on_all(_predict_tasks, own, Z, neighbours, counts, y, noise, *parts, _JITTERS,
                       LIBRARY, mean, variance, jitter, np.zeros(1, dtype=np.int64))
    if jitter.size and jitter.min() < 0.0:
        raise NotPositiveDefiniteError
    return mean, variance, float(jitter.max(initial=0.0))
