"""Maps of inputs and targets, from the user's units to the model's and back.

n rows, D columns as given, d <= D columns that vary.

Constant columns carry no information and are left out; the others are scaled. Columns and
targets are first multiplied by a power of two (exact), so that neither 1e-300 nor 1e300
overflows, and centred before they are divided, so that an offset of 1e9 costs no precision.
Rows outside the box of the training inputs are counted, because polynomials must not be
trusted there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Protocol

import numpy as np

from pcegp._typing import BoolArray, FloatArray, IntArray
from pcegp.errors import DataError, unknown_name
from pcegp.preprocessing.validation import column_name

SCALERS = ("minmax", "standard", "none")
_BITS = 32
_FARTHEST_INPUT = 1e100  # scaled inputs beyond this are equally far from all data
# Scaled inputs are rounded to a multiple of this power of two of the training box: the same
# row in other units is then the same row, to the last bit.
_LAST_BIT = 2.0**-34
_SLACK = 1e-9  # of the box's width: rounding is not extrapolation


def _rounded(A: FloatArray, unit: FloatArray) -> FloatArray:
    """Round to multiples of a power of two, column by column."""
    unit = np.maximum(unit, np.finfo(np.float64).smallest_subnormal)
    return np.asarray(np.round(A / unit) * unit)


class InputScaler(Protocol):
    """A map of columns (n, d) to model inputs (n, d)."""

    def transform(self, X: FloatArray) -> FloatArray: ...

    def inverse(self, Z: FloatArray) -> FloatArray: ...

    @property
    def affine(self) -> tuple[FloatArray, FloatArray] | None: ...


def _exponent(A: FloatArray) -> IntArray:
    """Power of two just above the largest magnitude of each column (or of a vector)."""
    _, exponent = np.frexp(np.abs(A).max(axis=0))
    return np.asarray(exponent, dtype=np.int64)


@dataclass(frozen=True)
class AffineScaler:
    """x -> (2^-exponent x - center) * factor + shift, column by column."""

    exponent: IntArray
    center: FloatArray
    factor: FloatArray
    shift: float

    def transform(self, X: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            scaled = (np.ldexp(X, -self.exponent) - self.center) * self.factor + self.shift
        return np.clip(scaled, -_FARTHEST_INPUT, _FARTHEST_INPUT)

    def inverse(self, Z: FloatArray) -> FloatArray:
        return np.ldexp((Z - self.shift) / self.factor + self.center, self.exponent)

    @property
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """Centre and width, (d,) each, of x -> (x - centre) / width."""
        width = np.ldexp(1.0 / self.factor, self.exponent)
        return np.ldexp(self.center, self.exponent) - self.shift * width, width


@dataclass(frozen=True)
class CustomScaler:
    """A fitted scikit-learn transformer, with its output checked."""

    transformer: Any
    affine: ClassVar[None] = None  # it may be any function

    def transform(self, X: FloatArray) -> FloatArray:
        scaled = np.asarray(self.transformer.transform(X), dtype=np.float64)
        name = type(self.transformer).__name__
        if scaled.shape != X.shape:
            raise DataError(
                f"input_scaler {name} turned {X.shape} into {scaled.shape}: it must keep the shape"
            )
        if not np.isfinite(scaled).all():
            raise DataError(f"input_scaler {name} returned NaN or infinite values")
        return np.clip(scaled, -_FARTHEST_INPUT, _FARTHEST_INPUT)

    def inverse(self, Z: FloatArray) -> FloatArray:
        if not hasattr(self.transformer, "inverse_transform"):
            raise DataError(
                f"input_scaler {type(self.transformer).__name__} has no inverse_transform: without "
                "it the training inputs cannot be shown in their own units"
            )
        return np.asarray(self.transformer.inverse_transform(Z), dtype=np.float64)


def fit_input_scaler(
    scaler: Any, X: FloatArray, input_range: tuple[float, float], weights: FloatArray
) -> InputScaler:
    """Fit a scaler to columns X (n, d), none of which is constant.

    Parameters
    ----------
    scaler : "minmax", "standard", "none", or an unfitted scikit-learn transformer,
        which is fitted in place
    """
    d = X.shape[1]
    if hasattr(scaler, "transform"):
        takes_weights = "sample_weight" in signature(scaler.fit).parameters
        scaler.fit(X, **({"sample_weight": weights} if takes_weights else {}))
        return CustomScaler(scaler)
    if not isinstance(scaler, str) or scaler not in SCALERS:
        raise unknown_name("input_scaler", scaler, (*SCALERS, "any scikit-learn transformer"))
    if scaler == "none":
        return AffineScaler(np.zeros(d, dtype=np.int64), np.zeros(d), np.ones(d), 0.0)
    exponent = _exponent(X)
    scaled = np.ldexp(X, -exponent)
    if scaler == "standard":
        mean = _mean(scaled, weights)
        deviation = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weights))
        return AffineScaler(exponent, mean, 1.0 / deviation, 0.0)
    low, high = input_range
    smallest, largest = scaled.min(axis=0), scaled.max(axis=0)
    return AffineScaler(exponent, smallest, (high - low) / (largest - smallest), low)


def _mean(A: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted mean of rows, from differences to the first one."""
    return np.asarray(A[0] + np.average(A - A[0], axis=0, weights=weights))


@dataclass(frozen=True)
class InputMap:
    """The map of all columns: those that count, their scaling, and the box they span."""

    active: BoolArray  # (D,)
    constants: FloatArray  # (D,) values of the constant columns; others are not used
    scaler: InputScaler
    lower: FloatArray  # (d,) corners of the training box, scaled
    upper: FloatArray

    def transform(self, X: FloatArray) -> FloatArray:
        """Model inputs (m, d) from columns X (m, D)."""
        scaled = self.scaler.transform(_columns(X, self.active))
        return _rounded(scaled, _last_bit(self.lower, self.upper))

    def inverse(self, Z: FloatArray) -> FloatArray:
        """Columns (m, D) from model inputs Z (m, d), with the constants in their places."""
        X = np.tile(self.constants, (len(Z), 1))
        if self.active.any():
            X[:, self.active] = self.scaler.inverse(Z)
        return X

    def outside(self, X: FloatArray, scaled: FloatArray) -> BoolArray:
        """Rows (m,) outside the training box, or with another value in a constant column."""
        slack = _SLACK * (self.upper - self.lower)
        outside = ((scaled < self.lower - slack) | (scaled > self.upper + slack)).any(axis=1)
        constant = ~self.active
        return np.asarray(outside | (X[:, constant] != self.constants[constant]).any(axis=1))

    def constant_columns(self, names: Sequence[str] | None) -> list[str]:
        """Name the constant columns as a user knows them."""
        return [column_name(names, int(j)) for j in np.flatnonzero(~self.active)]


def _last_bit(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Value (d,) of the last bit of the inputs."""
    _, exponent = np.frexp(np.maximum(np.abs(lower), np.abs(upper)))
    return np.asarray(np.ldexp(_LAST_BIT, exponent))


def _columns(X: FloatArray, active: BoolArray) -> FloatArray:
    """Select the columns that vary; one column of zeros where none does."""
    return X[:, active] if active.any() else np.zeros((len(X), 1))


def fit_inputs(
    X: FloatArray, scaler: Any, input_range: tuple[float, float], weights: FloatArray
) -> InputMap:
    """Fit the map of training columns X (n, D); a scikit-learn `scaler` is fitted in place."""
    active = X.min(axis=0) < X.max(axis=0)
    columns = _columns(X, active)
    if isinstance(scaler, str) and scaler in SCALERS and not active.any():
        scaler = "none"  # nothing varies, so there is nothing to scale by
    fitted = fit_input_scaler(scaler, columns, input_range, weights)
    scaled = fitted.transform(columns)
    corners = scaled.min(axis=0), scaled.max(axis=0)
    lower, upper = (_rounded(corner, _last_bit(*corners)) for corner in corners)
    return InputMap(active, X[0].copy(), fitted, lower, upper)


@dataclass(frozen=True)
class TargetScaler:
    """y -> (2^-exponent y - origin - center) / width, and back for means and deviations.

    The origin is a value of the target: without it, an offset of 1e9 would round the center.
    """

    exponent: int
    center: float
    width: float
    origin: float = 0.0

    def transform(self, y: FloatArray) -> FloatArray:
        return ((np.ldexp(y, -self.exponent) - self.origin) - self.center) / self.width

    def mean(self, standardised: FloatArray) -> FloatArray:
        return np.ldexp(self.origin + (self.center + self.width * standardised), self.exponent)

    def deviation(self, standardised: FloatArray) -> FloatArray:
        return np.ldexp(self.width * standardised, self.exponent)

    def covariance(self, standardised: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.ldexp(self.width**2 * standardised, 2 * self.exponent)

    @property
    def log_width(self) -> float:
        """Logarithm of one standardised unit in the user's units: what an NLL gains."""
        return float(np.log(self.width) + self.exponent * np.log(2.0))


def standardise(y: FloatArray, weights: FloatArray) -> tuple[TargetScaler, FloatArray]:
    """Fit the scaler of a target (n,) and apply it, rounded to 32 bits of the largest value.

    Training goes hundreds of steps, and on data without noise the last bit of a value grows
    until it shows in the result. Rounded, values in metres and the same ones in inches are the
    same numbers. (For inputs see `InputMap`.)
    """
    scaler = _fit_target(y, weights)
    values = scaler.transform(y)
    return scaler, _rounded(values, np.ldexp(1.0, _exponent(values) - _BITS))


def _fit_target(y: FloatArray, weights: FloatArray) -> TargetScaler:
    """Find centre and width of y (n,); a constant target keeps its own magnitude as the unit."""
    exponent = int(_exponent(y))
    scaled = np.ldexp(y, -exponent)
    origin = float(scaled[0])
    if y.min() == y.max():
        return TargetScaler(exponent, 0.0, abs(origin) or 1.0, origin)
    away = scaled - origin
    center = float(np.average(away, weights=weights))
    width = float(np.sqrt(np.average((away - center) ** 2, weights=weights)))
    return TargetScaler(exponent, center, width, origin)
