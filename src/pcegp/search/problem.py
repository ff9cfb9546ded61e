"""The problem of a search: data and their splits, objectives, and the space of settings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from optuna.trial import FixedTrial
from sklearn.model_selection import GroupKFold, KFold

from pcegp._typing import FloatArray, IntArray
from pcegp.errors import (
    DataError,
    SearchError,
    SettingError,
    StorageError,
    shown,
    unknown_name,
)
from pcegp.preprocessing import validation
from pcegp.search.evaluation import OBJECTIVES, Split
from pcegp.search.racing import Rungs, rungs_of
from pcegp.search.spaces import Space
from pcegp.search.trials import PILOT, TrialRecord, fold_name, plain

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

_FOLDS = 10
_PILOT_ROWS = 700  # to train on; the cost grows with their cube
_LAYOUT = 2  # of studies; a version that writes other attributes takes another number


@dataclass(frozen=True)
class Problem:
    """A search before its first trial."""

    X: FloatArray
    y: FloatArray
    splits: dict[str, Split]  # the folds by name, and the pilot split if it is not the first fold
    n_folds: int
    rungs: Rungs  # one in a plain loop
    objectives: tuple[str, ...]
    primary: str  # the first one, which decides
    space: Space
    space_name: str
    fixed: dict[str, Any]  # settings of the base estimator, where the space is silent
    seed: int

    def settings(self, trial: BaseTrial) -> dict[str, Any]:
        """Ask the space for all settings of a trial."""
        return self.completed(self.space.suggest(trial))

    def settings_of(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Make all settings from suggested parameters, as Python objects."""
        try:
            return self.settings(FixedTrial(parameters))
        except Exception as error:  # a space of the user's own raises what it likes
            raise SearchError(
                f"the space raised {type(error).__name__} for values that it had suggested "
                f"({error}): it must give the same settings for the same values"
            ) from error

    def completed(self, suggested: Mapping[str, Any]) -> dict[str, Any]:
        """Complete settings by those that the space does not set."""
        return {**self.fixed, **suggested}

    def identity(self) -> dict[str, Any]:
        """Describe what the trials of a study belong to; a run that carries it on has the same."""
        return {
            "layout": _LAYOUT,
            "data": _digest(self.X, self.y),
            "folds": _digest(*(rows for split in self.splits.values() for rows in split)),
            "rungs": [list(rung) for rung in self.rungs],
            "objective": list(self.objectives),
            "space": self.space_name,
            "batch_size": self.space.batch_size,
            "seed": self.seed,
        }

    def refuse_other_settings(self, records: Sequence[TrialRecord]) -> None:
        """Refuse to carry on trials whose settings are not what this search would give them."""
        for record in records:
            if not record.settings:
                continue
            try:
                now = plain(self.settings_of(record.parameters))
            except SearchError:
                now = None
            if now != record.settings:
                raise StorageError(
                    f"trial {record.number} of the study was made with another space or "
                    "estimator: choose another name, or the same settings as before"
                )


def make_problem(
    X: FloatArray, y: FloatArray, groups: ArrayLike | None, cv: Any, seed: int, *,
    objective: Any, space: Space, space_name: str, fixed: dict[str, Any],
) -> Problem:
    """Choose folds, pilot split and rungs; refuse what cannot work."""
    objectives = check_objectives(space.objective if objective is None else objective)
    folds = make_splits(cv, X, y, groups, seed)
    splits = {fold_name(k): split for k, split in enumerate(folds)}
    first: str | None = None  # with several objectives no trial is hopeless before its last fold
    if space.racing and len(objectives) == 1:
        # A splitter of the user's own, or groups, may keep rows apart for a reason.
        exchangeable = groups is None and isinstance(cv, (int, np.integer, type(None)))
        pilot = pilot_split(folds[0], exchangeable)
        splits |= {} if pilot is None else {PILOT: pilot}
        first = fold_name(0) if pilot is None else PILOT
    return Problem(X, y, splits, len(folds), rungs_of(len(folds), first), objectives,
                   objectives[0], space, space_name, fixed, seed)


def check_objectives(objective: Any) -> tuple[str, ...]:
    """Make a tuple of the names of objectives, or say what is wrong."""
    if not isinstance(objective, (str, Sequence)):
        raise SettingError(f"objective={objective!r} must be a name or a list of names: "
                           f"{', '.join(OBJECTIVES)}")
    names = (objective,) if isinstance(objective, str) else tuple(objective)
    for name in names:
        if name not in OBJECTIVES:
            raise unknown_name("objective", name, OBJECTIVES)
    if not names or len(set(names)) < len(names):
        raise SettingError(f"objective={objective!r} must name each score once")
    return names


def make_splits(
    cv: Any, X: Any, y: FloatArray, groups: ArrayLike | None, seed: int
) -> list[Split]:
    """Make folds from a number or a splitter, or say why there are none."""
    known = None if groups is None else validation.check_groups(groups, len(y))
    if cv is None or isinstance(cv, (int, np.integer)):
        return list(_shuffled(cv, y, known, seed).split(X, y, known))
    what = f"cv={shown(repr(cv))}"
    if isinstance(cv, type) or not callable(getattr(cv, "split", None)) or isinstance(cv, str):
        raise SettingError(f"{what} must be a number or a splitter, such as KFold(5)")
    try:
        # Groups that a splitter ignores are found below.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            pairs = list(cv.split(X, y, known))
    except ValueError as error:
        raise DataError(f"the rows cannot be split: {error}") from error
    except Exception as error:  # a splitter of the user's own raises what it likes
        raise SettingError(
            f"{what} cannot split the rows, it raised {type(error).__name__}: {error}"
        ) from error
    if not pairs:
        raise SettingError(f"{what} gives no folds: it must give one or more")
    splits = [_checked_split(f"fold {k} of {what}", pair, len(y)) for k, pair in enumerate(pairs)]
    if known is not None and any(np.isin(known[train], known[valid]).any()
                                 for train, valid in splits):
        raise SettingError(f"{what} puts rows of one group on both sides of a fold: give a number, "
                           "or a splitter for groups such as GroupKFold")
    return splits


def _shuffled(cv: Any, y: FloatArray, groups: NDArray[Any] | None, seed: int) -> Any:
    """Make a splitter into so many folds, of rows or of groups."""
    count = _FOLDS if cv is None else validation.check_integer("cv", cv, 2)
    units = len(y) if groups is None else len(np.unique(groups))
    if units < count:
        kind = "rows" if groups is None else "groups"
        raise DataError(
            f"{units} {kind} cannot be split into {count} folds: give cv={units} or less"
            if units > 1 else f"one sample cannot be split: a search needs 2 {kind} or more"
        )
    make = KFold if groups is None else GroupKFold
    return make(count, shuffle=True, random_state=seed)


def _checked_split(what: str, pair: Any, n: int) -> Split:
    """Check what a splitter gives for one fold of n rows: those to train on, those to score."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise SettingError(f"{what} is no pair: it must be rows to train on and rows to score")
    train, valid = (_checked_rows(f"{side} of {what}", part, n)
                    for side, part in zip(("the training part", "the scored part"), pair,
                                          strict=True))
    both = np.intersect1d(train, valid)
    if both.size:
        raise SettingError(f"{what} has {both.size} rows in both parts, such as {both[0]}: they "
                           "must have none in common")
    return train, valid


def _checked_rows(what: str, part: Any, n: int) -> IntArray:
    """Check the rows of one part, given as their numbers or as a mark for each row."""
    try:
        rows = np.asarray(part)
    except ValueError:  # lists of different lengths
        rows = np.empty(0, dtype=object)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.size == 0 and rows.ndim == 1 and rows.dtype != object:
        raise SettingError(f"{what} is empty: it needs a row or more")
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise SettingError(f"{what} is no list of rows: it must be a vector of whole numbers")
    if rows.min() < 0 or rows.max() >= n:
        raise SettingError(f"{what} has row {rows.min() if rows.min() < 0 else rows.max()}: rows "
                           f"are 0 to {n - 1}")
    return rows.astype(np.int64)


def pilot_split(first_fold: Split, exchangeable: bool) -> Split | None:
    """Make a split with fewer training rows than the first fold; None where that is small enough.

    Where rows are exchangeable all that are not trained on are scored: a mean over many rows
    tells more, and a prediction costs little beside a training.
    """
    train, valid = first_fold
    if len(train) <= _PILOT_ROWS:
        return None
    # In a fixed random order, whatever the order of the table.
    chosen = np.random.default_rng(len(train)).permutation(len(train))
    used, rest = np.sort(chosen[:_PILOT_ROWS]), chosen[_PILOT_ROWS:]
    return train[used], np.sort(np.append(valid, train[rest])) if exchangeable else valid


def _digest(*arrays: NDArray[Any]) -> str:
    # Not joblib.hash: a study outlives the version of a library.
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
