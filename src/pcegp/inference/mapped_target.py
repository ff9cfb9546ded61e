"""Predictions of a target by a process that describes a monotone map of it.

What is expected of a mapped target, and how far it varies, are integrals over the normal
distribution of the process (`pcegp.preprocessing.target_map`). The target without noise is what
is expected of it at a value of the process; so the mean is the same with and without noise.
"""

from dataclasses import dataclass

import numpy as np

from pcegp._typing import FloatArray
from pcegp.inference.base import Conditioned, Posterior
from pcegp.preprocessing import TargetMap


@dataclass(frozen=True)
class MappedTarget(Posterior):
    """A posterior of a target, from that of its map."""

    of_map: Conditioned
    target_map: TargetMap
    given: FloatArray  # (n,) standardised targets

    @property
    def base(self) -> Conditioned:
        return self.of_map

    @property
    def targets(self) -> FloatArray:
        return self.given

    @property
    def log_likelihood(self) -> float:
        slopes = self.target_map.log_slope(self.given)
        return float(slopes @ self.of_map.likelihood_weights) - self.of_map.nll

    def _moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        mean, variance = self.of_map.mean_and_variance(X, include_noise=False)
        return self.target_map.moments(mean, variance, self.of_map.noise_variance(X))

    def mean(self, X: FloatArray) -> FloatArray:
        return self._moments(X)[0]

    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        mean, within, total = self._moments(X)
        return mean, total if include_noise else within

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        values, shared = self.of_map.mean_and_covariance(X, include_noise=False)
        variance, noise = shared.diagonal().copy(), self.of_map.noise_variance(X)
        covariance = self.target_map.covariance(values, variance + noise, shared)
        mean, within, total = self.target_map.moments(values, variance, noise)
        covariance[np.diag_indices(len(X))] = total if include_noise else within
        return mean, covariance

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        mean, _, total = self.target_map.moments(*self.of_map.leave_one_out())
        return mean, total

    def noise_variance(self, X: FloatArray) -> FloatArray:
        _, within, total = self._moments(X)
        return np.maximum(total - within, 0.0)

    def sample(
        self, X: FloatArray, count: int, rng: np.random.Generator, include_noise: bool = True
    ) -> FloatArray:
        values = self.of_map.sample(X, count, rng, include_noise)
        if include_noise:
            return self.target_map.inverse(values)
        return self.target_map.expected(values, self.of_map.noise_variance(X))


def mapped(of_map: Conditioned, target_map: TargetMap, targets: FloatArray) -> Posterior:
    """Make the posterior of standardised targets (n,) from that of their map."""
    return of_map if target_map.is_linear else MappedTarget(of_map, target_map, targets)
