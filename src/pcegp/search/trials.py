"""The trials of a search, as it reads them from its studies.

A race has two studies: one of all trials, whose value is the score of the screen, and one of
the finals, whose trials are the best of the former with more folds. They belong together by
their settings, so a fold of the finals counts wherever these settings stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from pcegp.search.evaluation import FoldResult, best_step, per_fold
from pcegp.search.storage import OWNER, REASON, SETTINGS, SLOT, is_stale

FloatArray = NDArray[np.float64]

COPY_OF = "copy_of"  # attribute of a trial whose settings another one had before
SCREEN = -1  # the number that stands for the screen, where folds are counted


def fold_key(number: int) -> str:
    """The trial attribute that holds the result of a fold, or of the screen."""
    return "screen" if number == SCREEN else f"fold {number}"


def number_of(key: str) -> int:
    """The fold of such an attribute."""
    return SCREEN if key == fold_key(SCREEN) else int(key.split()[1])


def plain(value: Any) -> Any:
    """Settings as JSON can hold them; objects by their text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))  # another one in every process


def signature(settings: Mapping[str, Any]) -> str:
    """Equal for settings that give the same model."""
    kept = dict(settings)
    if kept.get("degree") == 0 and kept.get("noise") == "constant":
        for name in ("basis", "penalty", "l1_ratio"):
            kept.pop(name, None)  # nothing varies
    if kept.get("input_scaler") == "standard":
        kept.pop("input_range", None)
    return json.dumps(plain(kept), sort_keys=True)


@dataclass(frozen=True)
class Record:
    """One trial that was not left behind by a killed worker."""

    number: int
    slot: int
    state: TrialState
    settings: dict[str, Any]
    results: Mapping[int, FoldResult]  # of the screen and of folds, by number
    reason: str | None
    copy_of: int | None
    parameters: dict[str, Any]  # as suggested

    @property
    def has_scores(self) -> bool:
        """Whether there is anything to compare it by."""
        return bool(self.screen or self.folds)

    @property
    def screen(self) -> tuple[FoldResult, ...]:
        """One result, or none where the first fold is the screen, or where it failed."""
        return tuple(self.results[n] for n in (SCREEN,) if "scores" in self.results.get(n, {}))

    @cached_property
    def folds(self) -> tuple[FoldResult, ...]:
        """Results of folds 0, 1, … as far as they are there and did not fail."""
        folds: list[FoldResult] = []
        while "scores" in self.results.get(len(folds), {}):
            folds.append(self.results[len(folds)])
        return tuple(folds)

    def step(self, objective: str) -> int:
        """Its best number of steps on the folds it has, or on the screen."""
        return best_step(self.folds or self.screen, objective)

    def screen_score(self, objective: str) -> float:
        """The score of the screen at its best number of steps there."""
        result = self.screen or self.folds[:1]
        return float(per_fold(result, best_step(result, objective), objective)[0])

    def scores(self, objective: str, n_folds: int | None = None) -> FloatArray:
        """Scores of the first folds at its best number of steps on them."""
        folds = self.folds[:n_folds]
        return per_fold(folds, best_step(folds, objective), objective)

    def mean(self, objective: str, by: str, n_folds: int | None = None) -> float:
        """Mean score, at the number of steps that is best for the objective `by`."""
        folds = self.folds[:n_folds]
        return float(per_fold(folds, best_step(folds, by), objective).mean())

    def factorisations(self) -> int:
        """Cholesky factorisations that this trial took; a copy took none."""
        return int(self._sum("factorisations"))

    def fit_seconds(self) -> float:
        """Seconds of its trainings, one after the other; a copy took none."""
        return self._sum("seconds")

    def n_fits(self) -> int:
        """Trainings of this trial; a copy has none."""
        return 0 if self.copy_of is not None else len(self.results)

    def _sum(self, name: str) -> float:
        if self.copy_of is not None:
            return 0.0
        return sum(float(result.get(name, 0)) for result in self.results.values())


def record_of(trial: FrozenTrial) -> Record:
    """A trial as a record."""
    attributes = trial.user_attrs
    results = {number_of(key): value for key, value in attributes.items()
               if key == fold_key(SCREEN) or key.startswith("fold ")}
    return Record(
        number=trial.number,
        slot=attributes.get(SLOT, trial.number),
        state=trial.state,
        settings=attributes.get(SETTINGS, {}),
        results=results,
        reason=attributes.get(REASON),
        copy_of=attributes.get(COPY_OF),
        parameters=trial.params,
    )


def records_of(study: Study, finals: Study | None = None) -> list[Record]:
    """All trials but those left behind, by slot, with what the finals found of them."""
    trials = study.get_trials(deepcopy=False)
    records = sorted((record_of(t) for t in trials if not is_stale(t)), key=lambda r: r.slot)
    if finals is None:
        return records
    n_folds = finals.user_attrs[OWNER]["n_folds"]
    known: dict[str, list[Record]] = {}
    for trial in finals.get_trials(deepcopy=False):
        final = record_of(trial)
        known.setdefault(signature(final.settings), []).append(final)
    merged: list[Record] = []
    first: dict[str, int] = {}
    for record in records:
        key = signature(record.settings)
        whole = _with_finals(record, known.get(key, ()), n_folds)
        if whole.state.is_finished() and whole.copy_of is None and whole.reason is None:
            # Two workers may try the same settings at the same time: one trial is then a copy.
            number = first.setdefault(key, whole.number)
            whole = whole if number == whole.number else replace(whole, copy_of=number)
        merged.append(whole)
    return merged


def _with_finals(record: Record, finals: Sequence[Record], n_folds: int) -> Record:
    """A trial of a race, complete when the finals gave it all folds."""
    if not record.state.is_finished() or record.reason is not None:
        return record
    results = dict(record.results)
    for final in finals:  # those of a killed worker, too: a fold that is there is there
        results |= final.results
    reason = next((final.reason for final in finals if final.reason is not None), None)
    whole = replace(record, results=results, reason=reason)
    if reason is not None:
        return replace(whole, state=TrialState.FAIL)
    complete = len(whole.folds) == n_folds
    return replace(whole, state=TrialState.COMPLETE if complete else TrialState.PRUNED)


def finished(records: Sequence[Record]) -> list[Record]:
    """Those with all folds."""
    return [record for record in records if record.state == TrialState.COMPLETE]
