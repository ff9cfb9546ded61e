"""Checks of what a user passes, with errors and warnings that name columns and rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pcegp._typing import FloatArray
from pcegp.errors import DataError, DataWarning, SettingError, shown, unknown_name, warn

Part = TypeVar("Part")

_FEW_ROWS = 6
_SHOWN = 5  # rows, columns or values listed in one message
_LEAST, _MOST = 1e-15, 1e15  # of the largest weight; far beyond it, variances are no numbers
_MOST_JOBS = 10_000  # processes that no machine runs at once


def _listed(items: Sequence[object]) -> str:
    text = ", ".join(str(item) for item in items[:_SHOWN])
    return text + (", …" if len(items) > _SHOWN else "")


def column_name(names: Sequence[str] | None, j: int) -> str:
    """Name a column as the user does, or by its number."""
    return repr(str(names[j])) if names is not None else f"number {j}"


def _check_unmasked(name: str, values: Any) -> None:
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(
            f"{name} has {np.ma.getmaskarray(values).sum()} masked entries: fill or drop them first"
        )


def _check_table(name: str, values: Any, what: str) -> None:
    """Refuse what has no rows, or can be read only once; the rest is left to scikit-learn."""
    if issparse(values):  # some sparse matrices are mappings, too
        return
    if isinstance(values, (str, bytes, Mapping)) or np.isscalar(values):
        raise DataError(f"{name} is a {type(values).__name__}: give {what}")
    if isinstance(values, Iterator):
        raise DataError(f"{name} is a {type(values).__name__}, which can be read only once: give "
                        f"{what}, such as list({name})")


def check_numeric(X: Any) -> None:
    """Refuse text, dates and masked entries, with the columns that hold them."""
    _check_table("X", X, "a table of rows and columns")
    _check_unmasked("X", X)
    if isinstance(X, np.ndarray):
        _check_array(X)
    elif hasattr(X, "columns") and hasattr(X, "shape"):
        _check_frame(X)


def _check_frame(frame: Any) -> None:
    names = [str(name) for name in frame.columns]
    if names and all(str(kind).startswith("Sparse[") for kind in frame.dtypes):
        raise DataError("X is a sparse frame, but dense data is required: give "
                        "X.sparse.to_dense()")
    if len(set(names)) < len(names):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"X has several columns named {_listed(twice)}: rename them")
    text = [repr(str(name)) for name in frame.columns if not _is_numeric(frame[name])]
    if text:
        raise DataError(
            f"X has columns that are not numbers ({_listed(text)}): encode them (OneHotEncoder, "
            "for example) or leave them out"
        )


def _is_numeric(column: Any) -> bool:
    if str(column.dtype).lower().startswith(("datetime", "timedelta", "date", "duration")):
        return False
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _check_array(X: NDArray[Any]) -> None:
    if X.dtype.kind in "Mm":
        raise DataError("X holds dates or durations: convert them to numbers first")
    if X.dtype.kind not in "OUS" or X.ndim != 2:
        return
    for j, column in enumerate(X.T):
        for i, value in enumerate(column):
            if value is None:  # becomes NaN
                continue
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                if isinstance(value, Mapping):
                    return  # scikit-learn's contract asks for its own error here
                raise DataError(
                    f"X holds {shown(repr(value))} in column number {j}, row {i}, which is not a "
                    "number"
                ) from None


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


def check_targets(y: Any) -> None:
    """Refuse masked entries, dates, text, NaN and inf in y; shapes are left to scikit-learn."""
    _check_table("y", y, "one number for each row of X")
    _check_unmasked("y", y)
    try:
        values = np.asarray(y)
    except ValueError:
        raise DataError("the rows of y have different lengths: give one number for each row of "
                        "X") from None
    if values.dtype.kind == "c" or values.ndim not in (1, 2) or values.size == 0:
        return
    if values.dtype.kind in "Mm":
        raise DataError("y holds dates or durations: convert them to numbers first")
    try:
        with np.errstate(over="ignore"):  # of wider numbers; infinity is refused below
            values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"y is not numbers ({error})") from None
    rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1)).tolist()
    if rows:
        what = "NaN" if np.isnan(values).any() else "inf"
        raise DataError(
            f"y contains {what} in {len(rows)} rows ({_listed(rows)}): drop these rows first"
        )


def merged(
    columns: FloatArray, targets: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Join equal rows (n, D) of equal targets (n, t) to one with the sum of their weights (n,)."""
    together = np.column_stack([columns, targets])
    _, first, numbers = np.unique(together, axis=0, return_index=True, return_inverse=True)
    sums = np.bincount(numbers.ravel(), weights)
    order = np.argsort(first)  # as they came
    chosen = first[order]
    return columns[chosen], targets[chosen], np.asarray(sums[order], dtype=np.float64)


def check_weights(sample_weight: Any, n: int) -> FloatArray:
    """Check weights (n,): finite, not negative, not all zero; None gives ones."""
    if sample_weight is None:
        return np.ones(n)
    _check_unmasked("sample_weight", sample_weight)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError("sample_weight is not numbers") from None
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
    largest = weights.max()
    if not _LEAST <= largest <= _MOST:
        raise DataError(
            f"the largest sample_weight is {largest:g} (row {weights.argmax()}), beyond {_LEAST:g} "
            f"to {_MOST:g}: a weight counts how often a row was measured, so scale them to a mean "
            "of 1"
        )
    return weights


def check_number(
    name: str, value: Any, low: float, high: float = np.inf, *, open_low: bool = False
) -> float:
    """Check a finite number in [low, high], or in (low, high] if `open_low`."""
    number = _as_float(value)
    if not np.isfinite(number) or number > high or number < low or (open_low and number == low):
        bound = f"above {low:g}" if open_low else f"{low:g} or more"
        upper = "" if high == np.inf else f" and at most {high:g}"
        raise SettingError(f"{name}={shown(repr(value))} must be a number {bound}{upper}")
    return number


def _as_float(value: Any) -> float:
    """Make a float of a number; NaN of anything else, and of an integer beyond all floats."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.nan


def check_number_or(word: str, name: str, value: Any) -> float | str:
    """Check a number of 0 or more, or a word that stands for one."""
    if isinstance(value, str):
        if value != word:
            raise SettingError(f'{name}={value!r} must be a number of 0 or more, or "{word}"')
        return value
    return check_number(name, value, 0.0)


def check_integer(name: str, value: Any, low: int) -> int:
    """Check a whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise SettingError(f"{name}={value!r} must be a whole number of {low} or more")
    return int(value)


def check_optional_integer(name: str, value: Any) -> int | None:
    """Check a whole number of at least 1, or None."""
    return None if value is None else check_integer(name, value, 1)


def check_jobs(name: str, value: Any) -> int | None:
    """Check a number of jobs as joblib counts them: None, or any whole number but 0.

    Below 0 they are counted from the number of cores: -1 is all of them, -2 is all but one.
    """
    if value is None:
        return None
    if (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value == 0
            or value > _MOST_JOBS):
        raise SettingError(
            f"{name}={value!r} must be a whole number of 1 to {_MOST_JOBS}, or below 0 as joblib "
            "counts: -1 for all cores, -2 for all but one and so on"
        )
    return int(value)


def check_groups(groups: Any, n: int) -> NDArray[Any]:
    """Check the groups (n,) of rows."""
    _check_table("groups", groups, "one value for each row of X")
    _check_unmasked("groups", groups)
    try:
        known = np.asarray(groups)
        missing = np.not_equal(known, known)  # NaN is
        np.unique(known)
    except (TypeError, ValueError):
        raise DataError("groups holds missing values, or some that cannot be compared: give every "
                        "row a number or a text") from None
    if known.shape != (n,):
        raise DataError(f"groups has shape {known.shape}, but X has {n} rows")
    if np.any(missing):
        raise DataError(f"groups holds {np.count_nonzero(missing)} missing values: give every row "
                        "a number or a text")
    return known


def check_all(
    values: Mapping[str, Any], rules: Mapping[str, Callable[[str, Any], Any]]
) -> dict[str, Any]:
    """Check several values, each by its rule, such as ``partial(check_integer, low=1)``."""
    return {name: rule(name, values[name]) for name, rule in rules.items()}


def check_choice(name: str, value: Any, known: Mapping[str, Part]) -> Part:
    """Look up the part that a name stands for."""
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)
    return known[value]


def check_parts(name: str, value: Any, known: Mapping[str, Part], kind: type) -> tuple[Part, ...]:
    """Look up one part or several different ones, by name or as objects of a kind."""
    one = isinstance(value, (str, kind)) or not isinstance(value, Iterable)
    chosen: tuple[Any, ...] = (value,) if one else tuple(value)
    if not chosen:
        raise SettingError(f"{name} is empty: name at least one of {', '.join(known)}")
    # A class has the methods of its objects, but is none of them.
    parts = tuple(cast(Part, item) if isinstance(item, kind) and not isinstance(item, type)
                  else check_choice(name, item, known) for item in chosen)
    if any(part in parts[:k] for k, part in enumerate(parts)):
        listed = ", ".join(str(getattr(part, "name", part)) for part in parts)
        raise SettingError(f"{name} names one of them twice: {listed}")
    return parts


def check_range(name: str, value: Any) -> tuple[float, float]:
    """Check a pair of finite numbers, the lower one first."""
    ends = [*map(_as_float, value)] if isinstance(value, (tuple, list, np.ndarray)) else []
    if len(ends) != 2 or not -np.inf < ends[0] < ends[1] < np.inf:
        raise SettingError(f"{name}={shown(repr(value))} must be two numbers, the lower one first")
    return ends[0], ends[1]


def names_of(estimator: Any) -> tuple[str, ...] | None:
    """Find the names of all columns that an estimator was given; None where there were none."""
    found = getattr(estimator, "feature_names_in_", None)
    if found is None:
        return None
    names = tuple(map(str, found))
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"the column name {name!a} is no text that can be written: rename the column"
            ) from None
    return names


def labels_of(X: Any) -> tuple[str, ...] | None:
    """Find what the columns of a frame are called where these are no texts, such as 10 and 20.

    scikit-learn forgets them. None for texts, which it keeps, for 0, 1, 2, …, which name nothing,
    and for what is no frame.
    """
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "shape"):
        return None
    texts = sum(isinstance(name, str) for name in columns)
    if 0 < texts < len(columns):
        raise DataError(
            "X has names of columns that are texts and others that are not: rename the columns, as "
            "by X.columns = X.columns.astype(str)"
        )
    labels = tuple(ascii(name) for name in columns)
    return None if texts or labels == _positions(len(labels)) else labels


def check_labels(known: tuple[str, ...] | None, X: Any) -> None:
    """Refuse a frame to predict at whose columns are those of the training in another order.

    Parameters
    ----------
    known : what `labels_of` found in training
    X : table to predict at
    """
    given = labels_of(X)
    if given == known or not hasattr(X, "columns") or any(isinstance(c, str) for c in X.columns):
        return
    now, then = (_positions(X.shape[1]) if labels is None else labels for labels in (given, known))
    if (given is not None and known is not None) or (now != then and set(now) == set(then)):
        raise DataError(
            f"X has the columns {_few(now)}, and the training had {_few(then)}: give these, "
            "in that order"
        )


def _positions(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _few(labels: Sequence[str]) -> str:
    text = ", ".join(shown(label) for label in labels[:_SHOWN])
    return text + (", …" if len(labels) > _SHOWN else "")


def warn_about_order(X: Any, y: Any) -> None:
    """Warn where rows of X and y have the same labels in another order: only places count."""
    if not all(hasattr(getattr(table, "index", None), "equals") for table in (X, y)):
        return
    one, other = X.index, y.index
    if not one.equals(other) and one.is_unique and set(one) == set(other):
        warn("the rows of X and y have the same labels in another order, and the first row of X "
             "is taken with the first of y: pass y.loc[X.index] to go by the labels", DataWarning)


def warn_about_data(
    constant: Sequence[str], targets: FloatArray, weights: FloatArray | None = None
) -> None:
    """Warn about constant columns, very few rows and a constant target.

    Parameters
    ----------
    constant : what the constant columns are called
    targets : (n, t)
    weights : (n,), None for ones
    """
    n = len(targets)
    if n == 1:  # every column and every target is constant
        warn("only 1 row: the model predicts its target everywhere, and R2 is not defined; give 2 "
             f"rows or more, and {_FEW_ROWS} for intervals that rest on data", DataWarning)
        return
    if constant:
        warn(f"constant column {', '.join(constant)}: ignored in the model", DataWarning)
    counted = n if weights is None else float(weights.sum())
    if n < _FEW_ROWS:
        warn(f"only {n} rows: the intervals rest on the prior more than on data; give {_FEW_ROWS} "
             "rows or more", DataWarning)
    elif counted < _FEW_ROWS:
        warn(f"the weights of {n} rows sum to {counted:.3g}, and count as so many rows: the model "
             "rests on the prior more than on data; scale them to a mean of 1", DataWarning)
    if (targets.min(axis=0) == targets.max(axis=0)).any():
        warn("y is constant: the model predicts that constant", DataWarning)
