"""The trained model: mean, variance, covariance, samples and leave-one-out.

n training points, m new points, in scaled inputs and standardised targets.

    k(x*)   (m, n)  covariance between new and training points
    mean    k C^-1 y                                       (paper, equation 12)
    var     s - k C^-1 k' + noise(x*), s = sum_k s_k       (paper, appendix E)

To the variance comes what the parameters leave open, if there are draws of them: REACH times
the mean square of their means' distances from the mean; the noise is its mean over the draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pcegp import linalg, pairwise
from pcegp.model import Design, Likelihood, Parameters, Structure, leave_one_out
from pcegp.threads import workers

FloatArray = NDArray[np.float64]

# A short chain covers only a part of what the parameters leave open. The factor was chosen by
# the NLL on split 1 of five data sets, where 3 to 6 do about equally well (docs/defaults.md).
REACH = 4.0

_BLOCK_NUMBERS = 4_000_000  # numbers of a block of new points: 32 MB
_PAIRS_FOR_THREADS = 2_000_000  # below it, starting threads costs more than it brings


@dataclass(frozen=True)
class Draw:
    """Other parameters for the same data; see `pcegp.draws`."""

    theta: FloatArray
    Z: FloatArray  # (K, d, n)
    scale_offset: FloatArray  # (K, F, 1)
    noise_offset: FloatArray  # (1,)
    dual: FloatArray  # (n,)


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
    draws: tuple[Draw, ...] = ()

    @property
    def parameters(self) -> Parameters:
        return self.structure.parameters(self.theta)

    @property
    def prior_variance(self) -> float:
        """Variance of the process before data, without noise."""
        return float(np.exp(self.parameters.log_variances).sum())

    @property
    def _least_variance(self) -> float:
        """No variance is known better than to rounding, which can even make it negative."""
        return float(np.finfo(np.float64).eps * self.prior_variance)

    def _blocks(self, X: FloatArray) -> Iterator[tuple[slice, Design]]:
        width = max(self.Z.shape[2], self.structure.basis.n_terms, self.Z.shape[0] * X.shape[1])
        rows = max(1, _BLOCK_NUMBERS // width)
        for start in range(0, len(X), rows):
            part = slice(start, start + rows)
            yield part, self.structure.design(X[part])

    def _warped(self, design: Design) -> FloatArray:
        return self.structure.warp(self.parameters, design, self.scale_offset).Z

    def _covariance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        components = self.structure.components(self.parameters)
        if A.shape[2] * B.shape[2] * A.shape[0] < _PAIRS_FOR_THREADS:
            return pairwise.cross(A, B, components)
        with workers(B.shape[2], self.n_jobs) as crew:
            return pairwise.cross(A, B, components, crew)

    def _half_solve(self, k: FloatArray) -> FloatArray:
        if k.size < _PAIRS_FOR_THREADS:
            return linalg.half_solve(self.factor, k)
        with workers(k.shape[1], self.n_jobs) as crew:
            return linalg.half_solve(self.factor, k, crew)

    def mean(self, X: FloatArray) -> FloatArray:
        """Mean (m,) at X (m, d)."""
        out = np.empty(len(X))
        for part, design in self._blocks(X):
            out[part] = self._covariance(self._warped(design), self.Z) @ self.dual
        return out

    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and variance, (m,) each, at X (m, d)."""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for part, design in self._blocks(X):
            k = self._covariance(self._warped(design), self.Z)
            mean[part] = k @ self.dual
            half = self._half_solve(k)
            explained = np.einsum("ij,ij->i", half, half)
            within = np.maximum(self.prior_variance - explained, self._least_variance)
            apart = self._apart(design, mean[part])
            variance[part] = self._not_above_prior(within + np.einsum("ij,ij->j", apart, apart))
            if include_noise:
                variance[part] += self._noise(design)
        return mean, variance

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Mean (m,) and covariance (m, m) at X (m, d)."""
        design = self.structure.design(X)
        Z = self._warped(design)
        k = self._covariance(Z, self.Z)
        mean = k @ self.dual
        half = self._half_solve(k)
        apart = self._apart(design, mean)
        covariance = self._covariance(Z, Z) - half @ half.T + apart.T @ apart
        variance = self._not_above_prior(
            np.maximum(covariance.diagonal(), self._least_variance)
        )
        if include_noise:
            variance = variance + self._noise(design)
        np.fill_diagonal(covariance, variance)
        return mean, covariance

    def _apart(self, design: Design, mean: FloatArray) -> FloatArray:
        """How far the means of the draws are from the mean, (S, m), times root of REACH / S."""
        apart = np.empty((len(self.draws), len(mean)))
        for row, draw in zip(apart, self.draws, strict=True):
            parameters = self.structure.parameters(draw.theta)
            Z = self.structure.warp(parameters, design, draw.scale_offset).Z
            components = self.structure.components(parameters)
            row[...] = pairwise.cross(Z, draw.Z, components) @ draw.dual - mean
        return np.asarray(apart * np.sqrt(REACH / max(len(self.draws), 1)))

    def _not_above_prior(self, variance: FloatArray) -> FloatArray:
        """What the parameters leave open is at most what nothing but the prior would."""
        return np.minimum(variance, self.prior_variance) if self.draws else variance

    def _noise(self, design: Design) -> FloatArray:
        """Noise variance (m,) to expect: the mean over the draws, if there are any."""
        pairs = [(d.theta, d.noise_offset) for d in self.draws] or [(self.theta, self.noise_offset)]
        noises = [self.structure.noise(self.structure.parameters(theta), design.Phi_noise, offset)
                  for theta, offset in pairs]
        return np.asarray(np.mean(noises, axis=0))

    def warped(self, X: FloatArray) -> FloatArray:
        """Warped points (K, d, m) of X (m, d)."""
        return self._warped(self.structure.design(X))

    def local_scale(self, X: FloatArray) -> FloatArray:
        """Local scale (K, F, m) at X (m, d), by covariance function and field."""
        return self.structure.warp(self.parameters, self.structure.design(X),
                                   self.scale_offset).scale

    def noise_variance(self, X: FloatArray) -> FloatArray:
        """Noise variance (m,) at X (m, d), of the trained parameters."""
        Phi_noise = self.structure.design(X).Phi_noise
        return self.structure.noise(self.parameters, Phi_noise, self.noise_offset)

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
            for draw in self.draws:
                _, noise, factor, _ = likelihood.factor(draw.theta)
                other, _ = _left_out(likelihood, factor, draw.dual, noise)
                apart = REACH * (other - residual) ** 2
                variance += (apart + noise - self.noise) / len(self.draws)
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
    half = linalg.half_solve(factor, np.eye(len(dual)), likelihood.crew)
    precision = np.einsum("ij,ij->i", half, half)  # the diagonal of C^-1
    return leave_one_out(precision, dual, noise, likelihood.weights)


def with_draws(
    posterior: Posterior, likelihood: Likelihood, thetas: Sequence[FloatArray]
) -> Posterior:
    """The same posterior that knows how far other parameters predict from it."""
    draws = []
    for theta in thetas:
        warp, _, factor, _ = likelihood.factor(theta)
        dual = linalg.solve(factor, likelihood.y)
        structure, parameters = posterior.structure, posterior.structure.parameters(theta)
        noise_offset = structure.noise_offset(parameters, likelihood.design.Phi_noise)
        offset = structure.transform.offset(warp.u)
        draws.append(Draw(theta.copy(), warp.Z, offset, noise_offset, dual))
    return replace(posterior, draws=tuple(draws))
