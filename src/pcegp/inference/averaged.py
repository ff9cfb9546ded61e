"""Predictions averaged over several models of the same data, each with a weight.

Several structures explain the same rows about equally well and predict differently. Their
average is the mixture of their predictive distributions: its variance holds their own variances
and their distances from the common mean.

Data have odd rows that no model foresees, and where a model sees no noise they are many of its
deviations away. How much is left out, each row predicted from all others tells: a constant added
to all predictive variances, of the largest likelihood of these predictions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from scipy.optimize import minimize_scalar

from pcegp._typing import FloatArray
from pcegp.inference.base import Conditioned, Posterior

# Range of the logarithm of the added variance, in units of the mean squared residual, and the
# number of intervals in which a maximum is looked for.
_LOWEST, _N_INTERVALS = -20.0, 20


@dataclass(frozen=True)
class Averaged(Posterior):
    """A mixture of posteriors, the one of the largest weight first."""

    members: tuple[Posterior, ...]
    weights: FloatArray  # (S,), they add up to 1
    unexplained: float = 0.0  # variance that no member explains, a part of the noise

    @property
    def base(self) -> Conditioned:
        return self.members[0].base

    @property
    def targets(self) -> FloatArray:
        return self.members[0].targets

    @property
    def log_likelihood(self) -> float:
        return self.members[0].log_likelihood

    def mean(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.weights @ np.array([member.mean(X) for member in self.members]))

    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        mean, variance = self._mixed(lambda member: member.mean_and_variance(X, include_noise))
        return mean, variance + self.unexplained * include_noise

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        means, covariance = [], np.zeros((len(X), len(X)))
        for member, weight in zip(self.members, self.weights, strict=True):
            mean, own = member.mean_and_covariance(X, include_noise)
            means.append(mean)
            own *= weight
            covariance += own
        mean = np.asarray(self.weights @ np.array(means))
        away = np.sqrt(self.weights)[:, None] * (np.array(means) - mean)
        covariance += away.T @ away
        covariance[np.diag_indices(len(X))] += self.unexplained * include_noise
        return mean, covariance

    def sample(
        self, X: FloatArray, count: int, rng: np.random.Generator, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions (m, count): each is one of a member, drawn by its weight."""
        chosen = rng.choice(len(self.members), count, p=self.weights)
        out = np.empty((len(X), count))
        for number in np.unique(chosen):
            columns = np.flatnonzero(chosen == number)
            out[:, columns] = self.members[number].sample(X, len(columns), rng, include_noise)
        if include_noise and self.unexplained > 0.0:
            out += np.sqrt(self.unexplained) * rng.standard_normal(out.shape)
        return out

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        mean, variance = self._mixed(lambda member: member.leave_one_out())
        return mean, variance + self.unexplained

    def noise_variance(self, X: FloatArray) -> FloatArray:
        each = np.array([member.noise_variance(X) for member in self.members])
        return np.asarray(self.weights @ each + self.unexplained)

    def _mixed(
        self, moments: Callable[[Posterior], tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Mix means and variances of the members."""
        means, variances = (np.array(part)
                            for part in zip(*map(moments, self.members), strict=True))
        mean = self.weights @ means
        return mean, np.asarray(self.weights @ (variances + (means - mean) ** 2))


def averaged(
    members: tuple[Posterior, ...], weights: FloatArray, unexplained: float = 0.0
) -> Posterior:
    """Average posteriors by weights (S,); a single one with nothing to add is itself."""
    if len(members) == 1 and unexplained == 0.0:
        return members[0]
    return Averaged(members, weights, unexplained)


def unexplained_variance(
    mean: FloatArray, variance: FloatArray, y: FloatArray, weights: FloatArray
) -> float:
    """Estimate the variance to add to that of all predictions, from those of left-out rows.

    It is 0 unless it raises the log likelihood by more than the half of log n that a parameter
    costs (Schwarz, 1978).

    Parameters
    ----------
    mean, variance : (n,) each, of predictions of left-out rows
    y : targets (n,)
    weights : of the rows (n,)
    """
    squares, total = (y - mean) ** 2, float(weights.sum())
    unit = float(weights @ squares) / total

    def nll(added: float) -> float:
        sums = variance + added
        return float(0.5 * weights @ (np.log(sums) + squares / sums))

    ends = np.linspace(_LOWEST, 0.0, _N_INTERVALS + 1)
    values = [nll(unit * np.exp(end)) for end in ends]
    at = int(np.argmin(values))
    found = minimize_scalar(lambda exponent: nll(unit * np.exp(exponent)), method="bounded",
                            bounds=(ends[max(at - 1, 0)], ends[min(at + 1, _N_INTERVALS)]))
    gain = nll(0.0) - float(found.fun)
    return unit * float(np.exp(found.x)) if gain > 0.5 * log(total) else 0.0
