"""Trials of a search as they stand in the study, and their scores.

A trial is scored on splits that have names: "pilot", "fold 0", "fold 1", … Each result is a
user attribute of the Optuna trial under that name, written as soon as it is there. The trial is
RUNNING until the search knows its end: COMPLETE with all folds, PRUNED with fewer, or FAIL.

Optuna does not change a finished trial, and a killed process leaves trials behind. Both are
carried on as a new Optuna trial with the same attributes (Optuna's retry). So several Optuna
trials may stand for one trial of the search; they share its position, and the last retry counts.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from pcegp._typing import FloatArray
from pcegp.search.evaluation import FoldResult

IDENTITY = "pcegp"  # attribute of a study: the data and settings that its trials belong to

# Attributes of a trial, beside its results.
POSITION = "position"
SETTINGS = "settings"
REASON = "reason"  # why there is nothing to evaluate

PILOT = "pilot"  # the split of fewer rows that all trials of a race are scored on first


def fold_name(number: int) -> str:
    """Name a fold; the trial attribute with its result has the same name."""
    return f"fold {number}"


@dataclass(frozen=True)
class TrialRecord:
    """One trial of a search; a copy has the results of the trial with the same settings."""

    number: int  # of the Optuna trial
    position: int  # place in the search, from 0; it seeds the suggestion
    state: TrialState  # of the Optuna trial
    parameters: dict[str, Any]  # as suggested
    distributions: dict[str, BaseDistribution]
    settings: dict[str, Any]  # as JSON; empty if the space failed
    results: Mapping[str, FoldResult]  # by name of the split
    rungs: Sequence[Sequence[str]]  # of the search: the first is what all trials are scored on
    reason: str | None = None  # why it failed
    copy_of: int | None = None  # number of the trial with the same settings

    @cached_property
    def folds(self) -> tuple[FoldResult, ...]:
        """Results of folds 0, 1, … up to the first that is missing or failed."""
        results = (self.results.get(name, {}) for name in self.rungs[-1])
        return tuple(takewhile(lambda result: "scores" in result, results))

    @cached_property
    def outcome(self) -> str:
        """Its end so far: fail, complete, pruned (scored on the first rung) or running."""
        if self.reason is not None:
            return "fail"
        if self.has(self.rungs[-1]):
            return "complete"
        return "pruned" if self.has(self.rungs[0]) else "running"

    def has(self, names: Iterable[str]) -> bool:
        """Tell whether it has results on these splits."""
        return all(name in self.results for name in names)

    def step(self, objective: str) -> int:
        """Find its best number of steps on the folds it has, or on the pilot split."""
        return best_step(self.folds or self._first_results(), objective)

    def first_score(self, objective: str) -> float:
        """Compute its score on the first rung, at its best number of steps there."""
        return self.first_scores([objective])[0]

    def scores(self, objective: str, n_folds: int | None = None) -> FloatArray:
        """Collect the scores (k,) of the first folds at its best number of steps on them."""
        return _scores(self.folds[:n_folds], objective, objective)

    def mean(self, objective: str, n_folds: int | None = None) -> float:
        """Average the scores of the first folds."""
        return float(self.scores(objective, n_folds).mean())

    def first_scores(self, objectives: Sequence[str]) -> list[float]:
        """Compute its scores on the first rung; the first objective decides about the step."""
        return _means(self._first_results(), objectives)

    def means(self, objectives: Sequence[str]) -> list[float]:
        """Average over the folds it has, or over the first rung; the first objective decides."""
        return _means(self.folds or self._first_results(), objectives)

    def _first_results(self) -> list[FoldResult]:
        return [self.results[name] for name in self.rungs[0]]


def mean_scores(folds: Sequence[FoldResult]) -> dict[int, dict[str, float]]:
    """Average every score over folds, for each number of steps."""
    first = folds[0]["scores"]
    return {
        int(step): {name: float(np.mean([fold["scores"][step][name] for fold in folds]))
                    for name in at_step}
        for step, at_step in first.items()
    }


def best_step(folds: Sequence[FoldResult], objective: str) -> int:
    """Find the number of steps with the best mean; the smaller one if two are equal."""
    means = mean_scores(folds)
    return min(means, key=lambda step: (means[step][objective], step))


def _scores(folds: Sequence[FoldResult], objective: str, by: str) -> FloatArray:
    step = str(best_step(folds, by))
    return np.array([fold["scores"][step][objective] for fold in folds])


def _means(folds: Sequence[FoldResult], objectives: Sequence[str]) -> list[float]:
    return [float(_scores(folds, name, objectives[0]).mean()) for name in objectives]


def records_of(study: Study) -> list[TrialRecord]:
    """Read all trials of a search by position, whoever ran them."""
    rungs = study.user_attrs[IDENTITY]["rungs"]
    current: dict[int, FrozenTrial] = {}
    trials = [t for t in study.get_trials(deepcopy=False) if POSITION in t.user_attrs]
    # Two processes may take one position, or retry one trial, at the same moment: the first counts.
    for trial in sorted(trials, key=lambda t: (-_retries(t), t.number)):
        current.setdefault(trial.user_attrs[POSITION], trial)
    records: list[TrialRecord] = []
    by_settings: dict[str, TrialRecord] = {}
    for position in sorted(current):
        record = _record(current[position], rungs)
        if record.settings:
            source = by_settings.setdefault(signature(record.settings), record)
            if source is not record:
                record = replace(record, copy_of=source.number, results=source.results,
                                 reason=source.reason)
        records.append(record)
    return records


def _retries(trial: FrozenTrial) -> int:
    return len(trial.system_attrs.get("retry_history", ()))


def _record(trial: FrozenTrial, rungs: Sequence[Sequence[str]]) -> TrialRecord:
    attributes = trial.user_attrs
    names = dict.fromkeys((*rungs[0], *rungs[-1]))
    results = {name: attributes[name] for name in names if name in attributes}
    errors = (str(result["error"]) for result in results.values() if "error" in result)
    return TrialRecord(
        trial.number, attributes[POSITION], trial.state, trial.params, trial.distributions,
        attributes.get(SETTINGS, {}), results, rungs,
        attributes.get(REASON) or next(errors, None),
    )


def plain(value: Any) -> Any:
    """Turn settings into what JSON can hold, objects into their text."""
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
    """Write a text that is equal for settings that give the same model."""
    result = dict(settings)
    if result.get("degree") == 0 and result.get("noise") == "constant":
        for name in ("basis", "penalty", "l1_ratio"):
            result.pop(name, None)  # nothing varies
    if result.get("input_scaler") == "standard":
        result.pop("input_range", None)
    return json.dumps(plain(result), sort_keys=True)
