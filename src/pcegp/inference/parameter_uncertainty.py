"""Predictions that know how uncertain the parameters are: a wrapper of a posterior.

Other parameters explain the data nearly as well as the trained ones (`pcegp.training.hmc`
draws S of them). Their means differ from the mean of the model; a multiple of the square of
that distance is added to the variance v of the process:

    v + INFLATION (OWN_SHARE a + (1 - OWN_SHARE) r v)

where a is the mean square distance at the point, and r v is what it typically is: a few draws
may agree by chance. The sum is at most the variance before data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri

from pcegp._typing import FloatArray
from pcegp.inference.base import Posterior
from pcegp.numerics import threads_for

# A short chain covers only a part of the uncertainty of the parameters, and a variance from
# four draws is a matter of luck. Both numbers were chosen by the NLL of splits and of their worst
# folds; 4 to 8 times, and a third to all of it, make little difference (docs/defaults.md).
INFLATION = 6.0
OWN_SHARE = 1.0 / 3.0


@dataclass(frozen=True)
class UncertainParameters(Posterior):
    """A posterior whose variances include the uncertainty of the parameters."""

    trained: Any  # the posterior at the trained parameters
    others: Any  # means at other parameters, such as `ProjectedMeans`
    typical_ratio: float  # of the square distance at training rows left out to the variance

    @property
    def base(self) -> Any:
        return self.trained

    @property
    def targets(self) -> FloatArray:
        return np.asarray(self.trained.data.y)

    @property
    def log_likelihood(self) -> float:
        return -float(self.trained.nll)

    def mean(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.base.mean(X))

    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        mean, variance = self.base.mean_and_variance(X, include_noise, self)
        return mean, variance

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        base = self.base
        mean, covariance = base.mean_and_covariance(X, include_noise=False)
        with threads_for(len(X), base.n_jobs) as threads:
            design = base.process.design(X, with_noise=False)
            distances = self.others.at(design, threads) - mean
        within = covariance.diagonal().copy()
        covariance *= 1.0 + INFLATION * (1.0 - OWN_SHARE) * self.typical_ratio
        covariance += INFLATION * OWN_SHARE / len(distances) * distances.T @ distances
        # Above the prior, the whole process is scaled down: it stays a covariance.
        factor = np.sqrt(self.widened(within, distances) / covariance.diagonal())
        covariance *= factor * factor[:, None]
        if include_noise:
            covariance[np.diag_indices_from(covariance)] += base.noise_variance(X)
        return mean, covariance

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        base = self.base
        residual, variance = base.left_out()
        with threads_for(len(base.data.y), base.n_jobs) as threads:
            likelihood = base.engine.bind(base.process, base.data, threads)
            distances = residual - likelihood.residuals_left_out(self.others.thetas)
        within = np.maximum(variance - base.noise, base.least_variance)
        return base.data.y - residual, self.widened(within, distances) + base.noise

    def noise_variance(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.base.noise_variance(X))

    def widened(self, variance: FloatArray, distances: FloatArray) -> FloatArray:
        """Add the uncertainty of the parameters to variances (m,) of the process.

        `distances` (S, m) are those of the means at other parameters from the mean.
        """
        own = np.einsum("ij,ij->j", distances, distances) / len(distances)
        added = OWN_SHARE * own + (1.0 - OWN_SHARE) * self.typical_ratio * variance
        return np.asarray(np.minimum(variance + INFLATION * added, self.base.prior_variance))


def with_uncertainty(
    posterior: Any, likelihood: Any, thetas: Sequence[FloatArray], ratio: float | None = None
) -> Any:
    """Wrap a posterior by the draws of its parameters, if there are any.

    `ratio` is the typical ratio where it is known, as from a model file.
    """
    if not len(thetas):
        return posterior
    others = likelihood.means(thetas)
    if ratio is None:
        ratio = _typical_ratio(posterior, likelihood, thetas)
    return UncertainParameters(posterior, others, ratio)


def _typical_ratio(posterior: Any, likelihood: Any, thetas: Sequence[FloatArray]) -> float:
    """Compare the square distance at training rows left out to the variance of the process.

    The median over the rows; S normal distances have the median of chi squared over S.
    """
    residual, variance = posterior.left_out()
    within = np.maximum(variance - posterior.noise, posterior.least_variance)
    distances = residual - likelihood.residuals_left_out(thetas)
    ratio = np.median(np.einsum("ij,ij->j", distances, distances) / within)
    return float(ratio / chdtri(len(thetas), 0.5))
