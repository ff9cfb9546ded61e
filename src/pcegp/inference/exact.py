"""Exact inference: one Cholesky factor of the covariance of all rows.

n training points, m new points, in scaled inputs and standardised targets.

    C       (n, n)  covariance of the data, noise included
    dual    (n,)    C^-1 y
    k(x*)   (m, n)  covariance between new and training points
    mean    k C^-1 y                                       (paper, equation 12)
    var     s - k C^-1 k' + noise(x*), s = sum_k s_k       (paper, appendix E)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from pcegp._typing import FloatArray
from pcegp.errors import NotPositiveDefiniteError
from pcegp.inference.base import (
    COVARIANCE,
    DRAWS,
    EVERY_STEP,
    LEAVE_ONE_OUT,
    Conditioned,
    Data,
    Evaluation,
)
from pcegp.inference.parameter_uncertainty import UncertainParameters
from pcegp.kernels import Design, Parameters, Process
from pcegp.kernels.process import Terms
from pcegp.numerics import ONE_THREAD, Threads, cholesky, pairwise, threads_for

LOG_2PI = float(np.log(2.0 * np.pi))
# Matrices of n x n numbers that training holds at its peak (docs/speed.md).
_MATRICES = 3.2
_BLOCK_NUMBERS = 4_000_000  # numbers of a block of new points: 32 MB


@dataclass(frozen=True)
class Exact:
    """The exact engine: time grows with the cube of the rows, memory with their square."""

    name = "exact"
    provides = frozenset({LEAVE_ONE_OUT, EVERY_STEP, COVARIANCE, DRAWS})

    def bytes_needed(self, n: int, d: int) -> int:  # noqa: ARG002  # as every engine
        return int(8 * _MATRICES * n**2)

    def bytes_held(self, n: int, d: int) -> int:  # noqa: ARG002  # as every engine
        return 8 * n**2

    def bind(self, process: Process, data: Data, threads: Threads = ONE_THREAD,
             n_jobs: int | None = None) -> ExactLikelihood:
        return ExactLikelihood(self, process, data, threads, n_jobs)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}


def _log_determinant(factor: FloatArray) -> float:
    return 2.0 * float(np.log(factor.diagonal()).sum())


def fill_and_factor(
    Z: FloatArray, parts: pairwise.Components, noise: FloatArray, C: FloatArray,
    workspace: FloatArray, threads: Threads = ONE_THREAD,
) -> float:
    """Write the Cholesky factor of the covariance of warped points (K, d, n) into C (n, n).

    Returns
    -------
    What had to be added to its diagonal.
    """
    for relative, careful in cholesky.ATTEMPTS:
        pairwise.fill(Z, parts, noise, C, threads)
        jitter = cholesky.factor(C, workspace, threads, relative, careful)
        if jitter is not None:
            return jitter
    raise NotPositiveDefiniteError


def _leave_one_out(
    precision: FloatArray, dual: FloatArray, noise: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Compute y_i minus its prediction from all other points, and that one's variance.

    `precision` is the diagonal of C^-1, whose noise is divided by the weights; the
    variance is that of one new measurement, so it is never below its noise.
    """
    variance = 1.0 / precision + noise * (1.0 - 1.0 / weights)
    return dual / precision, np.maximum(variance, noise)


def _left_out(
    factor: FloatArray, dual: FloatArray, noise: FloatArray, weights: FloatArray,
    workspace: FloatArray, threads: Threads,
) -> tuple[FloatArray, FloatArray]:
    """Compute leave-one-out residuals and variances, (n,) each, from a Cholesky factor."""
    workspace[...] = 0.0
    np.fill_diagonal(workspace, 1.0)
    half = cholesky.half_solve(factor, workspace, threads)
    precision = np.einsum("ij,ij->i", half, half)  # the diagonal of C^-1
    return _leave_one_out(precision, dual, noise, weights)


class ExactLikelihood:
    """The negative log marginal likelihood of some data, with its closed-form gradient."""

    def __init__(self, engine: Exact, process: Process, data: Data,
                 threads: Threads = ONE_THREAD, n_jobs: int | None = None) -> None:
        self.engine = engine
        self.process = process
        self.data = data
        self.design = process.design(data.X)
        self.threads = threads
        self.n_factorisations = 0
        self._n_jobs = n_jobs
        n = len(data.y)
        self._C, self._spare = np.zeros((n, n)), np.zeros((n, n))

    def _factored(self, theta: FloatArray) -> tuple[Terms, FloatArray, float]:
        """Compute the terms of the covariance, its factor (in the workspace) and the jitter."""
        terms = self.process.terms(theta, self.design)
        noise = terms.noise.variance / self.data.weights
        self.n_factorisations += 1
        jitter = fill_and_factor(terms.warp.Z, terms.components, noise, self._C, self._spare,
                                 self.threads)
        return terms, self._C, jitter

    def _value(self, noise: FloatArray, log_determinant: float, dual: FloatArray) -> float:
        """Compute the negative log likelihood, with the terms of repeated rows."""
        _, y, w = self.data
        nll = 0.5 * (y @ dual + log_determinant + len(y) * LOG_2PI)
        repeats = (w - 1.0) * LOG_2PI + xlogy(w - 1.0, noise) + np.log(w)
        return float(nll + 0.5 * np.sum(repeats))

    def __call__(self, theta: FloatArray) -> Evaluation:
        terms, matrix, jitter = self._factored(theta)
        noise, w = terms.noise.variance, self.data.weights
        log_determinant = _log_determinant(matrix)
        dual = cholesky.solve_and_invert(matrix, self.data.y, self._spare, self.threads)
        nll = self._value(noise, log_determinant, dual)
        by_covariance = pairwise.pull_back(
            terms.warp.Z, terms.components, matrix, dual, self.threads
        )
        precision = matrix.diagonal().copy()
        by_repeats = (w - 1.0) / np.maximum(noise, np.finfo(np.float64).tiny)
        by_noise = 0.5 * ((precision - dual**2) / w + by_repeats)
        gradient = self.process.pull_back(terms, self.design, *by_covariance, by_noise)
        residual, variance = _leave_one_out(precision, dual, noise, w)
        return Evaluation(nll, gradient, residual, variance, jitter)

    def posterior(self, theta: FloatArray) -> ExactPosterior:
        theta = theta.copy()
        terms, workspace, jitter = self._factored(theta)
        factor = workspace.copy()
        dual = cholesky.solve(factor, self.data.y)
        return ExactPosterior(
            engine=self.engine,
            process=self.process,
            theta=theta,
            parameters=terms.parameters,
            data=self.data,
            scale_offset=self.process.transform.offset(terms.warp.u),
            noise_offset=self.process.noise_transform.offset(terms.noise.u),
            noise=terms.noise.variance,
            nll=self._value(terms.noise.variance, _log_determinant(factor), dual),
            jitter=jitter,
            n_jobs=self._n_jobs,
            components=terms.components,
            Z=terms.warp.Z,
            factor=factor,
            dual=dual,
        )

    def means(self, thetas: Sequence[FloatArray]) -> ProjectedMeans:
        """Prepare the means of predictions at other parameters."""
        parts = []
        for theta in thetas:
            terms, factor, _ = self._factored(theta)
            parts.append((terms.warp.Z, self.process.transform.offset(terms.warp.u),
                          cholesky.solve(factor, self.data.y)[None]))
        copies = tuple(theta.copy() for theta in thetas)
        return ProjectedMeans(self.process, copies, self.process.side_by_side(copies),
                              *(np.concatenate(part) for part in zip(*parts, strict=True)))

    def residuals_left_out(self, thetas: Sequence[FloatArray]) -> FloatArray:
        """Compute leave-one-out residuals (S, n) at other parameters."""
        out = []
        for theta in thetas:
            terms, factor, _ = self._factored(theta)
            dual = cholesky.solve(factor, self.data.y)
            # Once there is a factor, the spare matrix is free.
            out.append(_left_out(factor, dual, terms.noise.variance, self.data.weights,
                                 self._spare, self.threads)[0])
        return np.array(out)


class ProjectedMeans(NamedTuple):
    """Means at S parameter vectors, whose covariance functions stand side by side."""

    process: Process
    thetas: tuple[FloatArray, ...]
    parameters: Parameters
    Z: FloatArray  # (S K, d, n)
    scale_offset: FloatArray  # (S K, F, 1)
    duals: FloatArray  # (S, n)

    def at(self, design: Design, threads: Threads) -> FloatArray:
        """Predict the means (S, m) at new points."""
        Z = self.process.warp(self.parameters, design, self.scale_offset).Z
        components = self.process.components(self.parameters)
        return pairwise.project(Z, self.Z, components, self.duals, threads)


@dataclass(frozen=True)
class ExactPosterior(Conditioned):
    """A Gaussian process conditioned on its data by a Cholesky factor."""

    components: pairwise.Components
    Z: FloatArray  # (K, d, n) warped training points
    factor: FloatArray  # (n, n) Cholesky factor of C, lower triangle
    dual: FloatArray  # (n,) C^-1 y

    @property
    def least_variance(self) -> float:
        """The least variance of the process: rounding could make one negative."""
        return float(np.finfo(np.float64).eps * self.prior_variance)

    def condition_number(self) -> float:
        return cholesky.condition_number(self.factor)

    def _blocks(
        self, X: FloatArray, with_noise: bool, n_models: int = 1
    ) -> Iterator[tuple[slice, Design]]:
        components = n_models * len(self.Z)
        width = max(len(self.dual), self.process.basis.n_terms, components * X.shape[1])
        rows = max(1, _BLOCK_NUMBERS // width)
        for start in range(0, len(X), rows):
            part = slice(start, start + rows)
            yield part, self.process.design(X[part], with_noise)

    def _threads(self, n_new: int, n_models: int = 1) -> AbstractContextManager[Threads]:
        """Choose the threads for predictions at so many points by that of a covariance."""
        return threads_for(math.isqrt(n_models * n_new * len(self.dual)), self.n_jobs)

    def _cross(self, design: Design, threads: Threads) -> FloatArray:
        Z = self.process.warp(self.parameters, design, self.scale_offset).Z
        return pairwise.cross(Z, self.Z, self.components, threads)

    def mean(self, X: FloatArray) -> FloatArray:
        out = np.empty(len(X))
        with self._threads(len(X)) as threads:
            for part, design in self._blocks(X, with_noise=False):
                out[part] = self._cross(design, threads) @ self.dual
        return out

    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True,
        uncertainty: UncertainParameters | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Predict mean and variance, (m,) each, at X (m, d).

        `uncertainty` widens the variance of the process by that of its parameters.
        """
        mean, variance = np.empty(len(X)), np.empty(len(X))
        n_others = 0 if uncertainty is None else len(uncertainty.others.thetas)
        with self._threads(len(X), 1 + n_others) as threads:
            for part, design in self._blocks(X, include_noise, max(1, n_others)):
                k = self._cross(design, threads)
                mean[part] = k @ self.dual
                half = cholesky.half_solve(self.factor, k, threads)
                explained = np.einsum("ij,ij->i", half, half)
                within = np.maximum(self.prior_variance - explained, self.least_variance)
                if uncertainty is not None:
                    distances = uncertainty.others.at(design, threads) - mean[part]
                    within = uncertainty.widened(within, distances)
                variance[part] = within
                if include_noise:
                    variance[part] += self.process.noise(
                        self.parameters, design.Phi_noise, self.noise_offset
                    ).variance
        return mean, variance

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        with self._threads(len(X)) as threads:
            Z = self.warped(X)
            k = pairwise.cross(Z, self.Z, self.components, threads)
            mean = k @ self.dual
            half = cholesky.half_solve(self.factor, k, threads)
            covariance = pairwise.cross(Z, Z, self.components, threads)
        covariance -= half @ half.T
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), self.least_variance))
        if include_noise:
            covariance[np.diag_indices_from(covariance)] += self.noise_variance(X)
        return mean, covariance

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """Compute leave-one-out residuals and variances (with noise), (n,) each."""
        with threads_for(len(self.dual), self.n_jobs) as threads:
            return _left_out(self.factor, self.dual, self.noise, self.data.weights,
                             np.empty_like(self.factor), threads)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        residual, variance = self.left_out()
        return self.data.y - residual, variance
