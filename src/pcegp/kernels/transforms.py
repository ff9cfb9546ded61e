"""Transforms from a field u (an expansion's values) to a scale or a noise variance.

Each gives its value, the pull-back of a gradient through it, and its inverse, which
turns a start value in user terms into a start coefficient (paper, appendix C).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pcegp.errors import SettingError, unknown_name

FloatArray = NDArray[np.float64]

# exp(u) stays finite and a variance stays far from overflow.
_LARGEST_EXPONENT = 50.0


class Transform(Protocol):
    """A map of field values, applied along the last axis (the points)."""

    name: str

    def offset(self, u: FloatArray) -> FloatArray:
        """What training points add to every field: (..., 1); zero but for `shift`."""

    def value(self, u: FloatArray, offset: FloatArray) -> FloatArray:
        """T(u), with the offset found at the training points."""

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        """Gradient in u from T(u) and the gradient in it, at the training points."""

    def inverse(self, value: float) -> float:
        """The constant u with T(u) = value."""


class _Pointwise:
    """Shared by the transforms that look at one point at a time."""

    def offset(self, u: FloatArray) -> FloatArray:
        return np.zeros((*u.shape[:-1], 1))


class Identity(_Pointwise):
    """T(u) = u: the paper's benchmark setup; a covariance allows any sign of the scale."""

    name = "identity"

    def value(self, u: FloatArray, offset: FloatArray) -> FloatArray:
        return u

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return gradient

    def inverse(self, value: float) -> float:
        return value


class Shift:
    """T(u) = u + 0.01 - min u where min u < 0, the minimum over the training points."""

    name = "shift"
    lowest = 0.01

    def offset(self, u: FloatArray) -> FloatArray:
        smallest = u.min(axis=-1, keepdims=True)
        return np.where(smallest < 0.0, self.lowest - smallest, 0.0)

    def value(self, u: FloatArray, offset: FloatArray) -> FloatArray:
        return u + offset

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        # The smallest point moves every other one down with it.
        at = u.argmin(axis=-1)[..., None]
        smallest = np.take_along_axis(u, at, axis=-1)
        total = np.where(smallest < 0.0, gradient.sum(axis=-1, keepdims=True), 0.0)
        out = gradient.copy()
        np.put_along_axis(out, at, np.take_along_axis(out, at, axis=-1) - total, axis=-1)
        return out

    def inverse(self, value: float) -> float:
        if value < 0.0:
            raise SettingError(f"a start value of {value:g} is not positive, as 'shift' needs")
        return value


class Softplus(_Pointwise):
    """T(u) = log(1 + e^u)."""

    name = "softplus"

    def value(self, u: FloatArray, offset: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, u)

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return np.asarray(gradient * expit(u))

    def inverse(self, value: float) -> float:
        if value <= 0.0:
            raise SettingError(f"a start value of {value:g} is not positive, as 'softplus' needs")
        return float(value + np.log(-np.expm1(-value)))


class Sigmoid(_Pointwise):
    """T(u) = 1 / (1 + e^-u), between 0 and 1."""

    name = "sigmoid"

    def value(self, u: FloatArray, offset: FloatArray) -> FloatArray:
        return np.asarray(expit(u))

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return np.asarray(gradient * value * expit(-u))

    def inverse(self, value: float) -> float:
        if not 0.0 < value < 1.0:
            raise SettingError(f"a start value of {value:g} is outside (0, 1), as 'sigmoid' needs")
        return float(np.log(value) - np.log1p(-value))


class Exponential(_Pointwise):
    """T(u) = e^u."""

    name = "exponential"

    def value(self, u: FloatArray, offset: FloatArray) -> FloatArray:
        return np.exp(np.clip(u, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return np.asarray(np.where(np.abs(u) <= _LARGEST_EXPONENT, gradient * value, 0.0))

    def inverse(self, value: float) -> float:
        if value <= 0.0:
            raise SettingError(
                f"a start value of {value:g} is not positive, as 'exponential' needs"
            )
        return float(np.log(value))


TRANSFORMS: dict[str, Transform] = {
    transform.name: transform
    for transform in (Identity(), Shift(), Softplus(), Sigmoid(), Exponential())
}


def get(name: str, parameter: str = "transform") -> Transform:
    """The transform of that name."""
    if not isinstance(name, str) or name not in TRANSFORMS:
        raise unknown_name(parameter, name, TRANSFORMS)
    return TRANSFORMS[name]
