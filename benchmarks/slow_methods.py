"""The slow methods with more folds, grid points or starts than `pcegp reproduce --budget short`.

    python benchmarks/slow_methods.py --only yacht
    python benchmarks/slow_methods.py --only yacht --methods gpboost --candidates 24
    python benchmarks/slow_methods.py --only yacht --methods hhk --starts 10 --json hhk.json
    python benchmarks/slow_methods.py --only slump --methods dgp

The short run has three folds of the slow methods, four points of GPBoost's grid and three starts of
the HHK GP. Is it that, where their errors differ from the paper's? Prints RMSE / NLL over the folds
of KFold(10, shuffle=True, random_state=0) beside the paper's, and the RMSE of each fold.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from joblib import Parallel, delayed

from pcegp.benchmarks.methods import BUDGETS
from pcegp.benchmarks.protocols import Call, Plan, fold_row, tasks
from pcegp.benchmarks.summary import lines, paper_value
from pcegp.io import write_figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    short = BUDGETS["short"]
    parser.add_argument("--data", type=Path, help="folder of CSV files")
    parser.add_argument("--only", default="yacht")
    parser.add_argument("--methods", default="gpboost,hhk")
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
    rows = list(Parallel(n_jobs=args.jobs)(
        delayed(fold_row)(plan, Call(task)) for task in tasks(plan)
    ))
    for data in plan.data:
        for line in lines(rows, data):
            each = [row["RMSE"] for row in rows if (row["method"], row["data"]) ==
                    (line.method, data) and "error" not in row]
            ours, theirs = (
                " / ".join("–" if value is None else f"{value:.3f}" for value in pair) for pair in (
                    [line.means.get(metric) for metric in ("RMSE", "NLL")],
                    [paper_value(data, metric, line.method) for metric in ("RMSE", "NLL")],
                )
            )
            print(f"{data:9s}{line.method:9s} paper {theirs}  ours {ours}, {len(each)} of "
                  f"{line.n_folds} folds:", " ".join(f"{value:.2f}" for value in each),
                  line.reason or "", flush=True)
    write_figures(args.json, {"budget": vars(args) | {"data": None, "json": None}, "rows": rows},
                  print)


if __name__ == "__main__":
    main()
