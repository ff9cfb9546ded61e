"""GPBoost and HHK GP with more folds, grid points or starts than `pcegp reproduce --budget short`.

    python benchmarks/slow_methods.py --only yacht
    python benchmarks/slow_methods.py --only yacht --methods gpboost --candidates 24
    python benchmarks/slow_methods.py --only yacht --methods hhk --starts 10 --json hhk.json

The short run has three folds of these methods, four points of GPBoost's grid and three starts of
the HHK GP. Is it that, where their errors differ from the paper's? Prints RMSE / NLL over the folds
of KFold(10, shuffle=True, random_state=0) beside the paper's, and the RMSE of each fold.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from pcegp.experiments.benchmark import Plan, fold_rows, tasks
from pcegp.experiments.methods import BUDGETS
from pcegp.experiments.summary import paper_value
from pcegp.files import write_figures

METHODS = ("gpboost", "hhk")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    short = BUDGETS["short"]
    parser.add_argument("--data", type=Path, help="folder of CSV files")
    parser.add_argument("--only", default="yacht")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--folds", type=int, default=10, help="the first that many of ten")
    parser.add_argument("--candidates", type=int, default=short.gpboost_candidates,
                        help="points of GPBoost's grid, drawn at random for every fold")
    parser.add_argument("--starts", type=int, default=short.hhk_starts, help="of the HHK GP")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    budget = replace(short, n_slow_folds=args.folds, gpboost_candidates=args.candidates,
                     hhk_starts=args.starts)
    plan = Plan("paper", "short", budget, args.methods.split(","), args.only.split(","),
                args.data, Path())
    found = Parallel(n_jobs=args.jobs)(delayed(fold_rows)(plan, [task]) for task in tasks(plan))
    rows = [row for group in found for row in group]
    for method in plan.methods:
        for data in plan.data:
            part = [row for row in rows if (row["method"], row["data"]) == (method, data)]
            good = [row for row in part if "error" not in row]
            rmse, nll = (np.mean([row[key] for row in good]) for key in ("RMSE", "NLL"))
            print(f"{data:9s}{method:9s} paper {paper_value(data, 'RMSE', method):.3f} / "
                  f"{paper_value(data, 'NLL', method):.2f}  ours {rmse:.3f} / {nll:.3g}, "
                  f"{len(good)} of {len(part)} folds:",
                  " ".join(f"{row['RMSE']:.2f}" for row in good), flush=True)
    write_figures(args.json, {"budget": vars(args) | {"data": None, "json": None}, "rows": rows},
                  print)


if __name__ == "__main__":
    main()
