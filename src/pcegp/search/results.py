"""The answer of a search from its trials: the best one, an ensemble, and what it cost."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna import Study

from pcegp.errors import SearchError
from pcegp.search.evaluation import OBJECTIVES
from pcegp.search.trials import TrialRecord

# How far behind the default setting, or the best trial where there is none, a member may be: by
# ratio for errors, by difference for the NLL, which has no natural zero. With fewer folds
# the pilot split tells more.
_TOLERANCE = 0.75
_FEW_FOLDS = 3


def complete(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Select the trials with all folds."""
    return [record for record in records if record.outcome == "complete"]


def best_of(records: Sequence[TrialRecord], objective: str) -> TrialRecord:
    """Find the trial with all folds and the best mean; the earlier one if two are equal."""
    candidates = complete(records)
    if not candidates:
        reasons = sorted({record.reason for record in records if record.reason})
        raise SearchError(
            f"none of {len(records)} trials could be evaluated"
            + (f": {reasons[0]}" if reasons else " in the time given: allow more of it")
        )
    return min(candidates, key=lambda record: (record.mean(objective), record.position))


def choose_members(
    records: Sequence[TrialRecord], objective: str, count: int,
    starts: Sequence[Mapping[str, Any]],
) -> list[TrialRecord]:
    """Choose the best trials of `count` different structures (kind of scale and degree).

    Models of one structure make much the same errors; different ones make up for each other.
    Candidates are the starts of the space and what has proved itself on some folds: of many
    other trials, one would look good on the pilot split by luck alone. The first start, which
    has the default settings in the automatic space, is always a member: the best of a search
    may be a lucky one. And it is what the others are compared with, fold by fold, because on
    few folds the best of many has the better luck. In a space of the user's own the first trial
    counts as such only if all that was suggested for it are values of the start.
    """
    best = best_of(records, objective)
    if count == 1:
        return [best]
    first = [r for r in complete(records[:1]) if r.position == 0
             and any(r.parameters.items() <= start.items() for start in starts[:1])]
    other = (first or [best])[0]
    enough = min(_FEW_FOLDS, len(other.folds))

    def behind(record: TrialRecord) -> float:
        n = len(record.folds)
        if n >= enough:
            mine, its = record.mean(objective), other.mean(objective, n)
        else:
            mine, its = (r.first_score(objective) for r in (record, other))
        if objective == "nll" or its == 0.0:
            return mine - its
        return mine / its - 1.0

    near = [(behind(r), r.position, r) for r in records
            if r.copy_of is None and r.reason is None
            and (r.position < len(starts) or len(r.folds) >= enough)]
    chosen = [best, *(record for record in first if record is not best)]
    for distance, _, record in sorted(near, key=lambda entry: entry[:2]):
        if distance <= _TOLERANCE and _structure(record) not in map(_structure, chosen):
            chosen.append(record)
    return chosen[:count]


def _structure(record: TrialRecord) -> tuple[Any, Any]:
    return record.settings.get("scale"), record.settings.get("degree")


def pareto_front(study: Study, records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Find the trials with all folds that no other one beats in every objective."""
    best = {trial.number for trial in study.best_trials}
    return [r for r in complete(records) if r.number in best and r.copy_of is None]


def savings(records: Sequence[TrialRecord]) -> dict[str, float]:
    """Count the Cholesky factorisations of this search and of the plain loop over its trials."""
    spent, n_fits, plain_loop, plain_fits = 0, 0, 0.0, 0
    for record in records:
        counts = [r["factorisations"] for r in record.results.values() if "factorisations" in r]
        n_folds = len(record.rungs[-1])
        plain_loop += n_folds * float(np.mean(counts)) if counts else 0.0
        plain_fits += n_folds
        if record.copy_of is None:
            spent += sum(counts)
            n_fits += len(record.results)
    return {
        "factorisations": spent,
        "plain_factorisations": round(plain_loop),
        "share": spent / plain_loop if plain_loop else float("nan"),
        "n_fits": n_fits,
        "plain_n_fits": plain_fits,
    }


def results_table(records: Sequence[TrialRecord], primary: str) -> dict[str, Any]:
    """Make `cv_results_`: one entry per trial, in the manner of scikit-learn."""
    failed = [record.reason is not None for record in records]
    steps = [0 if record.reason else record.step(primary) for record in records]
    table: dict[str, Any] = {
        "trial": np.array([r.number for r in records]),
        "state": np.array([r.outcome for r in records]),
        "params": [r.parameters for r in records],
        "n_folds": np.array([len(r.folds) for r in records]),
        "steps": np.ma.masked_array(steps, failed),
        "reason": np.array([r.reason for r in records], dtype=object),
        "copy_of": np.array([r.copy_of for r in records], dtype=object),
        "fit_time": np.array([
            0.0 if r.copy_of is not None else sum(f.get("seconds", 0.0) for f in r.results.values())
            for r in records
        ]),
        f"pilot_{primary}": np.array([
            np.nan if r.reason else r.first_score(primary) for r in records
        ]),
        # The best of many trials looks better than it is: `nested_cv` tells how good it is.
        "optimistic": np.ones(len(records), dtype=bool),
    }
    n_folds = len(records[0].rungs[-1])
    scores = np.full((len(OBJECTIVES), len(records), n_folds), np.nan)
    for i, record in enumerate(records):
        at = str(record.step(primary)) if record.folds else ""
        for k, fold in enumerate(record.folds):
            scores[:, i, k] = [fold["scores"][at][name] for name in OBJECTIVES]
    for name, values in zip(OBJECTIVES, scores, strict=True):
        for k in range(n_folds):
            table[f"split{k}_test_{name}"] = values[:, k]
        # NaN where a fold is missing.
        table[f"mean_test_{name}"] = values.mean(axis=1)
        table[f"std_test_{name}"] = values.std(axis=1)
    # Complete trials first, by their mean; then those that were stopped, by how far they came.
    so_far = [np.mean(row[:n]) if n else np.inf
              for row, n in zip(scores[OBJECTIVES.index(primary)], table["n_folds"], strict=True)]
    order = np.lexsort(([r.position for r in records], so_far, -table["n_folds"]))
    rank = np.empty(len(records), dtype=int)
    rank[order] = np.arange(1, len(records) + 1)
    table[f"rank_test_{primary}"] = rank
    return table
