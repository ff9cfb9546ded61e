"""Transforms from a field u (an expansion's values) to a scale or a noise variance.

Each has, side by side, its value, the pull-back of a gradient through it, its inverse, which
turns a start value in user terms into a start coefficient (paper, appendix C), and its
formula as text. To add one, write such a class and `register` it.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from pcegp._registry import Registry
from pcegp._typing import FloatArray
from pcegp.errors import SettingError

# exp(u) stays finite and a variance stays far from overflow.
_LARGEST_EXPONENT = 50.0


class Transform(ABC):
    """A map of field values, applied along the last axis (the points)."""

    name: ClassVar[str]
    #: Whether T(u) is u plus a constant, so that moments of u are those of T(u).
    is_linear: ClassVar[bool] = False
    #: The open interval of values that a constant field can reach.
    reach: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    #: T(u) as a Python expression of the text of u, in names that SymPy knows.
    text: ClassVar[str]

    def offset(self, u: FloatArray) -> FloatArray:
        """Compute what training points add to every field: (..., 1); zero but for `Shift`."""
        return np.zeros((*u.shape[:-1], 1))

    @abstractmethod
    def value(self, u: FloatArray, offset: FloatArray | None = None) -> FloatArray:
        """Compute T(u), with the offset of the training points; None if u is at these."""

    @abstractmethod
    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        """Compute the gradient in u from T(u) and the gradient in it, at the training points."""

    @abstractmethod
    def inverse(self, value: float) -> float:
        """Compute the constant u with T(u) = value."""

    def sympy(self, u: Any) -> Any:
        """Write T(u) as a SymPy expression; `Shift` has its offset in u already."""
        import sympy

        return sympy.sympify(self.text.format("u"), locals={"u": u})

    def reachable(self, values: FloatArray) -> FloatArray:
        """Move values beyond the upper end of the reach to where there is still a slope."""
        return np.clip(values, None, 0.98 * self.reach[1]) if self.reach[1] < np.inf else values

    def _check_reach(self, value: float) -> None:
        low, high = self.reach
        if not low < value < high:
            what = "not positive" if high == np.inf else f"outside ({low:g}, {high:g})"
            raise SettingError(f"a start value of {value:g} is {what}, as {self.name!r} needs")


class Identity(Transform):
    """T(u) = u: the paper's benchmark setup; a covariance allows any sign of the scale."""

    name = "identity"
    is_linear = True
    text = "{}"

    def value(self, u: FloatArray, offset: FloatArray | None = None) -> FloatArray:
        return u

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return gradient

    def inverse(self, value: float) -> float:
        return value


class Shift(Transform):
    """T(u) = u + 0.01 - min u where min u < 0, the minimum over the training points."""

    name = "shift"
    is_linear = True
    text = "{}"
    lowest = 0.01

    def offset(self, u: FloatArray) -> FloatArray:
        smallest = u.min(axis=-1, keepdims=True)
        return np.where(smallest < 0.0, self.lowest - smallest, 0.0)

    def value(self, u: FloatArray, offset: FloatArray | None = None) -> FloatArray:
        return u + (self.offset(u) if offset is None else offset)

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


class Softplus(Transform):
    """T(u) = log(1 + e^u)."""

    name = "softplus"
    reach = (0.0, np.inf)
    text = "log(1 + exp({}))"

    def value(self, u: FloatArray, offset: FloatArray | None = None) -> FloatArray:
        return np.logaddexp(0.0, u)

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return np.asarray(gradient * expit(u))

    def inverse(self, value: float) -> float:
        self._check_reach(value)
        return float(value + np.log(-np.expm1(-value)))


class Sigmoid(Transform):
    """T(u) = 1 / (1 + e^-u), between 0 and 1."""

    name = "sigmoid"
    reach = (0.0, 1.0)
    text = "1/(1 + exp(-({})))"

    def value(self, u: FloatArray, offset: FloatArray | None = None) -> FloatArray:
        return np.asarray(expit(u))

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return np.asarray(gradient * value * expit(-u))

    def inverse(self, value: float) -> float:
        self._check_reach(value)
        return float(np.log(value) - np.log1p(-value))


class Exponential(Transform):
    """T(u) = e^u."""

    name = "exponential"
    reach = (0.0, np.inf)
    text = "exp({})"

    def value(self, u: FloatArray, offset: FloatArray | None = None) -> FloatArray:
        return np.exp(np.clip(u, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))

    def pull_back(self, u: FloatArray, value: FloatArray, gradient: FloatArray) -> FloatArray:
        return np.asarray(np.where(np.abs(u) <= _LARGEST_EXPONENT, gradient * value, 0.0))

    def inverse(self, value: float) -> float:
        self._check_reach(value)
        return float(np.log(value))


#: Transforms by name.
TRANSFORMS: Registry[Transform] = Registry("transform")
register = TRANSFORMS.register

for _transform in (Identity(), Shift(), Softplus(), Sigmoid(), Exponential()):
    register(_transform)
