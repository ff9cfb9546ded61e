"""HHK GP: a Gaussian process with the hierarchical hyperplane kernel, by MAP and L-BFGS.

    k(x, x') = sum_j g_j(x) g_j(x') v_j exp(-1/2 sum_i (x_i - x'_i)^2 / l_ji^2)

A symmetric tree of J - 1 soft hyperplanes gives every point a share g_j in each of J leaves:
the product, along the way to leaf j, of logistic(c (w_0 + w x)) to the left or one minus it
to the right (Bitzer, Meister and Zimmer, 2023). First the kernel with its gradient, then the
estimator. n points, d inputs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from pcegp._typing import FloatArray
from pcegp.benchmarks.baselines.scaled import ScaledRegressor
from pcegp.errors import TrainingError
from pcegp.numerics import threads_for

_ATTEMPTS = 5  # random starts for one that succeeds
_EVALUATIONS = 20  # at most that many for an iteration, which usually needs little more than one
_AT_LIMIT = 1  # SciPy's status of an optimiser that ended at a limit
_NOISE_FLOOR = 1e-6


class Parameters(NamedTuple):
    """Parameters of a kernel with J leaves in d inputs, and the noise variance."""

    planes: FloatArray  # (J-1, d+1), the offset first
    steepness: FloatArray  # (J-1,)
    lengths: FloatArray  # (J, d)
    variances: FloatArray  # (J,)
    noise: float


def unpack(u: FloatArray, n_leaves: int, d: int) -> Parameters:
    """Name the parameters in unconstrained numbers; all but the planes pass a softplus."""
    ends = np.cumsum([(n_leaves - 1) * (d + 1), n_leaves - 1, n_leaves * d, n_leaves])
    planes = u[: ends[0]].reshape(n_leaves - 1, d + 1)
    positive = np.logaddexp(0.0, u)
    _, steepness, lengths, variances, noise = np.split(positive, ends)
    return Parameters(planes, steepness, lengths.reshape(n_leaves, d), variances,
                      _NOISE_FLOOR + float(noise[0]))


def first_guess(n_leaves: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Draw a random start in unconstrained numbers."""
    planes = rng.normal(0.0, 0.05, (n_leaves - 1) * (d + 1))
    positive = np.append(np.ones(n_leaves - 1 + n_leaves * d + n_leaves), 1e-4)
    start = np.append(planes, positive + np.log(-np.expm1(-positive)))  # inverse softplus
    return start * (1.0 + rng.uniform(-0.5, 0.5, len(start)))


def ways(n_leaves: int) -> list[list[tuple[int, int]]]:
    """List for each leaf the gates on the way to it, with +1 (left) or -1 (right) at each."""
    out = []
    for leaf in range(n_leaves, 2 * n_leaves):  # nodes are numbered as in a heap
        way, node = [], leaf
        while node > 1:
            way.append((node // 2 - 1, 1 if node % 2 == 0 else -1))
            node //= 2
        out.append(way[::-1])
    return out


def log_shares(p: Parameters, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the log of the shares (J, n) of each leaf, and the gates' arguments t (J-1, n)."""
    t = p.steepness[:, None] * (p.planes[:, :1] + p.planes[:, 1:] @ X.T)
    logs = [np.sum([log_expit(side * t[gate]) for gate, side in way], axis=0)
            for way in ways(len(p.variances))]
    return np.array(logs), t


def covariance(p: Parameters, leaf: int, A: FloatArray, B: FloatArray, log_a: FloatArray,
               log_b: FloatArray) -> FloatArray:
    """Compute the part of one leaf in the covariance of A (n, d) and B (m, d)."""
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
    """Compute minus the log of the priors, without constants, and its gradient."""
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
    """Compute minus the log posterior and its gradient in the unconstrained numbers.

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
    """Compute the gradient of the objective in the parameters; `slope` is that of the prior."""
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
    own = (planes, steepness, lengths, sums.sum(axis=1) / p.variances, np.trace(G))
    return Parameters(*(part + prior for part, prior in zip(own, slope, strict=True)))


def _chain(u: FloatArray, g: Parameters) -> FloatArray:
    """Bring a gradient to unconstrained numbers: a softplus has the logistic as its slope."""
    slopes = expit(u)
    slopes[: g.planes.size] = 1.0
    return np.asarray(np.concatenate([np.ravel(part) for part in g]) * slopes)


@dataclass(kw_only=True, eq=False, repr=False)
class HyperplaneGP(ScaledRegressor):
    """The paper's HHK GP.

    Parameters
    ----------
    n_leaves : 2, 4 or 8 local kernels; half as many where training does not converge
    n_starts : random starts, of which the best is kept
    max_iter : of L-BFGS at each start
    random_state : seed of the starts

    Attributes
    ----------
    n_leaves_ : int
        Local kernels of the trained model.
    n_unfinished_ : int
        Starts that ended at `max_iter`.
    """

    n_leaves: int = 4
    n_starts: int = 10
    max_iter: int = 15_000
    random_state: int = 0

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        n_leaves = self.n_leaves
        with threads_for(len(y), 1):  # several threads of BLAS would be slower, and not repeatable
            best = self._best(X, y, n_leaves)
            while best is None and n_leaves > 2:
                n_leaves //= 2
                best = self._best(X, y, n_leaves)
            if best is None:
                raise TrainingError("no convergence: the covariance of every start was singular")
            self._condition(X, y, best, n_leaves)

    def _condition(self, X: FloatArray, y: FloatArray, best: FloatArray, n_leaves: int) -> None:
        self.n_leaves_, self._X = n_leaves, X
        self._parameters = unpack(best, n_leaves, X.shape[1])
        C = self._covariance(X)
        C[np.diag_indices_from(C)] += self._parameters.noise
        self._factor = cho_factor(C, lower=True)
        self._dual = cho_solve(self._factor, y)

    def _best(self, X: FloatArray, y: FloatArray, n_leaves: int) -> FloatArray | None:
        """Find the best of the starts that converge, or None."""
        rng = np.random.default_rng(self.random_state)
        best, lowest = None, np.inf
        limits = {"maxiter": self.max_iter, "maxfun": _EVALUATIONS * self.max_iter}
        self.n_unfinished_ = 0
        for _ in range(self.n_starts):
            for _ in range(_ATTEMPTS):
                guess = first_guess(n_leaves, X.shape[1], rng)
                try:
                    found = minimize(objective, guess, (X, y, n_leaves), jac=True,
                                     method="L-BFGS-B", options=limits)
                except np.linalg.LinAlgError:
                    continue
                self.n_unfinished_ += int(found.status == _AT_LIMIT)
                if found.fun < lowest:
                    best, lowest = found.x, found.fun
                break
        return best

    def _covariance(self, A: FloatArray) -> FloatArray:
        """Compute the covariance (m, n) between A (m, d) and the training points."""
        p = self._parameters
        log_a, log_b = (log_shares(p, Z)[0] for Z in (A, self._X))
        parts = [covariance(p, leaf, A, self._X, log_a, log_b)
                 for leaf in range(self.n_leaves_)]
        return np.asarray(np.sum(parts, axis=0))

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = self._parameters
        k = self._covariance(X)
        prior = p.variances @ np.exp(2.0 * log_shares(p, X)[0])
        explained = np.einsum("ij,ji->i", k, cho_solve(self._factor, k.T))
        return k @ self._dual, np.maximum(prior - explained, 0.0) + p.noise
