"""One default setting on all data: RMSE and NLL over the ten folds of a shuffled split.

    python benchmarks/defaults.py
    python benchmarks/defaults.py --only yacht,boston --json yacht_boston.json
    python benchmarks/defaults.py --only yacht --set penalty=1.0 --set n_restarts=3
    python benchmarks/defaults.py --seed 1

The split is KFold(10, shuffle=True, random_state=SEED), SEED 0 unless --seed says otherwise.
Nothing is tuned in a run, but the defaults were chosen on split 0: see docs/defaults.md. The
data are plain CSV files in the folder given by --data or PCEGP_DATA.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from pcegp import PCEGPRegressor, __version__
from pcegp.errors import PCEGPWarning
from pcegp.files import write_text
from pcegp.metrics import scores

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A target of a file, the bar for it, and the best of the six methods in the paper."""

    file: str
    target: str
    n_targets: int  # the last columns of the file
    bar: tuple[float, float] | None
    paper: tuple[float, float]


TASKS = {
    "boston": Task("boston", "medv_kusd", 1, (2.87, 2.50), (2.93, 2.51)),
    "concrete": Task("concrete", "compressive_strength_mpa", 1, (3.80, 2.66), (3.72, 2.67)),
    "yacht": Task("yacht", "residuary_resistance", 1, (0.42, 0.0), (0.39, -0.64)),
    "heating": Task("energy", "heating_load_kwh_m2", 2, (0.30, 0.25), (0.32, 0.62)),
    "cooling": Task("energy", "cooling_load_kwh_m2", 2, (0.45, 0.58), (0.50, 0.46)),
    "airfoil": Task("airfoil", "scaled_sound_pressure_level_db", 1, (1.08, 1.40), (1.05, 1.44)),
    "slump": Task("slump", "slump_cm", 3, None, (5.60, 3.32)),
    "wine_red": Task("wine_red", "quality", 1, None, (0.578, 1.377)),
}


def load(folder: Path, task: Task) -> tuple[FloatArray, FloatArray]:
    """Inputs and the target of a task."""
    path = folder / f"{task.file}.csv"
    with path.open(encoding="utf-8") as lines:
        names = lines.readline().strip().split(",")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, : -task.n_targets], table[:, names.index(task.target)]


def run_fold(
    X: FloatArray, y: FloatArray, seed: int, fold: int, settings: dict[str, Any]
) -> dict[str, float]:
    """Train on nine tenths, score on the rest."""
    train, test = list(KFold(10, shuffle=True, random_state=seed).split(X))[fold]
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PCEGPWarning)  # test rows outside the training box
        model = PCEGPRegressor(**settings).fit(X[train], y[train])
        mean, std = model.predict(X[test], return_std=True)
    return {**scores(y[test], mean, std), "seconds": perf_counter() - begin}


def run(
    name: str, folder: Path, seed: int, folds: range, settings: dict[str, Any], jobs: int
) -> list[dict[str, float]]:
    """All folds of one task, several at a time with one BLAS thread each."""
    X, y = load(folder, TASKS[name])
    work = (delayed(run_fold)(X, y, seed, fold, settings) for fold in folds)
    return list(Parallel(n_jobs=jobs)(work))


def line(name: str, rows: list[dict[str, float]]) -> str:
    """One task as a line of the table."""
    task = TASKS[name]
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    rmse, nll = mean["RMSE"], mean["NLL"]
    verdict = ""
    if task.bar is not None:
        held = rmse <= task.bar[0] and nll <= task.bar[1]
        verdict = f"{task.bar[0]:5.2f} / {task.bar[1]:5.2f}  {'held' if held else 'MISSED'}"
    worst = max(row["NLL"] for row in rows)
    return (
        f"{name:9s} {rmse:7.3f} / {nll:6.3f}  worst {worst:6.2f}  cov {mean['coverage95']:.3f}  "
        f"paper {task.paper[0]:5.2f} / {task.paper[1]:5.2f}  {mean['seconds']:6.1f} s  {verdict}"
    )


def setting(text: str) -> tuple[str, Any]:
    """A `name=value` of the command line; the value is a Python literal or a word."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("PCEGP_DATA", "../shared/data"))
    parser.add_argument("--only", default="boston,concrete,yacht,heating,cooling,airfoil,slump")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--folds", type=int, default=10, help="the first that many of ten")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--set", dest="settings", type=setting, action="append", default=[])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    names = args.only.split(",")
    unknown = [name for name in names if name not in TASKS]
    if unknown:
        parser.error(f"unknown data {', '.join(unknown)}: choose from {', '.join(TASKS)}")
    if not Path(args.data).is_dir():
        parser.error(f"no folder {args.data}: give one by --data or PCEGP_DATA")

    settings, results = dict(args.settings), {}
    print(f"pcegp {__version__}, split {args.seed}, mean of {args.folds} folds, RMSE / NLL; "
          f"{settings or 'default settings'}")
    for name in names:
        rows = run(name, Path(args.data), args.seed, range(args.folds), settings, args.jobs)
        results[name] = {"task": asdict(TASKS[name]), "folds": rows}
        print(line(name, rows), flush=True)
    if args.json is not None:
        report = {"version": __version__, "split": args.seed, "settings": settings,
                  "results": results}
        write_text(args.json, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
