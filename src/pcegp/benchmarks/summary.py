"""From rows of folds to the figures of a table: means, ranks, and the paper's beside them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pcegp.benchmarks.methods import METHODS
from pcegp.benchmarks.results_file import Row

METRICS = ("RMSE", "NLL", "MAE", "MedAE", "MSE", "R2", "CRPS", "coverage95")
_OF_INTERVALS = {"NLL", "CRPS", "coverage95"}  # what a method without a variance does not have
_LARGER_IS_BETTER = {"R2"}
_NOMINAL = 0.95
_LEAVES = 4  # local kernels of the HHK GP, where they converge
#: Names of the data in the paper's table.
PAPER_DATA = {
    "boston": "Boston Housing", "concrete": "Concrete Compressive", "yacht": "Yacht",
    "heating": "Energy Heating Load", "cooling": "Energy Cooling Load",
    "airfoil": "Airfoil Self Noise", "wine_red": "Wine Quality Red",
    "wine_white": "Wine Quality White", "slump": "Concrete Slump Test Slump",
}


@cache
def paper() -> dict[tuple[str, str, str], float]:
    """Read the paper's means by data set, metric and method; NaN where it failed."""
    path = Path(__file__).parent / "paper_results.csv"
    with path.open(encoding="utf-8", newline="") as lines:
        return {(r["dataset"], r["metric"], r["method"]): float(r["mean"] or "nan")
                for r in csv.DictReader(lines)}


def paper_value(data: str, metric: str, method: str) -> float | None:
    """Look up what the paper has for one of our methods; NaN where it did not converge."""
    return paper().get((PAPER_DATA.get(data, ""), metric, METHODS[method].paper or ""))


def paper_best(data: str, metric: str) -> float:
    """Look up the best of the paper's six methods."""
    return min(value for (name, kind, _), value in paper().items()
               if name == PAPER_DATA[data] and kind == metric and not np.isnan(value))


#: Seed and number of a fold.
Fold = tuple[int, int]


@dataclass(frozen=True)
class Line:
    """A method on a data set: means over its folds, ranks among methods with all of them."""

    method: str
    n_folds: int
    reason: str | None  # why folds have no scores, or what is odd about them
    means: dict[str, float]
    ranks: dict[str, int]
    worst_nll: float
    seconds: float

    @property
    def label(self) -> str:
        return METHODS[self.method].label


def fold_of(row: Row) -> Fold:
    """Tell which fold of which repetition a row is about."""
    return row["seed"], row["fold"]


def lines(rows: Sequence[Row], data: str, folds: Sequence[Fold] | None = None) -> list[Line]:
    """Sum up the methods on one data set, on all their folds or on some.

    Those without all the folds that some have get no ranks: other folds are easier or harder.
    """
    by_method = _by_method(rows, data, folds)
    means = {name: _means(part) for name, part in by_method.items()}
    every = set().union(*map(_folds, by_method.values()))
    fair = {name: means[name] for name, part in by_method.items() if _folds(part) == every}
    ranks = {metric: _ranks(metric, {n: m[metric] for n, m in fair.items() if metric in m})
             for metric in METRICS}
    return [
        Line(
            name, len(part), _reason(part), means[name],
            {metric: ranks[metric][name] for metric in METRICS if name in ranks[metric]},
            max(row["NLL"] for row in part) if "NLL" in means[name] else np.nan,
            float(np.mean([row["seconds"] for row in part])),
        )
        for name, part in by_method.items()
    ]


def tables(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[Line]]:
    """Sum up the methods on each data set that has rows."""
    return {data: found for data in names if (found := lines(rows, data))}


def _folds(rows: Sequence[Row]) -> set[Fold]:
    return {fold_of(row) for row in rows}


def _by_method(
    rows: Sequence[Row], data: str, folds: Sequence[Fold] | None
) -> dict[str, list[Row]]:
    mine = [row for row in rows
            if row["data"] == data and (folds is None or fold_of(row) in folds)]
    parts = {name: [row for row in mine if row["method"] == name] for name in METHODS}
    return {name: part for name, part in parts.items() if part}


def _means(rows: Sequence[Row]) -> dict[str, float]:
    """Average the metrics over the folds; none if a fold has no scores, or bad variances."""
    if any("error" in row for row in rows):
        return {}
    invalid = _OF_INTERVALS if any(row["n_bad_variances"] for row in rows) else set()
    return {metric: float(np.mean([row[metric] for row in rows])) for metric in METRICS
            if metric not in invalid}


def _reason(rows: Sequence[Row]) -> str | None:
    errors = [row["error"] for row in rows if "error" in row]
    if errors:
        return f"{len(errors)} of {len(rows)} folds failed: {errors[0]}"
    remarks = []
    bad = sum(row["n_bad_variances"] for row in rows)
    if bad:
        n_folds = sum(row["n_bad_variances"] > 0 for row in rows)
        remarks.append(f"no NLL: {bad} of {sum(row['n_test'] for row in rows)} variances, on "
                       f"{n_folds} of {len(rows)} folds, were not positive")
    fewer = sum(row.get("n_leaves_", _LEAVES) < _LEAVES for row in rows)
    if fewer:
        remarks.append(f"two local kernels on {fewer} of {len(rows)} folds")
    unfinished = sum(row.get("n_unfinished_", 0) for row in rows)
    if unfinished:
        remarks.append(f"{unfinished} starts ended at the limit of iterations")
    return "; ".join(remarks) or None


def _ranks(metric: str, values: dict[str, float]) -> dict[str, int]:
    """Rank from 1 for the best, equals alike; coverage is best where it is what it says."""
    def cost(value: float) -> float:
        if np.isnan(value):
            return np.inf
        if metric in _LARGER_IS_BETTER:
            return -value
        return abs(value - _NOMINAL) if metric == "coverage95" else value

    costs = {name: cost(value) for name, value in values.items()}
    return {name: 1 + sum(other < mine for other in costs.values())
            for name, mine in costs.items()}


def common_folds(rows: Sequence[Row], data: str) -> list[Fold]:
    """List the folds that every method of the data set has."""
    each = _folds_by_method(rows, data)
    return sorted(set.intersection(*each)) if each else []


def is_uneven(rows: Sequence[Row], data: str) -> bool:
    """Tell whether some methods lack folds that others have."""
    return len(set(map(frozenset, _folds_by_method(rows, data)))) > 1


def _folds_by_method(rows: Sequence[Row], data: str) -> list[set[Fold]]:
    return [_folds(part) for part in _by_method(rows, data, None).values()]


def victories(rows: Sequence[Row], method: str) -> dict[str, dict[str, Any]]:
    """Find where a method beats the best of the paper's six, by RMSE and by NLL."""
    out: dict[str, dict[str, Any]] = {}
    for metric in ("RMSE", "NLL"):
        mine = {data: line.means[metric] for data, found in tables(rows, list(PAPER_DATA)).items()
                for line in found if line.method == method and metric in line.means}
        won = [data for data, value in mine.items() if value < paper_best(data, metric)]
        out[metric] = {"won": won, "lost": [data for data in mine if data not in won],
                       "of": len(mine)}
    return out
