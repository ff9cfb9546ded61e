"""Does the model depend on units, on its start, on the luck of a design? Random problems.

    python benchmarks/robustness.py
    python benchmarks/robustness.py --only equivariance,branin --json robustness.json

equivariance  X and y times 1e-12 or 1e12, offsets of 1e9: predictions must be the same, to
              1e-6 of the target's spread
starts        the default fit beside one with 20 restarts (`n_restarts`), which takes the best
              optimum of a constant scale: how many nats the default's best evidence is behind
branin        the Branin function at 50 points, error over a grid, for three kinds of design
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import qmc

from pcegp import PCEGPRegressor, __version__
from pcegp._typing import FloatArray
from pcegp.errors import PCEGPWarning
from pcegp.io import write_figures

_STARTS = 20
_NATS = 0.5
_TOLERANCE = 1e-6


def problem(number: int) -> tuple[FloatArray, FloatArray, np.random.Generator]:
    """Make a smooth function of one to four inputs at 20 to 100 points, noisy or not."""
    rng = np.random.default_rng([7, number])
    n, d = int(rng.integers(20, 101)), int(rng.integers(1, 5))
    X = rng.uniform(size=(n, d))
    y = np.sin(rng.uniform(1, 12) * X[:, 0]) + X @ rng.normal(size=d)
    return X, y + rng.choice([0.0, 0.01, 0.1, 0.3]) * rng.normal(size=n), rng


def fitted(X: FloatArray, y: FloatArray, **settings: Any) -> PCEGPRegressor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PCEGPWarning)
        return PCEGPRegressor(n_jobs=1, **settings).fit(X, y)


def predicted(X: FloatArray, y: FloatArray, new: FloatArray) -> tuple[FloatArray, FloatArray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PCEGPWarning)
        mean, std = fitted(X, y).predict(new, return_std=True)
    return mean, std


def equivariance(number: int) -> dict[str, Any]:
    """Measure the largest change of mean and std, in units of the target's spread."""
    X, y, rng = problem(number)
    new = rng.uniform(0.1, 0.9, (20, X.shape[1]))
    mean, std = predicted(X, y, new)
    # An offset of 1e9 leaves seven digits of a value: the table itself is rounded by it, so
    # both tables get what it leaves.
    out = {}
    for name, a, b, c, e in (("X * 1e12", 1e12, 0.0, 1.0, 0.0), ("X * 1e-12", 1e-12, 0.0, 1.0, 0.0),
                             ("y * 1e12", 1.0, 0.0, 1e12, 0.0), ("y * 1e-12", 1.0, 0.0, 1e-12, 0.0),
                             ("X + 1e9", 1.0, 1e9, 1.0, 0.0), ("y + 1e9", 1.0, 0.0, 1.0, 1e9)):
        X0, y0, new0 = (X, y, new) if b == e == 0.0 else (
            (X + b) - b, (y + e) - e, (new + b) - b)
        before = (mean, std) if b == e == 0.0 else predicted(X0, y0, new0)
        other_mean, other_std = predicted(a * X0 + b, c * y0 + e, a * new0 + b)
        unit = c * y.std()
        out[name] = float(max(np.abs(other_mean - e - c * before[0]).max(),
                              np.abs(other_std - c * before[1]).max()) / unit)
    return out


def starts(number: int) -> dict[str, Any]:
    """Measure how far the default fit is behind one with many restarts, in nats of evidence.

    Restarts begin with multiples of the first scales, then with random ones, for every set of
    covariance functions and every map. The optimum of the least loss counts, whose evidence may
    be the smaller one: then the difference is negative.
    """
    X, y, _ = problem(number)
    own, best = (best_evidence(fitted(X, y, n_restarts=count)) for count in (0, _STARTS))
    return {"n": len(y), "behind": best - own}


def best_evidence(model: PCEGPRegressor) -> float:
    """Find the largest log evidence of the compared structures that reached an optimum."""
    found = [each["log_evidence"] for each in model.fit_info_["compared"]]
    return max((value for value in found if value is not None), default=float("-inf"))


def branin_function(U: FloatArray) -> FloatArray:
    """Compute the Branin function at points of the unit square."""
    x1, x2 = 15.0 * U[:, 0] - 5.0, 15.0 * U[:, 1]
    bend = x2 - 5.1 / (4 * np.pi**2) * x1**2 + 5.0 / np.pi * x1 - 6.0
    return np.asarray(bend**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x1) + 10.0)


def branin(seed: int) -> dict[str, Any]:
    """Measure the RMSE over a grid for each kind of design."""
    axis = np.linspace(0, 1, 60)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    designs = {"Sobol": qmc.Sobol(2, seed=seed).random(64)[:50],
               "Latin hypercube": qmc.LatinHypercube(2, seed=seed).random(50),
               "uniform": np.random.default_rng(seed).uniform(size=(50, 2))}
    out = {}
    for name, U in designs.items():
        model = fitted(U, branin_function(U))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PCEGPWarning)
            error = model.predict(grid) - branin_function(grid)
        out[name] = float(np.sqrt(np.mean(error**2)))
    return out


def report_equivariance(rows: list[dict[str, Any]]) -> None:
    for name in rows[0]:
        worst = max(row[name] for row in rows)
        verdict = "held" if worst <= _TOLERANCE else "MISSED"
        print(f"  {name:10s} largest change {worst:.1e}  {verdict}")


def report_starts(rows: list[dict[str, Any]]) -> None:
    behind = np.array([row["behind"] for row in rows])
    each = behind / np.array([row["n"] for row in rows])
    print(f"  within {_NATS} nat per point: {np.mean(each <= _NATS):.1%}; "
          f"in all: {np.mean(behind <= _NATS):.1%}; median in all {np.median(behind):.2f}")


def report_branin(rows: list[dict[str, Any]]) -> None:
    for name in rows[0]:
        errors = [row[name] for row in rows]
        print(f"  {name:15s} RMSE median {np.median(errors):.3f}, largest {max(errors):.3f}")


PARTS: dict[str, tuple[Callable[[int], dict[str, Any]], int,
                       Callable[[list[dict[str, Any]]], None]]] = {
    "equivariance": (equivariance, 200, report_equivariance),
    "starts": (starts, 200, report_starts),
    "branin": (branin, 10, report_branin),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--problems", type=int, help="instead of 200, and of 10 for branin")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    names = args.only.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    figures: dict[str, Any] = {"version": __version__}
    for name in names:
        work, count, report = PARTS[name]
        count = args.problems or count
        rows = list(Parallel(n_jobs=args.jobs)(delayed(work)(k) for k in range(count)))
        print(f"{name}, {count} problems", flush=True)
        report(rows)
        figures[name] = rows
    write_figures(args.json, figures, print)


if __name__ == "__main__":
    main()
