"""From the columns of a user's table to the model's inputs.

D columns as given, d <= D columns that vary in training.

Constant columns carry no information and are left out; the others are scaled. Rows
outside the box of the training inputs are counted, because polynomials must not be
trusted there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import unknown_name
from pcegp.preprocessing.scaling import SCALERS, InputScaler, fit_input_scaler, rounded
from pcegp.preprocessing.validation import column_name

FloatArray = NDArray[np.float64]

# Scaled inputs are rounded to a multiple of this power of two of the training box: the same
# row in other units is then the same row, to the last bit.
_LAST_BIT = 2.0**-34
_SLACK = 1e-9  # of the box's width: rounding is not extrapolation


@dataclass(frozen=True)
class InputMap:
    """Which columns count, how they are scaled, and the box they span."""

    active: NDArray[np.bool_]  # (D,)
    constants: FloatArray  # (D,) values of the constant columns; others are not used
    scaler: InputScaler
    lower: FloatArray  # (d,) corners of the training box, scaled
    upper: FloatArray

    def transform(self, X: FloatArray) -> FloatArray:
        """Model inputs (m, d) from columns X (m, D)."""
        scaled = self.scaler.transform(_columns(X, self.active))
        return rounded(scaled, _last_bit(self.lower, self.upper))

    def inverse(self, Z: FloatArray) -> FloatArray:
        """Columns (m, D) from model inputs Z (m, d), with the constants in their places."""
        X = np.tile(self.constants, (len(Z), 1))
        if self.active.any():
            X[:, self.active] = self.scaler.inverse(Z)
        return X

    def outside(self, X: FloatArray, scaled: FloatArray) -> NDArray[np.bool_]:
        """Rows (m,) outside the training box, or with another value in a constant column."""
        slack = _SLACK * (self.upper - self.lower)
        outside = ((scaled < self.lower - slack) | (scaled > self.upper + slack)).any(axis=1)
        constant = ~self.active
        return np.asarray(outside | (X[:, constant] != self.constants[constant]).any(axis=1))

    def constant_columns(self, names: Sequence[str] | None) -> list[str]:
        """The constant columns as a user knows them."""
        return [column_name(names, int(j)) for j in np.flatnonzero(~self.active)]


def _last_bit(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """What the last bit of the inputs is worth, (d,)."""
    _, exponent = np.frexp(np.maximum(np.abs(lower), np.abs(upper)))
    return np.asarray(np.ldexp(_LAST_BIT, exponent))


def _columns(X: FloatArray, active: NDArray[np.bool_]) -> FloatArray:
    """The columns that vary; one column of zeros where none does."""
    return X[:, active] if active.any() else np.zeros((len(X), 1))


def fit_inputs(
    X: FloatArray, scaler: Any, input_range: tuple[float, float], weights: FloatArray
) -> InputMap:
    """The map for training columns X (n, D); a scikit-learn `scaler` is fitted in place."""
    if not isinstance(scaler, str) and not hasattr(scaler, "transform"):
        raise unknown_name("input_scaler", scaler, (*SCALERS, "any scikit-learn transformer"))
    active = X.min(axis=0) < X.max(axis=0)
    columns = _columns(X, active)
    if isinstance(scaler, str) and scaler in SCALERS and not active.any():
        scaler = "none"  # nothing varies, so there is nothing to scale by
    fitted = fit_input_scaler(scaler, columns, input_range, weights)
    scaled = fitted.transform(columns)
    corners = scaled.min(axis=0), scaled.max(axis=0)
    lower, upper = (rounded(corner, _last_bit(*corners)) for corner in corners)
    return InputMap(active, X[0].copy(), fitted, lower, upper)
