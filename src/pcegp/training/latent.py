"""Parameters as standard normal variables: the prior of `optimizer="lbfgs"`, and its objective.

    theta = centre + root w,    w ~ N(0, I),    loss(w) = nll(theta) + |w|^2 / 2

P parameters theta, Q latent variables w. A column of the root (P, Q) is a direction that the
prior allows, as long as its standard deviation. This says at once how strong the prior is, what
is held fixed, and what is tied: with a scale "per_input" one expansion for each input is common
to all covariance functions,

    log l_ki(x) = c_i + delta_ki + sum_t alpha_it Phi_t(x),

and c_i, delta_ki and alpha_it are latent variables. So theta keeps the layout of the process,
and nothing else has to know of the tie.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsmr

from pcegp._typing import FloatArray, IntArray
from pcegp.errors import NotPositiveDefiniteError, SettingError
from pcegp.inference import Evaluation, Likelihood
from pcegp.kernels import Process
from pcegp.training.objective import Prior, Term

# Precisions of the prior, for `prior=1`. Variances and noise may well be a hundred times larger or
# smaller than their start: data without noise want large variances. Scales differ less from input
# to input, and least from one covariance function to the other (a factor of 1.6 for one standard
# deviation); wider priors let small data choose a few inputs by chance.
_COMMON, _OWN = 1.0, 4.0
_VARIANCE, _SHAPE, _WEIGHT, _NOISE = 1.0 / 9.0, 1.0, 1.0, 1.0 / 9.0
_EXACT = 1e-14  # relative error of a linear system that has a solution


class Strengths(NamedTuple):
    """Strengths with which the prior holds what varies; infinity holds it fixed."""

    penalty: float = inf  # on the expansions of the scale
    noise_penalty: float = inf  # on that of the noise
    noise_is_known: bool = False  # whether the constant of the noise stays as it is, too
    varying: tuple[int, ...] | None = None  # inputs of the expansions; None is all


class Metric(NamedTuple):
    """Known eigenvectors of a Hessian H, which is taken as I elsewhere.

    A minimisation in v, with w = start + H^(-1/2) v, has no stiff directions among them.
    """

    vectors: FloatArray  # (Q, s), orthonormal
    eigenvalues: FloatArray  # (s,)

    def for_rows(self, factor: float) -> Self:
        """Foresee the Hessian of so many times as many rows: the prior's share, I, stays."""
        return self._replace(eigenvalues=1.0 + factor * np.maximum(self.eigenvalues - 1.0, 0.0))

    def whiten(self, v: FloatArray) -> FloatArray:
        """Multiply a vector (Q,) by H^(-1/2)."""
        return np.asarray(v + self.vectors @ (
            (1.0 / np.sqrt(self.eigenvalues) - 1.0) * (self.vectors.T @ v)))


class Block(NamedTuple):
    """Columns of a root that belong together."""

    columns: slice
    deviation: float  # of the prior


class _Directions:
    """Collects the columns of a root."""

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self._rows: list[IntArray] = []
        self._columns: list[IntArray] = []
        self._deviations: list[FloatArray] = []
        self._count = 0

    def add(
        self, name: str, targets: NDArray[Any], precision: float,
        common_axis: int | None = None,
    ) -> None:
        """Let parameters vary: each by itself, or those along an axis together."""
        if not isfinite(precision) or targets.size == 0:
            return
        shape = list(targets.shape)
        if common_axis is not None:
            shape[common_axis] = 1
        count, deviation = int(np.prod(shape)), 1.0 / sqrt(precision)
        columns = self._count + np.arange(count).reshape(shape)
        self._rows.append(targets.ravel())
        self._columns.append(np.broadcast_to(columns, targets.shape).ravel())
        self._deviations.append(np.full(targets.size, deviation))
        self.blocks[name] = Block(slice(self._count, self._count + count), deviation)
        self._count += count

    def root(self, n_parameters: int) -> csr_array:
        """Make the sparse matrix (P, Q)."""
        entries = np.concatenate(self._deviations)
        places = np.concatenate(self._rows), np.concatenate(self._columns)
        return csr_array((entries, places), shape=(n_parameters, self._count))


def root_of(
    process: Process, strengths: Strengths, prior: float
) -> tuple[csr_array, dict[str, Block]]:
    """Make the root of the prior of a process, and say what its columns are.

    Parameters
    ----------
    prior : factor of the precision of all that does not vary
    """
    at = process.parameters(np.arange(process.n_parameters))  # positions, by their names
    directions = _Directions()
    add, first = directions.add, int(np.argmax(process.basis.is_constant))
    add("variances", at.log_variances, _VARIANCE * prior)
    has_shape = [each.initial_shape is not None for each in process.covariances]
    add("shapes", at.log_shapes[has_shape], _SHAPE * prior)
    add("weights", at.log_weights, _WEIGHT * prior)
    # Tied fields have their covariance functions, the first axis, in common.
    is_tied = len(process.covariances) > 1 and process.scale == "per_input"
    constants, tied = at.coefficients[:, :, first], 0 if is_tied else None
    add("scales", constants, _COMMON * prior, tied)
    if is_tied:
        add("own scales", constants, _OWN * prior)
    varying = _varying(process, at.coefficients, strengths.varying)
    # By the root of their number a richer expansion does not vary much more than a simple one.
    add("expansions", varying, 2.0 * strengths.penalty * sqrt(varying[0].size), tied)
    is_constant = process.noise_basis.is_constant
    if not strengths.noise_is_known:
        add("noise", at.noise[[int(np.argmax(is_constant))]], _NOISE * prior)
    noise = at.noise[~is_constant]
    add("noise expansion", noise, 2.0 * strengths.noise_penalty * sqrt(noise.size))
    return directions.root(process.n_parameters), directions.blocks


def _varying(
    process: Process, coefficients: NDArray[Any], inputs: tuple[int, ...] | None
) -> NDArray[Any]:
    """Select the coefficients of what may vary, of the fields and by terms of some inputs."""
    terms = ~process.basis.is_constant
    if inputs is None:
        return coefficients[:, :, terms]
    others = np.ones(process.n_inputs, dtype=bool)
    others[list(inputs)] = False
    uses_others = process.basis.indices[:, others].any(axis=1)
    terms = terms & ~np.tile(uses_others, len(process.basis.families))
    fields = np.flatnonzero(~others) if process.scale == "per_input" else slice(None)
    return coefficients[:, fields][:, :, terms]


class LatentValue(NamedTuple):
    """The objective at some latent variables; the loss is infinite where it has no value."""

    loss: float
    gradient: FloatArray  # (Q,)
    evaluation: Evaluation | None


@dataclass(frozen=True)
class LatentObjective:
    """Negative log likelihood plus minus the log prior of the latent variables."""

    likelihood: Likelihood
    centre: FloatArray  # (P,)
    root: csr_array  # (P, Q)
    blocks: Mapping[str, Block] = field(default_factory=dict)  # columns of the root, by name
    terms: tuple[Term, ...] = ()  # priors of the user's own, in theta

    @classmethod
    def of(
        cls, likelihood: Likelihood, centre: FloatArray, strengths: Strengths, prior: float,
        others: Sequence[Prior] = (),
    ) -> Self:
        """Put the prior beside a likelihood."""
        process = likelihood.process
        terms = tuple(other.bind(process, centre) for other in others)
        if any(term.has_kink for term in terms):
            raise SettingError(
                'a prior with a kink needs optimizer="nadam": set it, or take another prior'
            )
        return cls(likelihood, centre, *root_of(process, strengths, prior), terms)

    @property
    def size(self) -> int:
        """The number of latent variables, Q."""
        return int(self.root.shape[1])

    @cached_property
    def _transposed(self) -> csr_array:
        return csr_array(self.root.T)

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the box of the parameters, (P,) each."""
        return self.likelihood.process.bounds()

    def theta(self, w: FloatArray) -> FloatArray:
        """Compute the parameters (P,) of latent variables (Q,)."""
        return np.asarray(np.clip(self.centre + self.root @ w, *self.bounds))

    def latent(self, theta: FloatArray) -> FloatArray:
        """Find the latent variables (Q,) of parameters theta (P,): the likeliest, if several."""
        # Started at zero, it finds the solution of the least norm.
        with np.errstate(all="ignore"):  # far beyond all sense, it finds none
            found = lsmr(self.root, theta - self.centre, atol=_EXACT, btol=_EXACT, conlim=0.0)
        return np.asarray(found[0])

    def carried(self, metric: Metric, blocks: Mapping[str, Block]) -> Metric:
        """Express what is known of a Hessian, in other latent variables, in these.

        The likelihood's share of it belongs to theta: a latent variable whose prior has a smaller
        deviation moves theta less.

        Parameters
        ----------
        blocks : those of the objective that the metric is of
        """
        vectors = np.zeros((self.size, len(metric.eigenvalues)))
        for name, block in self.blocks.items():
            other = blocks.get(name)
            if other is not None:
                part = metric.vectors[other.columns]
                if len(part) == block.columns.stop - block.columns.start:
                    vectors[block.columns] = block.deviation / other.deviation * part
        basis, mixed = np.linalg.qr(vectors)
        shares, inside = np.linalg.eigh((mixed * (metric.eigenvalues - 1.0)) @ mixed.T)
        return Metric(basis @ inside, 1.0 + np.maximum(shares, 0.0))

    def __call__(self, w: FloatArray) -> LatentValue:
        """Evaluate loss and gradient at w (Q,); beyond the box only the prior changes."""
        theta = self.theta(w)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                evaluation = self.likelihood(theta)
                loss, by_theta = evaluation.nll, evaluation.gradient
                for term in self.terms:
                    loss, by_theta = loss + term.value(theta), by_theta + term.gradient(theta)
        except NotPositiveDefiniteError:
            return LatentValue(inf, np.zeros_like(w), None)
        if not (isfinite(loss) and np.isfinite(by_theta).all()):
            return LatentValue(inf, np.zeros_like(w), None)
        lower, upper = self.bounds
        by_theta = np.where((lower < theta) & (theta < upper), by_theta, 0.0)
        return LatentValue(loss + 0.5 * float(w @ w), self._transposed @ by_theta + w, evaluation)

