"""From parameters to scale, noise and covariance, and the likelihood with its gradient.

n points, d inputs, K covariance functions, F fields each (1, or d if per input),
m terms of the scale basis, r terms of the noise basis.

    X          (n, d)     scaled inputs                 y (n,)  standardised targets
    Phi        (n, m)     scale basis at X clipped to the training box
    u          (K, F, n)  fields, alpha @ Phi'
    l          (K, F, n)  local scale T(u); a large l means fast variation
    Z          (K, d, n)  warped points l * x, times a weight per input if "weighted"
    C          (n, n)     sum_k s_k f_k(|Z_k,i - Z_k,j|^2) + diag(noise)

l multiplies x, so it is an inverse length; the paper calls it the lengthscale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from pcegp.kernels.functions import CovarianceFunction
from pcegp.kernels.transforms import Transform
from pcegp.numerics import cholesky as linalg
from pcegp.numerics import pairwise
from pcegp.numerics.threads import ALONE, Workers
from pcegp.polynomials.expansion import Basis

FloatArray = NDArray[np.float64]

SCALES = ("shared", "weighted", "per_input")
LOG_2PI = float(np.log(2.0 * np.pi))
# Logarithms of variances, shapes and weights live in this box.
LOG_BOUND = 20.0
# Warped points beyond this are equally far from everything; what covariance functions
# make of their squares stays finite.
_FARTHEST_WARPED = 1e15


class Parameters(NamedTuple):
    """Views into one flat vector; `Structure.parameters` makes them.

    S vectors `side_by_side` have S K covariance functions.
    """

    log_variances: FloatArray  # (K,)
    log_shapes: FloatArray  # (K,), only used where a covariance function has a shape
    coefficients: FloatArray  # (K, F, m)
    log_weights: FloatArray  # (K, d) if "weighted", else (K, 0)
    noise: FloatArray  # (r,)


class Design(NamedTuple):
    """Points as the model sees them."""

    X: FloatArray  # (n, d)
    Phi: FloatArray  # (n, m)
    Phi_noise: FloatArray  # (n, r)


class Warp(NamedTuple):
    """What `Structure.warp` computes on its way to the warped points."""

    u: FloatArray  # (K, F, n)
    scale: FloatArray  # (K, F, n)
    Z: FloatArray  # (K, d, n)


class Evaluation(NamedTuple):
    """The likelihood at one parameter vector, with what its inverse gives for free."""

    nll: float
    gradient: FloatArray  # like the parameter vector
    loo_residual: FloatArray  # (n,) y_i minus its prediction from all other points
    loo_variance: FloatArray  # (n,) variance of that prediction, noise included
    jitter: float


@dataclass(frozen=True)
class Structure:
    """Everything about a PCEGP but its parameters and its data."""

    covariances: tuple[CovarianceFunction, ...]
    scale: str
    transform: Transform
    basis: Basis
    noise_basis: Basis
    noise_transform: Transform
    noise_floor: float

    @property
    def n_inputs(self) -> int:
        return int(self.basis.indices.shape[1])

    @cached_property
    def _layout(self) -> list[tuple[slice, tuple[int, ...]]]:
        """Where each of the `Parameters` stands in the flat vector, and its shape."""
        K, d = len(self.covariances), self.n_inputs
        fields = d if self.scale == "per_input" else 1
        weights = d if self.scale == "weighted" else 0
        shapes = ((K,), (K,), (K, fields, self.basis.n_terms), (K, weights),
                  (self.noise_basis.n_terms,))
        ends = np.cumsum([0, *map(math.prod, shapes)])
        return [(slice(*ends[k : k + 2]), shape) for k, shape in enumerate(shapes)]

    @property
    def n_parameters(self) -> int:
        return int(self._layout[-1][0].stop)

    def parameters(self, theta: FloatArray) -> Parameters:
        """Named views into the flat vector theta."""
        return Parameters(*(theta[part].reshape(shape) for part, shape in self._layout))

    def side_by_side(self, thetas: Sequence[FloatArray]) -> Parameters:
        """S vectors as one: the covariance functions of the first, of the second and so on."""
        several = map(self.parameters, thetas)
        return Parameters(*map(np.concatenate, zip(*several, strict=True)))

    def penalty_weights(self) -> FloatArray:
        """(n_parameters,) how much the elastic net weighs each parameter.

        A non-constant coefficient weighs the root of their number in its covariance
        function (or in the noise), so that a richer expansion does not vary much more
        than a simple one. Constants and variances are free.
        """
        weights = np.zeros(self.n_parameters)
        parts = self.parameters(weights)
        varying = ~self.basis.is_constant
        fields = parts.coefficients.shape[1]
        parts.coefficients[...] = varying * np.sqrt(fields * np.count_nonzero(varying))
        varying = ~self.noise_basis.is_constant
        parts.noise[...] = varying * np.sqrt(np.count_nonzero(varying))
        return weights

    def prior_weights(self) -> FloatArray:
        """(n_parameters,) how much the normal prior weighs each parameter.

        Scales and variances of different data lie within a factor of ten or so of their
        start, noise variances within several powers of ten: their logarithm may vary
        three times as much, so its prior weighs a ninth.
        """
        weights = np.where(self.penalty_weights() == 0.0, 1.0, 0.0)
        self.parameters(weights).noise[...] /= 9.0
        return weights

    def is_varying_noise(self) -> NDArray[np.bool_]:
        """(n_parameters,) True at the non-constant coefficients of the noise."""
        mask = np.zeros(self.n_parameters)
        self.parameters(mask).noise[...] = ~self.noise_basis.is_constant
        return mask.astype(bool)

    def bounded(self, theta: FloatArray) -> FloatArray:
        """theta with its logarithms inside their box, in place."""
        parts = self.parameters(theta)
        for logs in (parts.log_variances, parts.log_shapes, parts.log_weights):
            np.clip(logs, -LOG_BOUND, LOG_BOUND, out=logs)
        return theta

    def design(self, X: FloatArray) -> Design:
        """Both bases at X (n, d)."""
        # Loops run over points: X' is the one to be contiguous.
        return Design(np.asfortranarray(X), self.basis.evaluate_in_box(X),
                      self.noise_basis.evaluate_in_box(X))

    def fields(self, parameters: Parameters, Phi: FloatArray) -> FloatArray:
        """u (K, F, n)."""
        K, fields, terms = parameters.coefficients.shape
        u = parameters.coefficients.reshape(K * fields, terms) @ Phi.T
        return u.reshape(K, fields, len(Phi))

    def warp(
        self, parameters: Parameters, design: Design, offset: FloatArray | None = None
    ) -> Warp:
        """Scale and warped points; `offset` is the training points' one for new points."""
        u = self.fields(parameters, design.Phi)
        scale = self.transform.value(u, self.transform.offset(u) if offset is None else offset)
        Z = scale * design.X.T
        if self.scale == "weighted":
            Z = Z * np.exp(parameters.log_weights)[:, :, None]
        return Warp(u, scale, np.clip(Z, -_FARTHEST_WARPED, _FARTHEST_WARPED))

    def noise_offset(self, parameters: Parameters, Phi_noise: FloatArray) -> FloatArray:
        """What the training points add to the noise field; see `Transform.offset`."""
        return self.noise_transform.offset(Phi_noise @ parameters.noise)

    def noise(
        self, parameters: Parameters, Phi_noise: FloatArray, offset: FloatArray | None = None
    ) -> FloatArray:
        """Noise variance (n,), never below the floor whatever the transform gives."""
        u = Phi_noise @ parameters.noise
        offset = self.noise_transform.offset(u) if offset is None else offset
        return self.noise_floor + np.maximum(self.noise_transform.value(u, offset), 0.0)

    def components(self, parameters: Parameters) -> pairwise.Components:
        """The covariance functions with their shapes and variances."""
        repeats = len(parameters.log_variances) // len(self.covariances)
        covariances = self.covariances * repeats
        has_shape = np.array([c.initial_shape is not None for c in covariances])
        shapes = np.where(has_shape, np.exp(parameters.log_shapes), 0.0)
        return pairwise.components(covariances, shapes, np.exp(parameters.log_variances))

    def pull_back_warp(
        self, parameters: Parameters, design: Design, warp: Warp, dZ: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Gradients in the coefficients (K, F, m) and log weights from that in Z."""
        dscale = dZ * design.X.T
        dlog_weights = np.zeros_like(parameters.log_weights)
        if self.scale == "weighted":
            dscale *= np.exp(parameters.log_weights)[:, :, None]
            dlog_weights = (dscale * warp.scale).sum(axis=2)
        if self.scale != "per_input":
            dscale = dscale.sum(axis=1, keepdims=True)
        du = self.transform.pull_back(warp.u, warp.scale, dscale)
        return du @ design.Phi, dlog_weights


def leave_one_out(
    precision: FloatArray, dual: FloatArray, noise: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Residual y_i minus its prediction from all other points, and that one's variance.

    `precision` is the diagonal of C^-1, whose noise is divided by the weights; the
    variance is that of one new measurement, so it is never below its noise.
    """
    variance = 1.0 / precision + noise * (1.0 - 1.0 / weights)
    return dual / precision, np.maximum(variance, noise)


class Likelihood:
    """The negative log marginal likelihood of some data, with its closed-form gradient.

    Parameters
    ----------
    structure : Structure
    X, y : (n, d) scaled inputs and (n,) standardised targets
    weights : (n,) repeats of each row; a weight of 2 equals two rows
    crew : the threads that work on it
    """

    def __init__(self, structure: Structure, X: FloatArray, y: FloatArray,
                 weights: FloatArray | None = None, crew: Workers = ALONE) -> None:
        self.structure = structure
        self.design = structure.design(X)
        self.y = y
        self.weights = np.ones(len(y)) if weights is None else weights
        self.crew = crew
        self.n_factorisations = 0
        self._workspace = np.zeros((len(y), len(y)))
        self.spare = np.zeros((len(y), len(y)))

    def factor(self, theta: FloatArray) -> tuple[Warp, FloatArray, FloatArray, float]:
        """Warp, noise variance (n,), Cholesky factor (in the workspace) and jitter."""
        structure, parameters = self.structure, self.structure.parameters(theta)
        warp = structure.warp(parameters, self.design)
        noise = structure.noise(parameters, self.design.Phi_noise)
        components = structure.components(parameters)

        def fill(C: FloatArray) -> None:
            pairwise.fill(warp.Z, components, noise / self.weights, C, self.crew)

        self.n_factorisations += 1
        factor, jitter = linalg.cholesky(self._workspace, fill, self.spare, self.crew)
        return warp, noise, factor, jitter

    def value(self, noise: FloatArray, log_determinant: float, dual: FloatArray) -> float:
        """Negative log likelihood, with the terms of repeated rows."""
        w, n = self.weights, len(self.y)
        nll = 0.5 * (self.y @ dual + log_determinant + n * LOG_2PI)
        repeats = (w - 1.0) * LOG_2PI + xlogy(w - 1.0, noise) + np.log(w)
        return float(nll + 0.5 * np.sum(repeats))

    def __call__(self, theta: FloatArray) -> Evaluation:
        """Value, gradient and leave-one-out results at theta."""
        structure, parameters = self.structure, self.structure.parameters(theta)
        warp, noise, factor, jitter = self.factor(theta)
        log_determinant = linalg.log_determinant(factor)
        dual, inverse = linalg.solve_and_invert(factor, self.y, self.spare, self.crew)
        nll = self.value(noise, log_determinant, dual)
        components = structure.components(parameters)
        dZ, dvariances, dshapes = pairwise.pull_back(
            warp.Z, components, inverse, dual, self.crew
        )

        gradient = np.empty_like(theta)
        out = structure.parameters(gradient)
        out.log_variances[...] = dvariances * components.variances
        out.log_shapes[...] = dshapes * components.shapes
        out.coefficients[...], out.log_weights[...] = structure.pull_back_warp(
            parameters, self.design, warp, dZ
        )
        precision = inverse.diagonal().copy()
        out.noise[...] = self._noise_gradient(parameters, noise, precision - dual**2)
        residual, variance = leave_one_out(precision, dual, noise, self.weights)
        return Evaluation(nll, gradient, residual, variance, jitter)

    def _noise_gradient(
        self, parameters: Parameters, noise: FloatArray, pair: FloatArray
    ) -> FloatArray:
        """Gradient (r,) in the noise coefficients; `pair` is the diagonal of C^-1 - a a'."""
        structure, Phi = self.structure, self.design.Phi_noise
        held = noise <= structure.noise_floor  # by the floor: no slope
        by_repeats = (self.weights - 1.0) / np.where(held, 1.0, noise)
        by_noise = np.where(held, 0.0, 0.5 * (pair / self.weights + by_repeats))
        transform, u = structure.noise_transform, Phi @ parameters.noise
        return transform.pull_back(u, transform.value(u, transform.offset(u)), by_noise) @ Phi
