"""The trained model: mean, variance, covariance, samples and leave-one-out.

n training points, m new points, in scaled inputs and standardised targets.

    k(x*)   (m, n)  covariance between new and training points
    mean    k C^-1 y                                       (paper, equation 12)
    var     s - k C^-1 k' + noise(x*), s = sum_k s_k       (paper, appendix E)

To the variance v of the process comes what the parameters leave open, if there are S draws of
them: REACH (OWN a + (1 - OWN) u v), where a is the mean square of their means' distances from the
mean. A few draws may agree by chance; u v is what they usually leave open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from pcegp.kernels.process import Design, Likelihood, Parameters, Structure, leave_one_out
from pcegp.numerics import cholesky as linalg
from pcegp.numerics import pairwise
from pcegp.numerics.threads import Workers, workers

FloatArray = NDArray[np.float64]

# A short chain covers only a part of what the parameters leave open, and a variance from four
# draws is a matter of luck. Both numbers were chosen by the NLL of splits and of their worst folds;
# 4 to 8 times, and a third to all of it, make little difference to the mean (docs/defaults.md).
REACH = 6.0
OWN = 1.0 / 3.0

_BLOCK_NUMBERS = 4_000_000  # numbers of a block of new points: 32 MB


@dataclass(frozen=True)
class Draws:
    """S other parameter vectors for the same data, side by side; see `pcegp.training.hmc`."""

    thetas: tuple[FloatArray, ...]
    parameters: Parameters
    Z: FloatArray  # (S K, d, n)
    scale_offset: FloatArray  # (S K, F, 1)
    duals: FloatArray  # (S, n)
    usual: float  # what they leave open at a usual training row, in variances of the process


@dataclass(frozen=True)
class Posterior:
    """A Gaussian process conditioned on its data; made whole by `condition`."""

    structure: Structure
    theta: FloatArray
    X: FloatArray  # (n, d) scaled training inputs
    Z: FloatArray  # (K, d, n) warped training points
    scale_offset: FloatArray  # (K, F, 1), see Transform.offset
    noise_offset: FloatArray  # (1,)
    noise: FloatArray  # (n,) noise variance at the training points
    factor: FloatArray  # (n, n) Cholesky factor of C, lower triangle
    dual: FloatArray  # (n,) C^-1 y
    y: FloatArray
    weights: FloatArray
    nll: float
    jitter: float
    n_jobs: int | None = None
    draws: Draws | None = None

    @cached_property
    def parameters(self) -> Parameters:
        return self.structure.parameters(self.theta)

    @cached_property
    def prior_variance(self) -> float:
        """Variance of the process before data, without noise."""
        return float(np.exp(self.parameters.log_variances).sum())

    @property
    def _least_variance(self) -> float:
        """No variance is known better than to rounding, which can even make it negative."""
        return float(np.finfo(np.float64).eps * self.prior_variance)

    def _blocks(self, X: FloatArray) -> Iterator[tuple[slice, Design]]:
        components = len(self.Z) if self.draws is None else len(self.draws.Z)
        width = max(len(self.y), self.structure.basis.n_terms, components * X.shape[1])
        rows = max(1, _BLOCK_NUMBERS // width)
        for start in range(0, len(X), rows):
            part = slice(start, start + rows)
            yield part, self.structure.design(X[part])

    def _warped(self, design: Design) -> FloatArray:
        return self.structure.warp(self.parameters, design, self.scale_offset).Z

    def _workers(self, n_new: int) -> AbstractContextManager[Workers]:
        """The threads for predictions at so many points, as for a covariance of that size."""
        models = 1 if self.draws is None else 1 + len(self.draws.duals)
        return workers(math.isqrt(models * n_new * len(self.y)), self.n_jobs)

    def _covariance(self, A: FloatArray, B: FloatArray, crew: Workers) -> FloatArray:
        return pairwise.cross(A, B, self.structure.components(self.parameters), crew)

    def mean(self, X: FloatArray) -> FloatArray:
        """Mean (m,) at X (m, d)."""
        out = np.empty(len(X))
        with self._workers(len(X)) as crew:
            for part, design in self._blocks(X):
                out[part] = self._covariance(self._warped(design), self.Z, crew) @ self.dual
        return out

    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and variance, (m,) each, at X (m, d)."""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        with self._workers(len(X)) as crew:
            for part, design in self._blocks(X):
                k = self._covariance(self._warped(design), self.Z, crew)
                mean[part] = k @ self.dual
                half = linalg.half_solve(self.factor, k, crew)
                explained = np.einsum("ij,ij->i", half, half)
                within = np.maximum(self.prior_variance - explained, self._least_variance)
                variance[part] = self._left_open(within, self._apart(design, mean[part], crew))
                if include_noise:
                    variance[part] += self._noise(design)
        return mean, variance

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Mean (m,) and covariance (m, m) at X (m, d)."""
        with self._workers(len(X)) as crew:
            design = self.structure.design(X)
            Z = self._warped(design)
            k = self._covariance(Z, self.Z, crew)
            mean = k @ self.dual
            half = linalg.half_solve(self.factor, k, crew)
            apart = self._apart(design, mean, crew)
            covariance = self._covariance(Z, Z, crew)
        covariance -= half @ half.T
        within = np.maximum(covariance.diagonal(), self._least_variance)
        np.fill_diagonal(covariance, within)
        if self.draws is not None:
            covariance *= 1.0 + REACH * (1.0 - OWN) * self.draws.usual
            covariance += REACH * OWN / len(apart) * apart.T @ apart
            # Above the prior, the whole process is scaled down: it stays a covariance.
            wanted = self._left_open(within, apart)
            factor = np.sqrt(wanted / covariance.diagonal())
            covariance *= factor * factor[:, None]
        if include_noise:
            covariance[np.diag_indices_from(covariance)] += self._noise(design)
        return mean, covariance

    def _apart(self, design: Design, mean: FloatArray, crew: Workers) -> FloatArray:
        """How far the means of the draws are from the mean, (S, m)."""
        draws = self.draws
        if draws is None:
            return np.empty((0, len(mean)))
        Z = self.structure.warp(draws.parameters, design, draws.scale_offset).Z
        components = self.structure.components(draws.parameters)
        return pairwise.project(Z, draws.Z, components, draws.duals, crew) - mean

    def _left_open(self, variance: FloatArray, apart: FloatArray) -> FloatArray:
        """Variance (m,) of the process with what the parameters leave open.

        At most that of the prior, which knows nothing but the parameters.
        """
        if self.draws is None:
            return variance
        own = np.einsum("ij,ij->j", apart, apart) / len(apart)
        open_ = OWN * own + (1.0 - OWN) * self.draws.usual * variance
        return np.asarray(np.minimum(variance + REACH * open_, self.prior_variance))

    def _noise(self, design: Design) -> FloatArray:
        return self.structure.noise(self.parameters, design.Phi_noise, self.noise_offset)

    def warped(self, X: FloatArray) -> FloatArray:
        """Warped points (K, d, m) of X (m, d)."""
        return self._warped(self.structure.design(X))

    def local_scale(self, X: FloatArray) -> FloatArray:
        """Local scale (K, F, m) at X (m, d), by covariance function and field."""
        return self.structure.warp(self.parameters, self.structure.design(X),
                                   self.scale_offset).scale

    def noise_variance(self, X: FloatArray) -> FloatArray:
        """Noise variance (m,) at X (m, d)."""
        return self._noise(self.structure.design(X))

    def sample(self, X: FloatArray, n_samples: int, rng: np.random.Generator,
               include_noise: bool = True) -> FloatArray:
        """Draws (m, n_samples) from the joint posterior at X (m, d)."""
        mean, covariance = self.mean_and_covariance(X, include_noise)
        # Eigenvalues: where data pin the process down, rounding leaves no Cholesky factor.
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(mean[:, None] + root @ rng.standard_normal((len(X), n_samples)))

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance (with noise) of each y_i given all others, (n,) each."""
        with workers(len(self.y), self.n_jobs) as crew:
            likelihood = Likelihood(self.structure, self.X, self.y, self.weights, crew)
            residual, variance = _left_out(likelihood, self.factor, self.dual, self.noise)
            if self.draws is not None:
                within = np.maximum(variance - self.noise, self._least_variance)
                apart = _apart_left_out(likelihood, self.draws.thetas, residual)
                variance = self._left_open(within, apart) + self.noise
        return self.y - residual, variance


def condition(
    likelihood: Likelihood, theta: FloatArray, n_jobs: int | None = None
) -> Posterior:
    """The posterior for the data of a likelihood at parameters theta."""
    structure, parameters = likelihood.structure, likelihood.structure.parameters(theta)
    warp, noise, workspace, jitter = likelihood.factor(theta)
    factor = workspace.copy()
    dual = linalg.solve(factor, likelihood.y)
    return Posterior(
        structure=structure,
        theta=theta.copy(),
        X=likelihood.design.X,
        Z=warp.Z,
        scale_offset=structure.transform.offset(warp.u),
        noise_offset=structure.noise_offset(parameters, likelihood.design.Phi_noise),
        noise=noise,
        factor=factor,
        dual=dual,
        y=likelihood.y,
        weights=likelihood.weights,
        nll=likelihood.value(noise, linalg.log_determinant(factor), dual),
        jitter=jitter,
        n_jobs=n_jobs,
    )


def _left_out(
    likelihood: Likelihood, factor: FloatArray, dual: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Leave-one-out residuals and variances, (n,) each, from a Cholesky factor."""
    identity = likelihood.spare  # not needed any more once there is a factor
    identity[...] = 0.0
    np.fill_diagonal(identity, 1.0)
    half = linalg.half_solve(factor, identity, likelihood.crew)
    precision = np.einsum("ij,ij->i", half, half)  # the diagonal of C^-1
    return leave_one_out(precision, dual, noise, likelihood.weights)


def _apart_left_out(
    likelihood: Likelihood, thetas: Sequence[FloatArray], residual: FloatArray
) -> FloatArray:
    """How far the leave-one-out means at other parameters are from those of a model, (S, n)."""
    apart = np.empty((len(thetas), len(residual)))
    for row, theta in zip(apart, thetas, strict=True):
        _, noise, factor, _ = likelihood.factor(theta)
        other, _ = _left_out(likelihood, factor, linalg.solve(factor, likelihood.y), noise)
        row[...] = residual - other
    return apart


def with_draws(
    posterior: Posterior, likelihood: Likelihood, thetas: Sequence[FloatArray],
    usual: float | None = None,
) -> Posterior:
    """The same posterior that knows how far other parameters predict from it."""
    if not len(thetas):
        return posterior
    structure, parts = posterior.structure, []
    for theta in thetas:
        warp, _, factor, _ = likelihood.factor(theta)
        parts.append((warp.Z, structure.transform.offset(warp.u),
                      linalg.solve(factor, likelihood.y)[None]))
    Z, scale_offset, duals = (np.concatenate(part) for part in zip(*parts, strict=True))
    copies = tuple(theta.copy() for theta in thetas)
    usual = _usual(posterior, likelihood, thetas) if usual is None else usual
    draws = Draws(copies, structure.side_by_side(copies), Z, scale_offset, duals, usual)
    return replace(posterior, draws=draws)


def _usual(
    posterior: Posterior, likelihood: Likelihood, thetas: Sequence[FloatArray]
) -> float:
    """The mean square distance at training rows left out, in variances of the process.

    The median over the rows; S normal distances have the median of chi squared over S.
    """
    residual, variance = _left_out(likelihood, posterior.factor, posterior.dual, posterior.noise)
    within = np.maximum(variance - posterior.noise, posterior._least_variance)
    apart = _apart_left_out(likelihood, thetas, residual)
    ratio = np.median(np.einsum("ij,ij->j", apart, apart) / within)
    return float(ratio / chdtri(len(thetas), 0.5))
