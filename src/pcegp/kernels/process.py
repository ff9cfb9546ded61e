"""The Gaussian process before data: from parameters and points to scale, warp, noise and K.

n points, d inputs, K covariance functions, F fields each (1, or d if per input),
m terms of the scale basis, r terms of the noise basis.

    X          (n, d)     scaled inputs, spread by the monotone map of the process
    Phi        (n, m)     scale basis at X clipped to the training box
    u          (K, F, n)  fields, alpha @ Phi'
    l          (K, F, n)  local scale T(u); a large l means fast variation
    Z          (K, d, n)  warped points l * x, times a weight per input if "weighted"
    C          (n, n)     sum_k s_k f_k(|Z_k,i - Z_k,j|^2) + diag(noise)

l multiplies x, so it is an inverse length; the paper calls it the lengthscale.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import BoolArray, FloatArray
from pcegp.errors import SettingError
from pcegp.kernels.functions import CovarianceFunction
from pcegp.kernels.transforms import Exponential, Transform
from pcegp.numerics.pairwise import Components
from pcegp.polynomials import Basis
from pcegp.preprocessing import LINEAR, MonotoneMap

SCALES = ("shared", "weighted", "per_input")
# Logarithms of variances, shapes and weights live in this box.
LOG_BOUND = 20.0
# Where training begins, in units of the target's variance.
INITIAL_VARIANCE, INITIAL_NOISE = 0.3, 0.1
#: Noise of data that are known to have none, which a factorisation needs.
LEAST_NOISE = 1e-9
# Warped points beyond this are equally far from everything; what covariance functions
# make of their squares stays finite.
_FARTHEST_WARPED = 1e15


class Parameters(NamedTuple):
    """Views into one flat vector; `Process.parameters` makes them.

    S vectors `side_by_side` have S K covariance functions.
    """

    log_variances: FloatArray  # (K,)
    log_shapes: FloatArray  # (K,), only used where a covariance function has a shape
    coefficients: FloatArray  # (K, F, m)
    log_weights: FloatArray  # (K, d) if "weighted", else (K, 0)
    noise: FloatArray  # (r,)


class Design(NamedTuple):
    """Points as the process sees them."""

    X: FloatArray  # (n, d) after the monotone map
    Phi: FloatArray  # (n, m)
    Phi_noise: FloatArray  # (n, r)


class Warp(NamedTuple):
    """Warped points, with what is computed on the way to them."""

    u: FloatArray  # (K, F, n)
    scale: FloatArray  # (K, F, n)
    Z: FloatArray  # (K, d, n)


class Noise(NamedTuple):
    """Noise variance, with what is computed on the way to it."""

    u: FloatArray  # (n,) field
    value: FloatArray  # (n,) T(u)
    variance: FloatArray  # (n,) never below the floor


class Terms(NamedTuple):
    """Everything that a covariance is made of, at some parameters and training points."""

    parameters: Parameters
    warp: Warp
    noise: Noise
    components: Components


@dataclass(frozen=True)
class Process:
    """A PCEGP without its parameters and its data."""

    covariances: tuple[CovarianceFunction, ...]
    scale: str
    transform: Transform
    basis: Basis
    noise_basis: Basis
    noise_transform: Transform
    noise_floor: float
    input_map: MonotoneMap = LINEAR

    @property
    def n_inputs(self) -> int:
        """The number of inputs, d."""
        return int(self.basis.indices.shape[1])

    @cached_property
    def _layout(self) -> list[tuple[slice, tuple[int, ...]]]:
        """Position of each of the `Parameters` in the flat vector, and its shape."""
        K, d = len(self.covariances), self.n_inputs
        fields = d if self.scale == "per_input" else 1
        weights = d if self.scale == "weighted" else 0
        shapes = ((K,), (K,), (K, fields, self.basis.n_terms), (K, weights),
                  (self.noise_basis.n_terms,))
        ends = np.cumsum([0, *map(math.prod, shapes)])
        return [(slice(*ends[k : k + 2]), shape) for k, shape in enumerate(shapes)]

    @property
    def n_parameters(self) -> int:
        """The length of the flat parameter vector."""
        return int(self._layout[-1][0].stop)

    def parameters(self, theta: NDArray[Any]) -> Parameters:
        """Name views into a flat vector, such as theta."""
        return Parameters(*(theta[part].reshape(shape) for part, shape in self._layout))

    def side_by_side(self, thetas: Sequence[FloatArray]) -> Parameters:
        """Join S vectors: the covariance functions of the first, of the second and so on."""
        several = map(self.parameters, thetas)
        return Parameters(*map(np.concatenate, zip(*several, strict=True)))

    def initial(self, scales: FloatArray) -> FloatArray:
        """Make parameters with constant noise and scales: (K,), or one for each field (K, F)."""
        theta = np.zeros(self.n_parameters)
        parts = self.parameters(theta)
        parts.log_variances[...] = np.log(INITIAL_VARIANCE)
        parts.log_shapes[...] = np.log([c.initial_shape or 1.0 for c in self.covariances])
        by_field = np.broadcast_to(scales.T, parts.coefficients.shape[1::-1]).T
        try:
            constants = {value: self.transform.inverse(value) for value in set(scales.flat)}
        except SettingError as error:
            raise SettingError(f"initial_scale: {error}") from None
        at = int(np.argmax(self.basis.is_constant))
        parts.coefficients[:, :, at] = np.vectorize(constants.__getitem__)(by_field)
        self.set_constant_noise(theta, INITIAL_NOISE)
        return theta

    def set_constant_noise(self, theta: FloatArray, variance: float) -> None:
        """Write the constant of the noise that gives a variance into parameters."""
        at = int(np.argmax(self.noise_basis.is_constant))
        self.parameters(theta).noise[at] = self.noise_transform.inverse(variance)

    def with_variance_times(self, theta: FloatArray, factor: float) -> FloatArray:
        """Multiply all variances by a factor, so that means stay as they are.

        Nothing changes where the noise is no exponential of its expansion.
        """
        if not isinstance(self.noise_transform, Exponential):
            return theta
        scaled = theta.copy()
        parts = self.parameters(scaled)
        parts.log_variances[...] += np.log(factor)
        parts.noise[int(np.argmax(self.noise_basis.is_constant))] += np.log(factor)
        return np.asarray(np.clip(scaled, *self.bounds()))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Make the lower and upper ends of the box of all parameters, (n_parameters,) each."""
        upper = np.full(self.n_parameters, np.inf)
        parts = self.parameters(upper)
        for logs in (parts.log_variances, parts.log_shapes, parts.log_weights):
            logs[...] = LOG_BOUND
        return -upper, upper

    def penalty_weights(self) -> FloatArray:
        """Weigh each parameter (n_parameters,) in a penalty on what varies.

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
        """Weigh each parameter (n_parameters,) in a prior on what does not vary.

        Scales and variances of different data lie within a factor of ten or so of their
        start, noise variances within several powers of ten: their logarithm may vary
        three times as much, so its prior weighs a ninth.
        """
        weights = np.where(self.penalty_weights() == 0.0, 1.0, 0.0)
        self.parameters(weights).noise[...] /= 9.0
        return weights

    def is_varying_noise(self) -> BoolArray:
        """Mark (n_parameters,) the non-constant coefficients of the noise."""
        mask = np.zeros(self.n_parameters)
        self.parameters(mask).noise[...] = ~self.noise_basis.is_constant
        return mask.astype(bool)

    def design(self, X: FloatArray, with_noise: bool = True) -> Design:
        """Spread scaled inputs X (n, d); evaluate both bases there, or that of the scale."""
        Phi_noise = self.noise_design(X) if with_noise else np.empty((len(X), 0))
        X = self.input_map.transform(X)
        # Loops run over points: X' is the one to be contiguous.
        return Design(np.asfortranarray(X), self.basis.evaluate_in_box(X), Phi_noise)

    def noise_design(self, X: FloatArray) -> FloatArray:
        """Evaluate the basis of the noise (n, r) at X (n, d)."""
        return self.noise_basis.evaluate_in_box(self.input_map.transform(X))

    def terms(self, theta: FloatArray, design: Design) -> Terms:
        """Compute warp, noise and variances at the training points."""
        parameters = self.parameters(theta)
        return Terms(parameters, self.warp(parameters, design),
                     self.noise(parameters, design.Phi_noise), self.components(parameters))

    def warp(
        self, parameters: Parameters, design: Design, offset: FloatArray | None = None
    ) -> Warp:
        """Compute scale and warped points; new points need the `offset` of the training points."""
        K, fields, terms = parameters.coefficients.shape
        u = parameters.coefficients.reshape(K * fields, terms) @ design.Phi.T
        u = u.reshape(K, fields, len(design.Phi))
        scale = self.transform.value(u, offset)
        Z = scale * design.X.T
        if self.scale == "weighted":
            Z = Z * np.exp(parameters.log_weights)[:, :, None]
        return Warp(u, scale, np.clip(Z, -_FARTHEST_WARPED, _FARTHEST_WARPED))

    def noise(
        self, parameters: Parameters, Phi_noise: FloatArray, offset: FloatArray | None = None
    ) -> Noise:
        """Compute the noise variance, never below the floor whatever the transform gives."""
        u = Phi_noise @ parameters.noise
        value = self.noise_transform.value(u, offset)
        return Noise(u, value, self.noise_floor + np.maximum(value, 0.0))

    def components(self, parameters: Parameters) -> Components:
        """Gather the covariance functions with their shapes and variances."""
        repeats = len(parameters.log_variances) // len(self.covariances)
        covariances = self.covariances * repeats
        has_shape = np.array([c.initial_shape is not None for c in covariances])
        shapes = np.where(has_shape, np.exp(parameters.log_shapes), 0.0)
        addresses = np.array([c.kernel.address for c in covariances], dtype=np.uint64)
        return Components(addresses, shapes, np.exp(parameters.log_variances))

    def pull_back(
        self, terms: Terms, design: Design, dZ: FloatArray, dvariances: FloatArray,
        dshapes: FloatArray, dnoise: FloatArray,
    ) -> FloatArray:
        """Compute the gradient (n_parameters,) from those in the terms of the covariance.

        Parameters
        ----------
        dZ : (K, d, n), in the warped points
        dvariances, dshapes : (K,) each, in variances and shapes
        dnoise : (n,), in the noise variance
        """
        gradient = np.empty(self.n_parameters)
        out, parameters, warp = self.parameters(gradient), terms.parameters, terms.warp
        out.log_variances[...] = dvariances * terms.components.variances
        out.log_shapes[...] = dshapes * terms.components.shapes
        dscale = dZ * design.X.T
        if self.scale == "weighted":
            dscale *= np.exp(parameters.log_weights)[:, :, None]
            out.log_weights[...] = (dscale * warp.scale).sum(axis=2)
        if self.scale != "per_input":
            dscale = dscale.sum(axis=1, keepdims=True)
        out.coefficients[...] = self.transform.pull_back(warp.u, warp.scale, dscale) @ design.Phi
        # Where the floor holds the noise, it has no slope.
        dnoise = np.where(terms.noise.variance <= self.noise_floor, 0.0, dnoise)
        by_field = self.noise_transform.pull_back(terms.noise.u, terms.noise.value, dnoise)
        out.noise[...] = by_field @ design.Phi_noise
        return gradient
