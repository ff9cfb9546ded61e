"""The hierarchical hyperplane kernel (Bitzer, Meister and Zimmer, 2023) and its gradient.

    k(x, x') = sum_j g_j(x) g_j(x') v_j exp(-1/2 sum_i (x_i - x'_i)^2 / l_ji^2)

A symmetric tree of J - 1 soft hyperplanes gives every point a share g_j in each of J leaves:
the product, along the way to leaf j, of logistic(c (w_0 + w x)) to the left or one minus it
to the right. n points, d inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import expit, log_expit

FloatArray = NDArray[np.float64]

NOISE_FLOOR = 1e-6


def softplus(u: FloatArray) -> FloatArray:
    return np.asarray(np.logaddexp(0.0, u))


def softplus_inverse(x: FloatArray) -> FloatArray:
    return np.asarray(x + np.log(-np.expm1(-x)))


@dataclass(frozen=True)
class Parameters:
    """Of a kernel with J leaves in d inputs, and the noise variance."""

    planes: FloatArray  # (J-1, d+1), the offset first
    steepness: FloatArray  # (J-1,)
    lengths: FloatArray  # (J, d)
    variances: FloatArray  # (J,)
    noise: float


def unpack(u: FloatArray, n_leaves: int, d: int) -> Parameters:
    """Parameters from unconstrained numbers; all but the planes pass a softplus."""
    ends = np.cumsum([(n_leaves - 1) * (d + 1), n_leaves - 1, n_leaves * d, n_leaves])
    planes, steepness, lengths, variances, noise = np.split(u, ends)
    return Parameters(
        planes.reshape(n_leaves - 1, d + 1), softplus(steepness),
        softplus(lengths).reshape(n_leaves, d), softplus(variances),
        NOISE_FLOOR + float(softplus(noise)[0]),
    )


def first_guess(n_leaves: int, d: int, rng: np.random.Generator) -> FloatArray:
    """A random start in unconstrained numbers."""
    start = np.concatenate([
        rng.normal(0.0, 0.05, (n_leaves - 1) * (d + 1)),
        softplus_inverse(np.ones(n_leaves - 1 + n_leaves * d + n_leaves)),
        softplus_inverse(np.array([1e-4])),
    ])
    return start * (1.0 + rng.uniform(-0.5, 0.5, len(start)))


def ways(n_leaves: int) -> list[list[tuple[int, int]]]:
    """For each leaf, the gates on the way to it and +1 (left) or -1 (right) at each."""
    out = []
    for leaf in range(n_leaves, 2 * n_leaves):  # nodes are numbered as in a heap
        way, node = [], leaf
        while node > 1:
            way.append((node // 2 - 1, 1 if node % 2 == 0 else -1))
            node //= 2
        out.append(way[::-1])
    return out


def log_shares(p: Parameters, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log of the shares (J, n) of each leaf, and the gates' arguments t (J-1, n)."""
    t = p.steepness[:, None] * (p.planes[:, :1] + p.planes[:, 1:] @ X.T)
    logs = [np.sum([log_expit(side * t[gate]) for gate, side in way], axis=0)
            for way in ways(len(p.variances))]
    return np.array(logs), t


def covariance(p: Parameters, leaf: int, A: FloatArray, B: FloatArray, log_a: FloatArray,
               log_b: FloatArray) -> FloatArray:
    """The part of one leaf in the covariance of A (n, d) and B (m, d)."""
    # Shares and variance go into the exponent: one exp per entry.
    half = 0.5 * np.log(p.variances[leaf])
    a, b = A / p.lengths[leaf], B / p.lengths[leaf]
    left = log_a[leaf] + half - 0.5 * np.einsum("ij,ij->i", a, a)
    right = log_b[leaf] + half - 0.5 * np.einsum("ij,ij->i", b, b)
    out = a @ b.T
    out += left[:, None]
    out += right
    return np.asarray(np.exp(out, out=out))


def penalty(p: Parameters) -> tuple[float, Parameters]:
    """Minus log of the priors without constants, and its gradient in each parameter."""
    value = (0.5 * (p.planes**2).sum()
             + (2.0 * p.steepness - 5.0 * np.log(p.steepness)).sum()  # Gamma(6, 2)
             + (2.0 * p.lengths - np.log(p.lengths)).sum()  # Gamma(2, 2)
             + (3.0 * p.variances - np.log(p.variances)).sum()  # Gamma(2, 3)
             + 100.0 * p.noise)  # Exponential(100)
    gradient = Parameters(p.planes, 2.0 - 5.0 / p.steepness, 2.0 - 1.0 / p.lengths,
                          3.0 - 1.0 / p.variances, 100.0)
    return float(value), gradient


def objective(
    u: FloatArray, X: FloatArray, y: FloatArray, n_leaves: int
) -> tuple[float, FloatArray]:
    """Minus the log posterior and its gradient in the unconstrained numbers.

    Raises LinAlgError where the covariance has no Cholesky factor.
    """
    n, d = X.shape
    p = unpack(u, n_leaves, d)
    logs, t = log_shares(p, X)
    parts = [covariance(p, leaf, X, X, logs, logs) for leaf in range(n_leaves)]
    C = np.sum(parts, axis=0)
    C[np.diag_indices(n)] += p.noise
    factor, failed = lapack.dpotrf(C, lower=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError
    dual = lapack.dpotrs(factor, y, lower=1)[0]
    log_det = 2.0 * np.log(factor.diagonal()).sum()
    inverse = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    G = np.tril(inverse, -1)
    G += G.T
    G[np.diag_indices(n)] = inverse.diagonal()
    G -= np.outer(dual, dual)
    G *= 0.5

    prior, slope = penalty(p)
    value = 0.5 * y @ dual + 0.5 * log_det + 0.5 * n * np.log(2.0 * np.pi) + prior
    gradient = _gradient(p, slope, X, t, parts, G)
    return float(value), _chain(u, gradient)


def _gradient(p: Parameters, slope: Parameters, X: FloatArray, t: FloatArray,
              parts: list[FloatArray], G: FloatArray) -> Parameters:
    """Of the objective in the parameters; `slope` is that of the prior."""
    n_leaves = len(parts)
    sums = np.empty((n_leaves, len(X)))
    lengths = np.empty_like(p.lengths)
    for leaf, part in enumerate(parts):
        np.multiply(part, G, out=part)
        sums[leaf] = part.sum(axis=1)
        squares = (X**2).T @ sums[leaf] - np.einsum("ij,ij->j", X, part @ X)
        lengths[leaf] = 2.0 * squares / p.lengths[leaf] ** 3
    d_t = np.zeros_like(t)
    for leaf, way in enumerate(ways(n_leaves)):
        for gate, side in way:
            d_t[gate] += 2.0 * sums[leaf] * side * expit(-side * t[gate])
    planes = np.column_stack([d_t.sum(axis=1), d_t @ X]) * p.steepness[:, None]
    steepness = np.einsum("ij,ij->i", d_t, t) / p.steepness
    return Parameters(planes + slope.planes, steepness + slope.steepness, lengths + slope.lengths,
                      sums.sum(axis=1) / p.variances + slope.variances,
                      float(np.trace(G)) + slope.noise)


def _chain(u: FloatArray, g: Parameters) -> FloatArray:
    """The gradient in unconstrained numbers: a softplus has the logistic as its slope."""
    slopes = expit(u)
    slopes[: g.planes.size] = 1.0
    flat = np.concatenate([g.planes.ravel(), g.steepness, g.lengths.ravel(), g.variances,
                           [g.noise]])
    return np.asarray(flat * slopes)
