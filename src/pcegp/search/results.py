"""From the trials of a search to its answer: the best one, an ensemble, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcegp.errors import SearchError
from pcegp.search.evaluation import OBJECTIVES
from pcegp.search.trials import Record, finished

# How far behind the default setting, or the best trial where there is none, a member may be: by
# ratio for errors, by difference for the NLL, which has no natural zero. With fewer folds
# the screen is the better yardstick.
_TOLERANCE = 0.75
_FEW_FOLDS = 3
_FIRST_START = 0  # its slot; it has the default settings in the automatic space


def best_of(records: Sequence[Record], objective: str) -> Record:
    """The trial with all folds and the best mean; the earlier one if two are equal."""
    candidates = finished(records)
    if not candidates:
        reasons = sorted({record.reason for record in records if record.reason})
        raise SearchError(
            f"none of {len(records)} trials could be evaluated"
            + (f": {reasons[0]}" if reasons else " in the time given: allow more of it")
        )
    return min(candidates, key=lambda record: (record.mean(objective, objective), record.slot))


def members_of(
    records: Sequence[Record], objective: str, count: int, starts: Sequence[Mapping[str, Any]]
) -> list[Record]:
    """The best trials of `count` different structures (kind of scale and degree).

    Models of one structure make much the same errors; different ones make up for each other.
    Candidates are the starts of the space and what has proved itself on some folds: of many
    other trials, one would look good on the screen by luck alone. The first start, which has
    the default settings in the automatic space, is always a member: the best of a search may
    be a lucky one. And it is what the others are compared with, fold by fold, because on few
    folds the best of many has the better luck. In a space of the user's own the first trial
    counts as such only if all that was suggested for it are values of the start.
    """
    best = best_of(records, objective)
    first = [r for r in finished(records) if r.slot == _FIRST_START and _has(r, starts[:1])]
    other = (first or [best])[0]
    enough = min(_FEW_FOLDS, len(other.folds))

    def behind(record: Record) -> float:
        n = len(record.folds)
        if n >= enough:
            mine, its = record.mean(objective, objective), other.mean(objective, objective, n)
        else:
            mine, its = record.screen_score(objective), other.screen_score(objective)
        if objective == "nll" or its == 0.0:
            return mine - its
        return mine / its - 1.0

    near = [r for r in records if r.copy_of is None and r.reason is None
            and (r.slot < len(starts) or len(r.folds) >= enough) and behind(r) <= _TOLERANCE]
    near.sort(key=lambda r: (behind(r), r.slot))
    chosen = [best, *(record for record in first if record is not best)]
    for record in near:
        if _structure(record) not in map(_structure, chosen):
            chosen.append(record)
    return chosen[:count]


def _has(record: Record, starts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a trial is one of the starts in everything that was suggested for it."""
    return any(record.parameters.items() <= start.items() for start in starts)


def _structure(record: Record) -> tuple[Any, Any]:
    return record.settings.get("scale"), record.settings.get("degree")


def pareto_front(records: Sequence[Record], objectives: Sequence[str]) -> list[Record]:
    """The finished trials that no other one beats in every objective."""
    candidates = [r for r in finished(records) if r.copy_of is None]
    points = np.array([[r.mean(name, objectives[0]) for name in objectives] for r in candidates])
    return [
        record for record, point in zip(candidates, points, strict=True)
        if not ((points <= point).all(axis=1) & (points < point).any(axis=1)).any()
    ]


def savings(records: Sequence[Record], n_splits: int) -> dict[str, float]:
    """Cholesky factorisations of this search, and of training every trial on every fold."""
    by_number = {record.number: record for record in records}
    spent, plain = 0, 0.0
    for record in records:
        source = record if record.copy_of is None else by_number.get(record.copy_of, record)
        spent += record.factorisations()
        counts = [r["factorisations"] for r in source.results.values() if "factorisations" in r]
        plain += n_splits * float(np.mean(counts)) if counts else 0.0
    return {
        "factorisations": spent,
        "plain_factorisations": round(plain),
        "share": spent / plain if plain else float("nan"),
        "n_fits": sum(r.n_fits() for r in records),
        "plain_n_fits": n_splits * len(records),
    }


def results_table(
    records: Sequence[Record], objectives: Sequence[str], n_splits: int
) -> dict[str, Any]:
    """`cv_results_`: one entry per trial, in the manner of scikit-learn."""
    lead = objectives[0]
    table: dict[str, Any] = {
        "trial": np.array([r.number for r in records]),
        "state": np.array([r.state.name.lower() for r in records]),
        "params": [r.parameters for r in records],
        "n_folds": np.array([len(r.folds) for r in records]),
        "steps": np.ma.masked_array(
            [0 if r.reason else r.step(lead) for r in records], [bool(r.reason) for r in records]
        ),
        "reason": np.array([r.reason for r in records], dtype=object),
        "copy_of": np.array([r.copy_of for r in records], dtype=object),
        "fit_time": np.array([r.fit_seconds() for r in records]),
        f"screen_{lead}": np.array([
            r.screen_score(lead) if r.has_scores else np.nan for r in records
        ]),
        # The best of many trials looks better than it is: `nested_cv` tells how good it is.
        "optimistic": np.ones(len(records), dtype=bool),
    }
    for name in OBJECTIVES:
        values = np.full((len(records), n_splits), np.nan)
        for row, record in zip(values, records, strict=True):
            if record.folds:
                step = str(record.step(lead))
                row[: len(record.folds)] = [f["scores"][step][name] for f in record.folds]
        for k in range(n_splits):
            table[f"split{k}_test_{name}"] = values[:, k]
        whole = ~np.isnan(values).any(axis=1)
        table[f"mean_test_{name}"] = np.where(whole, values.mean(axis=1), np.nan)
        table[f"std_test_{name}"] = np.where(whole, values.std(axis=1), np.nan)
    # Finished trials first, by their mean; then those that were stopped, by how far they came.
    order = sorted(range(len(records)), key=lambda i: (
        -len(records[i].folds),
        records[i].mean(lead, lead) if records[i].folds else np.inf,
        records[i].slot,
    ))
    rank = np.empty(len(records), dtype=int)
    rank[order] = np.arange(1, len(records) + 1)
    table[f"rank_test_{lead}"] = rank
    return table
