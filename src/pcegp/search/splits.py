"""Folds of a search: from a number, or from a splitter of the user's own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupKFold, KFold

from pcegp.errors import DataError, SettingError
from pcegp.preprocessing.validation import check_integer
from pcegp.search.evaluation import Split

FloatArray = NDArray[np.float64]

_FOLDS = 10


def make_splits(
    cv: Any, X: Any, y: FloatArray, groups: ArrayLike | None, seed: int
) -> list[Split]:
    """Folds from a number or a splitter, or an error that says why there are none."""
    if cv is None or isinstance(cv, (int, np.integer)):
        count = _FOLDS if cv is None else check_integer("cv", cv, 2)
        units = len(y) if groups is None else len(np.unique(np.asarray(groups)))
        if units < count:
            kind = "rows" if groups is None else "groups"
            raise DataError(
                f"{units} {kind} cannot be split into {count} folds: give cv={units} or less"
                if units > 1 else f"one sample cannot be split: a search needs 2 {kind} or more"
            )
        make = KFold if groups is None else GroupKFold
        cv = make(count, shuffle=True, random_state=seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # groups that are ignored: see below
            splits = list(cv.split(X, y, groups))
    except (AttributeError, TypeError) as error:
        raise SettingError(f"cv={cv!r} must be a number or a splitter ({error})") from error
    except ValueError as error:
        raise DataError(f"the rows cannot be split: {error}") from error
    if groups is not None:
        known = np.asarray(groups)
        for train, valid in splits:
            if np.isin(known[train], known[valid]).any():
                raise SettingError(
                    f"cv={cv!r} puts rows of one group on both sides of a fold: give a number, or "
                    "a splitter for groups such as GroupKFold"
                )
    return [(np.asarray(train), np.asarray(valid)) for train, valid in splits]
