"""Checks of what a user passes, with errors that name columns and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import DataError, SettingError

FloatArray = NDArray[np.float64]

_SHOWN = 5  # rows, columns or values listed in one message


def _listed(items: Sequence[object]) -> str:
    text = ", ".join(str(item) for item in items[:_SHOWN])
    return text + (", …" if len(items) > _SHOWN else "")


def column_name(names: Sequence[str] | None, j: int) -> str:
    """The user's name of a column, or its number."""
    return repr(str(names[j])) if names is not None else f"number {j}"


def check_numeric(X: Any) -> None:
    """Refuse text columns of a frame and masked entries before anything is converted."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise DataError(
            f"X has {np.ma.getmaskarray(X).sum()} masked entries: fill or drop them first"
        )
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "shape"):
        return
    text = [str(name) for name in columns if not _is_numeric(X[name])]
    if text:
        raise DataError(
            f"X has columns that are not numbers ({_listed([repr(t) for t in text])}): encode "
            "them (OneHotEncoder, for example) or leave them out"
        )


def _is_numeric(column: Any) -> bool:
    if str(column.dtype).lower().startswith(("datetime", "timedelta", "date", "duration")):
        return False
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def check_finite_inputs(X: FloatArray, names: Sequence[str] | None) -> None:
    """Refuse NaN and inf, naming columns and rows (counted from 0)."""
    bad = ~np.isfinite(X)
    if not bad.any():
        return
    what = "NaN" if np.isnan(X[bad]).all() else "inf" if np.isinf(X[bad]).all() else "NaN or inf"
    parts = [
        f"column {column_name(names, j)} holds {bad[:, j].sum()} "
        f"(rows {_listed(np.flatnonzero(bad[:, j]).tolist())})"
        for j in np.flatnonzero(bad.any(axis=0))[:_SHOWN]
    ]
    raise DataError(f"X contains {what}: {'; '.join(parts)}. Drop or impute them first")


def check_finite_targets(y: Any) -> None:
    """Refuse NaN and inf in y (n,) or (n, t), naming rows; other faults are left alone."""
    values = np.asarray(y)
    if values.dtype.kind == "c" or values.ndim not in (1, 2):
        return
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        return
    rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1)).tolist()
    if rows:
        what = "NaN" if np.isnan(values).any() else "inf"
        raise DataError(
            f"y contains {what} in {len(rows)} rows ({_listed(rows)}): drop these rows first"
        )


def check_weights(sample_weight: Any, n: int) -> FloatArray:
    """Weights (n,): finite, not negative, not all zero; ones if None is given."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise DataError(f"sample_weight has shape {weights.shape}, but X has {n} rows")
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0.0)).tolist()
    if bad:
        raise DataError(
            f"sample_weight is negative or not finite in {len(bad)} rows ({_listed(bad)})"
        )
    if not weights.any():
        raise DataError("sample_weight is zero in every row: nothing is left to learn from")
    return weights


def check_number(
    name: str, value: Any, low: float, high: float = np.inf, *, open_low: bool = False
) -> float:
    """A finite number in [low, high], or in (low, high] if `open_low`."""
    valid = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not valid or not np.isfinite(value) or value > high or value < low or (
        open_low and value == low
    ):
        bound = f"above {low:g}" if open_low else f"{low:g} or more"
        upper = "" if high == np.inf else f" and at most {high:g}"
        raise SettingError(f"{name}={value!r} must be a number {bound}{upper}")
    return float(value)


def check_integer(name: str, value: Any, low: int) -> int:
    """A whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise SettingError(f"{name}={value!r} must be a whole number of {low} or more")
    return int(value)
