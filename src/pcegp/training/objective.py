"""The objective of training: negative log likelihood plus priors.

    loss = nll + lambda (l1_ratio |alpha|_1 + (1 - l1_ratio) |alpha|^2) + prior/2 |phi - phi_0|^2

The elastic net acts on the non-constant coefficients alpha (paper, section 2.1 and appendix
F), with lambda = strength times the root of their number (`Process.penalty_weights`). The
normal prior acts on all other parameters phi (constants, logarithms of variances and noise),
centred at their start. Both stand beside the likelihood of all data, so they matter less the
more data there are.

A prior is a setting; bound to a process and a centre it is a `Term` of the objective. To add
one, write both and a line in `PRIORS` (docs/architecture.md).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from pcegp._typing import BoolArray, FloatArray
from pcegp.errors import NotPositiveDefiniteError, SettingError
from pcegp.inference import Evaluation, Likelihood
from pcegp.kernels import Process


class Term(ABC):
    """A prior on the parameters of one process: minus the logarithm of its density.

    A smooth one has a value, a gradient and a precision; one with a kink overrides the rest.
    """

    @property
    def has_kink(self) -> bool:
        """Tell whether it has a kink, which `prox` handles and the gradient leaves out."""
        return False

    @abstractmethod
    def value(self, theta: FloatArray) -> float:
        """Compute what the term adds to the loss."""

    @abstractmethod
    def gradient(self, theta: FloatArray) -> FloatArray:
        """Compute the gradient of the smooth part."""

    def kink_gradient(self, theta: FloatArray) -> FloatArray:
        """Compute the gradient of the rest, zero at the kink."""
        return np.zeros_like(theta)

    def prox(self, theta: FloatArray, step: FloatArray) -> FloatArray:  # noqa: ARG002
        """Take the proximal step of the rest."""
        return theta

    @abstractmethod
    def precision(self) -> FloatArray:
        """Tell the curvature of the term in each parameter: natural units of a step."""


@runtime_checkable
class Prior(Protocol):
    """A prior as a setting of a model."""

    def bind(self, process: Process, centre: FloatArray) -> Term:
        """Put the prior on the parameters of a process, around a centre."""


@dataclass(frozen=True)
class ElasticNet:
    """A penalty on what varies; above 0, `l1_ratio` makes coefficients exactly zero."""

    strength: float = 1.0
    l1_ratio: float = 0.0

    def bind(self, process: Process, centre: FloatArray) -> Term:  # noqa: ARG002
        return _ElasticNetTerm(self.strength * process.penalty_weights(), self.l1_ratio)


@dataclass(frozen=True)
class _ElasticNetTerm(Term):
    weights: FloatArray  # lambda, 0 at parameters that are free
    l1_ratio: float

    @property
    def has_kink(self) -> bool:
        return self.l1_ratio > 0.0

    def value(self, theta: FloatArray) -> float:
        ratio = self.l1_ratio
        return float(self.weights @ (ratio * np.abs(theta) + (1.0 - ratio) * theta**2))

    def gradient(self, theta: FloatArray) -> FloatArray:
        return np.asarray(2.0 * (1.0 - self.l1_ratio) * self.weights * theta)

    def kink_gradient(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self.l1_ratio * self.weights * np.sign(theta))

    def prox(self, theta: FloatArray, step: FloatArray) -> FloatArray:
        threshold = step * self.l1_ratio * self.weights
        return np.asarray(np.sign(theta) * np.maximum(np.abs(theta) - threshold, 0.0))

    def precision(self) -> FloatArray:
        return 2.0 * self.weights


@dataclass(frozen=True)
class Normal:
    """A normal prior on what does not vary, centred at the start."""

    strength: float = 1.0

    def bind(self, process: Process, centre: FloatArray) -> Term:
        return QuadraticTerm(self.strength * process.prior_weights(), centre)


@dataclass(frozen=True)
class QuadraticTerm(Term):
    """Half the weighted square distance from a centre."""

    weights: FloatArray
    centre: FloatArray

    def value(self, theta: FloatArray) -> float:
        return float(0.5 * self.weights @ (theta - self.centre) ** 2)

    def gradient(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self.weights * (theta - self.centre))

    def precision(self) -> FloatArray:
        return self.weights


#: Priors by name.
PRIORS: dict[str, Callable[..., Prior]] = {"normal": Normal, "elastic_net": ElasticNet}


class Value(NamedTuple):
    """The objective at some parameters; the loss is infinite where it cannot be computed."""

    loss: float
    gradient: FloatArray  # of the smooth part
    evaluation: Evaluation | None


@dataclass(frozen=True)
class Objective:
    """A likelihood with priors: the function that optimisers, chains and refits minimise."""

    likelihood: Likelihood
    terms: tuple[Term, ...]

    @classmethod
    def of(
        cls, likelihood: Likelihood, priors: Iterable[Prior], centre: FloatArray
    ) -> Self:
        """Put priors around a centre beside a likelihood."""
        terms = tuple(p.bind(likelihood.process, centre) for p in priors)
        if sum(term.has_kink for term in terms) > 1:
            raise SettingError(
                "two priors have a kink, and no step is made for both: set l1_ratio=0, or penalty=0"
            )
        return cls(likelihood, terms)

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the box of the parameters."""
        return self.likelihood.process.bounds()

    @cached_property
    def has_kink(self) -> bool:
        """Tell whether a term has a kink, so that steps need `prox`."""
        return any(term.has_kink for term in self.terms)

    @property
    def n_rows(self) -> int:
        """The number of rows that the likelihood sees."""
        return len(self.likelihood.data.y)

    def loss(self, nll: float, theta: FloatArray) -> float:
        """Add the priors to a negative log likelihood."""
        # Not `sum`, which rounds otherwise from Python 3.12 on.
        for term in self.terms:
            nll += term.value(theta)
        return nll

    def __call__(self, theta: FloatArray) -> Value:
        """Evaluate loss and gradient at theta; beyond the box only the priors change."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                evaluation = self.likelihood(np.clip(theta, *self.bounds))
                loss, gradient = self.loss(evaluation.nll, theta), evaluation.gradient
                for term in self.terms:
                    gradient = gradient + term.gradient(theta)
        except NotPositiveDefiniteError:
            return Value(np.inf, np.zeros_like(theta), None)
        if not (np.isfinite(loss) and np.isfinite(gradient).all()):
            return Value(np.inf, np.zeros_like(theta), None)
        return Value(loss, gradient, evaluation)

    def full_gradient(self, value: Value, theta: FloatArray) -> FloatArray:
        """Add the gradient of the kinks to that of a value."""
        gradient = value.gradient
        for term in self.terms if self.has_kink else ():
            gradient = gradient + term.kink_gradient(theta)
        return gradient

    def prox(self, theta: FloatArray, step: FloatArray) -> FloatArray:
        """Take the proximal steps of all kinks, so that a zero is exactly zero."""
        for term in self.terms:
            theta = term.prox(theta, step) if term.has_kink else theta
        return theta

    def deviations(self) -> FloatArray:
        """Tell the standard deviation of each parameter before data; 1 without a prior."""
        total = sum((term.precision() for term in self.terms), np.zeros(len(self.bounds[0])))
        return np.asarray(1.0 / np.sqrt(np.where(total > 0.0, total, 1.0)))

    def restricted(
        self, free: BoolArray, at: FloatArray
    ) -> Callable[[FloatArray], tuple[float, FloatArray]]:
        """Make a function of the free parameters alone, the others as in `at`."""
        theta = at.copy()

        def value_and_gradient(values: FloatArray) -> tuple[float, FloatArray]:
            theta[free] = values
            value = self(theta)
            return value.loss, value.gradient[free]

        return value_and_gradient
