"""The automatic search: nested cross-validation, and its cost beside the plain loop.

    python benchmarks/search.py nested
    python benchmarks/search.py nested --only yacht,boston --folds 3 --json nested.json
    python benchmarks/search.py plain --only concrete

`nested` runs a search inside each outer fold of KFold(10, shuffle=True, random_state=SEED)
and scores its answer, the best single trial and the default setting on the outer fold's
rows, which the search never sees. `plain` runs one search on all rows, then evaluates
every one of its trials on every fold, and compares cost and result.

Both can be stopped at any time: finished folds are in the JSON file, and trials of
unfinished ones in journals beside it; the next run goes on there.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import KFold

import pcegp
from defaults import load
from pcegp import PCEGPRegressor, PCEGPSearchCV, __version__
from pcegp.errors import PCEGPWarning
from pcegp.io.files import write_text
from pcegp.metrics import scores
from pcegp.search.evaluation import evaluate
from pcegp.search.trials import mean_scores, records_of, signature

FloatArray = NDArray[np.float64]

# All ten outer folds where that is affordable, else the first three.
OUTER = {"slump": 10, "yacht": 10, "boston": 10, "heating": 10, "concrete": 3, "airfoil": 3}
# RMSE and NLL to be reached by the answer of the search.
BARS = {"yacht": (0.38, 0.0), "boston": (2.80, 2.42), "heating": (0.28, 0.15),
        "concrete": (3.70, 2.62), "airfoil": (0.95, 1.25)}
METHODS = ("default", "best trial", "search")


def nested_fold(name: str, args: argparse.Namespace, fold: int) -> dict[str, Any]:
    """One outer fold: the search's answer, its best trial and the default setting."""
    warnings.simplefilter("ignore", PCEGPWarning)
    X, y = load(args.data, name)
    splits = list(KFold(10, shuffle=True, random_state=args.seed).split(X))
    train, test = splits[fold]
    begin = perf_counter()
    search = PCEGPSearchCV(
        n_trials=args.trials, storage=args.work / f"{name}-{args.seed}-{fold}.journal"
    )
    search.fit(X[train], y[train])
    row: dict[str, Any] = {
        "data": name, "fold": fold, "trials": args.trials, "code": code(),
        "seconds": perf_counter() - begin, "savings": search.savings_,
        "inner_score": search.best_score_,
    }
    row["members"] = [
        {key: params[key] for key in ("scale", "degree", "penalty", "max_iter")}
        for params in search.ensemble_params_
    ]
    default = PCEGPRegressor(n_jobs=1).fit(X[train], y[train])
    for method, model in zip(METHODS, (default, search.best_estimator_, search), strict=True):
        row[method] = scores(y[test], *model.predict(X[test], return_std=True))
    return row


def code() -> str:
    """Digest of the package's source: rows of other code are not mixed unseen."""
    files = sorted(Path(pcegp.__file__).parent.rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def run_nested(args: argparse.Namespace) -> None:
    rows = json.loads(args.json.read_text())["rows"] if args.json.exists() else []
    rows = [row for row in rows if row["trials"] == args.trials]
    done = {(row["data"], row["fold"]) for row in rows}
    tasks = [(name, fold) for name in args.only for fold in range(args.folds or OUTER[name])
             if (name, fold) not in done]
    results: Iterator[dict[str, Any]] = Parallel(
        n_jobs=args.jobs, return_as="generator_unordered"
    )(delayed(nested_fold)(name, args, fold) for name, fold in tasks)
    for row in results:
        rows = sorted([*rows, row], key=lambda r: (list(OUTER).index(r["data"]), r["fold"]))
        report = {"version": __version__, "split": args.seed, "trials": args.trials, "rows": rows}
        write_text(args.json, json.dumps(report, indent=1) + "\n")
        print(f"{row['data']} fold {row['fold']}: {row['seconds']:.0f} s, "
              f"{row['savings']['share']:.0%} of the plain loop; RMSE / NLL", end="")
        for method in METHODS:
            print(f"  {method} {row[method]['RMSE']:.3f} / {row[method]['NLL']:.3f}", end="")
        print(flush=True)
    print_nested(rows, args.only)


def print_nested(rows: list[dict[str, Any]], names: list[str]) -> None:
    print("\nmean over outer folds, RMSE / NLL (95 % coverage)")
    for name in names:
        mine = [row for row in rows if row["data"] == name]
        if not mine:
            continue
        text = f"{name:9s} {len(mine):2d} folds"
        means = {m: {key: np.mean([row[m][key] for row in mine]) for key in mine[0][m]}
                 for m in METHODS}
        for method in METHODS:
            at = means[method]
            text += (f"  {method} {at['RMSE']:.3f} / {at['NLL']:.3f} "
                     f"({100 * at['coverage95']:.1f} %)")
        if name in BARS:
            held = all(means["search"][key] <= bar
                       for key, bar in zip(("RMSE", "NLL"), BARS[name], strict=True))
            text += f"  bar {BARS[name][0]} / {BARS[name][1]} {'held' if held else 'MISSED'}"
        ours, default = means["search"], means["default"]
        text += (f"; against the default RMSE {ours['RMSE'] / default['RMSE'] - 1.0:+.1%}, "
                 f"NLL {ours['NLL'] - default['NLL']:+.3f}")
        if len({row["code"] for row in mine}) > 1:
            text += "; NOT all rows are of the same code"
        print(text)


def run_plain(args: argparse.Namespace) -> None:
    for name in args.only:
        X, y = load(args.data, name)
        begin = perf_counter()
        search = PCEGPSearchCV(
            n_trials=args.trials, n_jobs=args.jobs, refit=False, verbose=True,
            storage=args.work / f"{name}-{args.seed}-all.journal", random_state=args.seed,
        ).fit(X, y)
        spent = search.savings_
        print(f"{name}: {perf_counter() - begin:.0f} s, {spent['factorisations']} Cholesky "
              f"factorisations, {spent['n_fits']} fits", flush=True)
        result = plain_loop(args, name, search, X, y)
        factor = spent["factorisations"] / result["factorisations"]
        print(f"plain loop: {result['factorisations']} factorisations, {result['n_fits']} fits; "
              f"the search took {factor:.1%}")
        print(f"best mean CRPS of the plain loop {result['best']:.4f}, of the search "
              f"{search.best_score_:.4f} ({search.best_score_ / result['best'] - 1:+.2%})")
        path = args.json.with_stem(f"{args.json.stem}-{name}") if len(args.only) > 1 else args.json
        write_text(path, json.dumps(
            {"version": __version__, "code": code(), "data": name, "trials": args.trials,
             "search": spent, "search_best": search.best_score_, "plain": result}, indent=1) + "\n")


def plain_loop(
    args: argparse.Namespace, name: str, search: PCEGPSearchCV, X: FloatArray, y: FloatArray
) -> dict[str, Any]:
    """Every trial on every fold; folds that the search has done are taken from it."""
    from optuna.trial import FixedTrial

    from pcegp.search.spaces import suggest_auto

    path = args.work / f"{name}-{args.seed}-plain.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    splits = list(KFold(10, shuffle=True, random_state=args.seed).split(X))
    records = records_of(search.study_)
    for record in records:
        for k, fold in enumerate(record.folds):
            known[f"{signature(record.settings)} {k}"] = fold
    tasks = {}
    for record in records:
        settings = suggest_auto(FixedTrial(record.parameters)) | {"noise_delay": 200}
        for k in range(len(splits)):
            key = f"{signature(record.settings)} {k}"
            if key not in known:
                tasks[key] = (settings, splits[k])
    keys = list(tasks)
    results = Parallel(n_jobs=args.jobs, return_as="generator")(
        delayed(evaluate)(tasks[key][0], X, y, tasks[key][1]) for key in keys
    )
    for number, (key, fold) in enumerate(zip(keys, results, strict=True), 1):
        known[key] = fold
        if number % 10 == 0 or number == len(keys):
            write_text(path, json.dumps(known))
            print(f"plain loop: {number} of {len(keys)} folds that the search left out", flush=True)
    trials = [[known[f"{signature(r.settings)} {k}"] for k in range(len(splits))] for r in records]
    whole = [folds for folds in trials if all("scores" in fold for fold in folds)]
    means = [min(at["crps"] for at in mean_scores(folds).values()) for folds in whole]
    return {"factorisations": sum(f["factorisations"] for folds in whole for f in folds),
            "n_fits": len(splits) * len(records), "best": min(means), "means": means,
            "failed_trials": len(trials) - len(whole)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["nested", "plain"])
    parser.add_argument("--data", type=Path, help="folder of CSV files")
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--folds", type=int, help="the first that many outer folds")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=Path("bench/search"), help="for journals")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    everything = "yacht,boston,heating,concrete,airfoil" if args.what == "nested" else "concrete"
    args.only = (args.only or everything).split(",")
    unknown = [name for name in args.only if name not in OUTER]
    if unknown:
        parser.error(f"unknown data {', '.join(unknown)}: choose from {', '.join(OUTER)}")
    args.work.mkdir(parents=True, exist_ok=True)
    args.json = args.json or args.work / f"{args.what}-{args.seed}.json"
    run_nested(args) if args.what == "nested" else run_plain(args)


if __name__ == "__main__":
    main()
