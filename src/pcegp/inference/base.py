"""The seam of inference: an engine on data gives a likelihood and a posterior.

An engine is a setting: it has no data and no state. Bound to a process and to data it is a
`Likelihood`, which owns its workspace. At trained parameters that gives a `Posterior`, which
predicts. To add one, write these three in a module and a line in `ENGINES`
(docs/architecture.md).

n training points, m new points, in scaled inputs and standardised targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import SettingError, unknown_name
from pcegp.kernels import Parameters, Process
from pcegp.numerics import ONE_THREAD, Threads

#: What an engine may provide beyond a likelihood and predictions of single points.
LEAVE_ONE_OUT, COVARIANCE, ADDITIVE = "leave-one-out results", "covariances", "additive terms"
#: Leave-one-out results of every evaluation of a likelihood.
EVERY_STEP = "leave-one-out results of every step"
#: Predictions at several parameter vectors: `means` and `residuals_left_out` of a likelihood;
#: `left_out`, `least_variance` and the argument `uncertainty` of `mean_and_variance` of a
#: posterior (see `pcegp.inference.exact`).
DRAWS = "draws of the parameters"


class Data(NamedTuple):
    """Rows as a model sees them."""

    X: FloatArray  # (n, d) scaled inputs
    y: FloatArray  # (n,) standardised targets
    weights: FloatArray  # (n,) repeats of each row; a weight of 2 equals two rows

    def rows(self, chosen: Any) -> Data:
        """Select some of the rows."""
        return Data(self.X[chosen], self.y[chosen], self.weights[chosen])

    def distinct(self) -> Data:
        """Join equal rows, of equal targets, to one with the sum of their weights."""
        rows, numbers = np.unique(np.column_stack([self.X, self.y]), axis=0, return_inverse=True)
        return Data(np.asfortranarray(rows[:, :-1]), rows[:, -1],
                    np.asarray(np.bincount(numbers.ravel(), self.weights), dtype=np.float64))


class Evaluation(NamedTuple):
    """The likelihood at one parameter vector."""

    nll: float
    gradient: FloatArray  # like the parameter vector
    loo_residual: FloatArray | None  # (n,) y_i minus its prediction from all other points
    loo_variance: FloatArray | None  # (n,) variance of that prediction, noise included
    jitter: float


class Likelihood(Protocol):
    """An engine on data: the negative log marginal likelihood with its gradient."""

    process: Process
    data: Data
    n_factorisations: int

    def __call__(self, theta: FloatArray) -> Evaluation:
        """Evaluate value, gradient and, where provided, leave-one-out results at theta."""

    def posterior(self, theta: FloatArray) -> Conditioned:
        """Condition on the data at theta."""


@runtime_checkable
class Inference(Protocol):
    """An engine: a setting of `PCEGPRegressor(inference=...)`."""

    @property
    def name(self) -> str:
        """The name that users pass and that a model file holds."""

    @property
    def provides(self) -> frozenset[str]:
        """Abilities beyond the likelihood, such as `LEAVE_ONE_OUT`."""

    def bytes_needed(self, n: int, d: int) -> int:
        """Tell the memory that a fit of n rows and d inputs takes at its peak, beside the basis."""

    def bytes_held(self, n: int, d: int) -> int:
        """Tell the memory that a posterior of n rows and d inputs holds."""

    def bind(self, process: Process, data: Data, threads: Threads = ONE_THREAD,
             n_jobs: int | None = None) -> Likelihood:
        """Put the engine on data; its posteriors may use `n_jobs` threads."""

    def to_dict(self) -> dict[str, Any]:
        """Describe the engine for a model file, as arguments of its class."""


class Posterior(ABC):
    """A process conditioned on its data: predictions of means and variances."""

    @property
    @abstractmethod
    def base(self) -> Conditioned:
        """The process at the trained parameters; of several, that of the largest weight."""

    @property
    @abstractmethod
    def targets(self) -> FloatArray:
        """The standardised targets (n,) of the data."""

    @property
    @abstractmethod
    def log_likelihood(self) -> float:
        """The log marginal likelihood of these targets, at the parameters of the base."""

    @abstractmethod
    def mean(self, X: FloatArray) -> FloatArray:
        """Predict the mean (m,) at X (m, d)."""

    @abstractmethod
    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Predict mean and variance, (m,) each, at X (m, d)."""

    @abstractmethod
    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Predict mean (m,) and covariance (m, m) at X (m, d)."""

    @abstractmethod
    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Predict mean and variance (with noise) of each y_i from all others, (n,) each."""

    @abstractmethod
    def noise_variance(self, X: FloatArray) -> FloatArray:
        """Compute the noise variance (m,) at X (m, d), as predictions with noise hold it."""

    def sample(
        self, X: FloatArray, count: int, rng: np.random.Generator, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions (m, count) at X (m, d)."""
        mean, covariance = self.mean_and_covariance(X, include_noise)
        # By eigenvalues: where data pin the process down, there is no Cholesky factor.
        drawn = rng.multivariate_normal(mean, covariance, count, "ignore", method="eigh")
        return np.asarray(drawn.T)


@dataclass(frozen=True)
class Conditioned(Posterior):
    """A process at trained parameters with the data it saw: what posteriors of engines share."""

    engine: Inference
    process: Process
    theta: FloatArray
    parameters: Parameters  # named views into theta
    data: Data
    scale_offset: FloatArray  # (K, F, 1), see Transform.offset
    noise_offset: FloatArray  # (1,)
    noise: FloatArray  # (n,) noise variance at the training points
    nll: float
    jitter: float
    n_jobs: int | None

    @property
    def base(self) -> Conditioned:
        return self

    @property
    def targets(self) -> FloatArray:
        return self.data.y

    @property
    def log_likelihood(self) -> float:
        return -self.nll

    @property
    def likelihood_weights(self) -> FloatArray:
        """Weights (n,) of the rows in the likelihood; 0 where a row is only given."""
        return self.data.weights

    @cached_property
    def prior_variance(self) -> float:
        """Variance of the process before data, without noise."""
        return float(np.exp(self.parameters.log_variances).sum())

    def condition_number(self) -> float | None:
        """Estimate the condition number of the covariance of the data; None without one."""
        return None

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True  # noqa: ARG002
    ) -> tuple[FloatArray, FloatArray]:
        """Refuse; an engine that provides `COVARIANCE` overrides this."""
        raise self._refusal(COVARIANCE)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Refuse; an engine that provides `LEAVE_ONE_OUT` overrides this."""
        raise self._refusal(LEAVE_ONE_OUT)

    def _refusal(self, ability: str) -> SettingError:
        return SettingError(
            f"inference={self.engine.name!r} does not provide {ability}: choose another engine"
        )

    def warped(self, X: FloatArray) -> FloatArray:
        """Warp points X (m, d): (K, d, m)."""
        design = self.process.design(X, with_noise=False)
        return self.process.warp(self.parameters, design, self.scale_offset).Z

    def local_scale(self, X: FloatArray) -> FloatArray:
        """Compute the local scale (K, F, m) at X (m, d), by covariance function and field."""
        design = self.process.design(X, with_noise=False)
        return self.process.warp(self.parameters, design, self.scale_offset).scale

    def prior_correlation(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Correlate the process before data at each row of A (m, d) with it at that of B: (m,)."""
        D = ((self.warped(A) - self.warped(B)) ** 2).sum(axis=1)
        shapes = np.exp(self.parameters.log_shapes).tolist()
        functions = zip(self.process.covariances, D, shapes, strict=True)
        values = np.array([function.evaluate(row, shape)[0] for function, row, shape in functions])
        return np.asarray(np.exp(self.parameters.log_variances) @ values / self.prior_variance)

    def noise_variance(self, X: FloatArray) -> FloatArray:
        Phi_noise = self.process.noise_design(X)
        return self.process.noise(self.parameters, Phi_noise, self.noise_offset).variance


#: Engines by name, filled in by `pcegp.inference`.
ENGINES: dict[str, Callable[..., Inference]] = {}


def from_dict(state: Mapping[str, Any] | None) -> Inference:
    """Make the engine that `to_dict` described; without a description the exact one."""
    described = dict(state or {"name": "exact"})
    name = described.pop("name")
    if name not in ENGINES:
        raise unknown_name("inference", name, ENGINES)
    return ENGINES[name](**described)
