"""Plans and rows of the benchmark, for the modules that test it."""

from __future__ import annotations

from pathlib import Path

from pcegp.benchmarks import protocols, summary
from pcegp.benchmarks.methods import BUDGETS

# A row as a fold gives it, but for its key.
ROW = {"n_train": 92, "n_test": 11, "n_known": 103, "version": "0.1", "date": "2026-01-01",
       "machine": "2 cores", "seconds": 1.0, "n_bad_variances": 0,
       **dict.fromkeys(summary.METRICS, 0.5)}


def plan_of(folder: Path, **changes) -> protocols.Plan:
    settings = {"protocol": "paper", "budget_name": "smoke", "budget": BUDGETS["smoke"],
                "methods": ["forest"], "data": ["slump"], "folder": None, "out": folder}
    return protocols.Plan(**{**settings, **changes})


def rows_of_folds(**folds):
    """Make rows on Slump for methods with so many folds of seeds 1, 2, …"""
    key = {"protocol": "paper", "budget": "full", "data": "slump"}
    return [{**key, **ROW, "method": method, "seed": seed, "fold": fold, "RMSE": 1.0 + seed + fold}
            for method, counts in folds.items() for seed, count in enumerate(counts, 1)
            for fold in range(count)]
