"""The default model beside others on many tables: errors, intervals and seconds.

    python benchmarks/collection.py --collection FOLDER
    python benchmarks/collection.py --collection FOLDER --only autos,yacht --splits 5-9
    python benchmarks/collection.py --collection FOLDER --methods pcegp --set penalty=1.0 \\
        --label "penalty 1"

A collection is a folder of NAME.data.csv.gz (no header, the last column is the target) and
NAME.test_mask.csv.gz (ten columns of 0 and 1, the test rows of ten splits), as in
github.com/treforevans/uci_datasets. To these come the nine targets of the paper, in the folds of
KFold(10, shuffle=True, random_state=5), or of a GroupKFold that keeps equal wines together. At
most 2,000 training rows and as many test rows of a split are used, drawn at random.

Every result is appended to a file (--out) as it comes: the same command goes on where it was
stopped. The table shows all that the file has for the chosen tables and splits, so settings of
ours (--set, under a --label) are compared with peers of an earlier run. After a change of the
code, too, ours needs another --label. Every method has one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from defaults import setting
from pcegp import PCEGPRegressor, __version__, datasets
from pcegp._kinds import Kind
from pcegp._typing import FloatArray, IntArray
from pcegp.benchmarks.baselines import ForestGaussian
from pcegp.benchmarks.baselines.scaled import ScaledRegressor
from pcegp.benchmarks.executors import workers
from pcegp.benchmarks.methods import BUDGETS, METHODS, Budget, Method
from pcegp.benchmarks.protocols import DATA, Split, machine, splits
from pcegp.benchmarks.results_file import ResultsFile, Row, key_of
from pcegp.errors import (
    DataError,
    MissingPackageError,
    PCEGPError,
    SettingError,
    needed,
    unknown_name,
)
from pcegp.io import output_path, write_figures
from pcegp.metrics import scores

OURS = "pcegp"
_OWN = "own splits"  # the protocol of a collection
_SEED = 5  # of folds, and of the choice of rows
_N_SPLITS = 10
_END, _MASK_END = ".data.csv.gz", ".test_mask.csv.gz"
_COLUMNS = ("RMSE", "NLL", "CRPS", "coverage95", "seconds", "n_factorisations")
_CLOSE = 0.02  # an NLL this near to the best counts as the best


@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesGaussian(ForestGaussian):
    """Extremely randomised trees, each of a bootstrap sample of the rows.

    Of leaves of at least 1, 3 and 10 rows those are taken whose mean squared error out of the bag
    is the least. The variance is that of the trees' predictions at the point, plus this error,
    which is the same everywhere. Noise is partly in both, so the intervals are rather wide.

    Parameters
    ----------
    n_trees : trees
    random_state : seed
    """

    n_trees: int = 300

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        found = []
        for rows in (1, 3, 10):
            forest = ExtraTreesRegressor(
                self.n_trees, min_samples_leaf=rows, bootstrap=True, oob_score=True,
                random_state=self.random_state, n_jobs=1,
            ).fit(X, y)
            found.append((float(np.mean((y - forest.oob_prediction_) ** 2)), forest))
        self._error, self._forest = min(found, key=lambda pair: pair[0])

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, spread = super()._posterior(X)
        return mean, spread + self._error


@dataclass(kw_only=True, eq=False, repr=False)
class MaternGP(ScaledRegressor):
    """Scikit-learn's process with a Matérn covariance, one length scale per standardised input.

    It has two restarts with up to 1,000 rows, and none with more.

    Parameters
    ----------
    random_state : seed of the restarts
    """

    random_state: int = 0

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        kernel = ConstantKernel() * Matern(np.ones(X.shape[1]), nu=2.5) + WhiteKernel()
        self._model = make_pipeline(StandardScaler(), GaussianProcessRegressor(
            kernel, normalize_y=True, n_restarts_optimizer=2 if len(y) <= 1000 else 0,
            random_state=self.random_state,
        )).fit(X, y)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, deviation = self._model.predict(X, return_std=True)
        return mean, deviation**2


def _extra_trees(_: Budget, seed: int) -> ExtraTreesGaussian:
    return ExtraTreesGaussian(random_state=seed)


def _matern(_: Budget, seed: int) -> MaternGP:
    return MaternGP(random_state=seed)


PEERS = {
    "catboost": METHODS["catboost"],
    "extra_trees": Method("extra trees", _extra_trees),
    "matern": Method("Matérn GP", _matern),
    "ard5": METHODS["ard5"],
}


@dataclass(frozen=True)
class Table:
    """Where a table is, and how its rows are split."""

    file: str
    folder: Path | None
    protocol: str


def tables(collection: Path | None, data: Path | None) -> dict[str, Table]:
    """List the tables by name: those of the collection, then the nine targets."""
    found = {}
    if collection is not None:
        files = sorted(path.name.removesuffix(_END) for path in collection.glob(f"*{_END}"))
        if not files:
            raise DataError(f"--collection {collection}: there is no NAME{_END} in it")
        for file in files:  # some of the nine are also in collections, with other splits
            name = f"{file}_collection" if file in DATA else file
            found[name] = Table(file, collection, _OWN)
    for name in DATA:
        found[name] = Table(name, data, "honest" if name.startswith("wine") else "paper")
    return found


@lru_cache(maxsize=1)
def read(table: Table) -> tuple[FloatArray, FloatArray, IntArray | None, list[Split]]:
    """Read inputs, target, groups if rows are kept together, and the splits."""
    if table.protocol == _OWN:
        return _read_own(table)
    data = datasets.load(table.file, table.folder)
    X, y, groups = data.X.to_numpy(), data.y.to_numpy(), data.groups
    dealt = splits(table.protocol, X, groups, _SEED)
    return X, y, groups if table.protocol == "honest" else None, dealt


def _read_own(table: Table) -> tuple[FloatArray, FloatArray, None, list[Split]]:
    path = Path(table.folder or ".") / table.file
    values = np.loadtxt(f"{path}{_END}", delimiter=",", ndmin=2)
    masks = np.loadtxt(f"{path}{_MASK_END}", delimiter=",", ndmin=2).astype(bool)
    if masks.shape != (len(values), _N_SPLITS):
        raise DataError(f"{path}{_MASK_END} must have {len(values)} rows of {_N_SPLITS} columns, "
                        f"as many rows as the table; it has {masks.shape[0]} of {masks.shape[1]}")
    dealt = [(np.flatnonzero(~mask), np.flatnonzero(mask)) for mask in masks.T]
    return values[:, :-1], values[:, -1], None, dealt


def drawn(split: Split, most: int, number: int) -> Split:
    """Draw at most so many training and test rows of a split."""
    rng = np.random.default_rng([_SEED, number])
    train, test = (rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
                   for rows in split)
    return train, test


@dataclass(frozen=True)
class Plan:
    """What is compared."""

    tables: Mapping[str, Table]
    splits: Sequence[int]
    methods: Sequence[str]  # peers, and OURS
    label: str  # the name under which ours has its rows
    settings: Mapping[str, Any]
    n_rows: int

    @property
    def budget(self) -> str:
        """Name what the rows of a results file have in common."""
        return f"{self.n_rows} rows"

    def missing(self, results: ResultsFile) -> list[Row]:
        """List the keys of rows that the file does not have, table by table."""
        names = [self.label if name == OURS else name for name in self.methods]
        keys = [{"protocol": table.protocol, "budget": self.budget, "method": name, "data": data,
                 "seed": _SEED, "fold": split}
                for data, table in self.tables.items() for split in self.splits for name in names]
        return [key for key in keys if results.get(key_of(key)) is None]


@dataclass(frozen=True)
class Work:
    """A method on a split, with the rows that it gets."""

    row: Row  # what is known about it beforehand
    settings: Mapping[str, Any]  # of ours
    train: tuple[FloatArray, FloatArray, IntArray | None]  # inputs, target, groups
    test: tuple[FloatArray, FloatArray]

    def model(self) -> Any:
        """Make the model."""
        name = self.row["method"]
        if name in PEERS:
            return PEERS[name].make(BUDGETS["full"], 0)
        return PCEGPRegressor(**self.settings)


def prepared(plan: Plan, keys: Sequence[Row]) -> Iterator[Work]:
    """Take the rows of each split, when its turn comes."""
    for key in keys:
        X, y, groups, dealt = read(plan.tables[key["data"]])
        train, test = drawn(dealt[key["fold"]], plan.n_rows, key["fold"])
        row = {**key, "n_train": len(train), "n_test": len(test), "n_known": len(y),
               "version": __version__, "date": datetime.now(UTC).date().isoformat(),
               "machine": machine()}
        if key["method"] not in PEERS:
            row["settings"] = dict(plan.settings)
        yield Work(row, plan.settings, (X[train], y[train], None if groups is None
                                        else groups[train]), (X[test], y[test]))


def finished(work: Work) -> Row:
    """Train and score, or say why there are no scores."""
    model = work.model()
    X, y, groups = work.train
    own = {} if groups is None or "groups" not in signature(model.fit).parameters else {
        "groups": groups}
    begin = perf_counter()
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
        try:
            mean, std = model.fit(X, y, **own).predict(work.test[0], return_std=True)
        except (ImportError, OSError, MemoryError, SettingError):
            raise  # of this machine or the command, not of the method
        except Exception as error:  # other libraries raise whatever they like
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            return {**work.row, "seconds": perf_counter() - begin, "error": reason}
    row = {**work.row, "seconds": perf_counter() - begin}
    if isinstance(model, PCEGPRegressor):
        if model.was_interrupted():
            raise KeyboardInterrupt  # what was trained until then must not pass for the whole
        row["n_factorisations"] = model.fit_info_["n_factorisations"]
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0.0).all()):
        return {**row, "error": "predictions are not finite, or without a deviation"}
    return {**row, **scores(work.test[1], mean, std)}


def run(plan: Plan, results: ResultsFile, jobs: int) -> None:
    """Compute what the file does not have, and append each row as it comes."""
    missing = plan.missing(results)
    with workers(jobs, None) as spread:
        for count, row in enumerate(spread(finished, prepared(plan, missing)), 1):
            results.append(row)
            found = row.get("error") or f"RMSE {row['RMSE']:.4g}, NLL {row['NLL']:.3f}"
            print(f"{count} of {len(missing)}: {row['data']} {row['fold']} {row['method']}, "
                  f"{row['seconds']:.1f} s, {found}", file=sys.stderr, flush=True)


#: The rows of a method on a table, by split.
Folds = dict[int, Row]


def collected(plan: Plan, results: ResultsFile) -> dict[str, dict[str, Folds]]:
    """Sort all rows on the chosen tables and splits by table, method (ours first) and split."""
    rows = [row for row in results.rows
            if row["budget"] == plan.budget and row["data"] in plan.tables
            and row["protocol"] == plan.tables[row["data"]].protocol
            and row["fold"] in plan.splits]
    order = {name: place for place, name in enumerate(PEERS, 1)}
    rows.sort(key=lambda row: (order.get(row["method"], 0), row["fold"]))
    out: dict[str, dict[str, Folds]] = {data: {} for data in plan.tables}
    for row in rows:
        out[row["data"]].setdefault(row["method"], {})[row["fold"]] = row
    return {data: methods for data, methods in out.items() if methods}


def scored(folds: Folds) -> Folds:
    """Leave out the splits on which a method failed."""
    return {split: row for split, row in folds.items() if "error" not in row}


def means(folds: Folds) -> dict[str, float]:
    """Compute the means over splits of what the table shows."""
    return {name: float(np.mean([row[name] for row in folds.values()])) for name in _COLUMNS
            if folds and all(name in row for row in folds.values())}


def line(data: str, method: str, folds: Folds) -> str:
    """Write a method on a table as a line."""
    good, failed = scored(folds), len(folds) - len(scored(folds))
    text = f"{data:20s} {method:16s} {len(good):6d} "
    if good:
        mean = means(good)
        text += (f"{mean['RMSE']:10.4g} {mean['NLL']:9.3f} {mean['CRPS']:10.4g} "
                 f"{mean['coverage95']:8.3f} {mean['seconds']:9.1f} ")
        if "n_factorisations" in mean:
            text += f"{mean['n_factorisations']:14.0f}"
    return text.rstrip() + (f"  failed on {failed}" if failed else "")


def compared(own: Folds, peers: Mapping[str, Folds]) -> dict[str, float] | None:
    """Compare ours with the best peer by each score, on our splits; peers must have them all."""
    ours = means(own)
    theirs = [means({split: folds[split] for split in own}) for folds in peers.values()
              if own.keys() <= folds.keys()]
    if not ours or not theirs:
        return None
    best = {name: min(each[name] for each in theirs) for name in ("RMSE", "NLL", "CRPS")}
    return {"RMSE": ours["RMSE"] / best["RMSE"], "CRPS": ours["CRPS"] / best["CRPS"],
            "NLL": ours["NLL"] - best["NLL"]}


def summary(label: str, found: Mapping[str, Mapping[str, Folds]]) -> dict[str, Any]:
    """Sum up one of ours over the tables: ratios of scores, and what is left out."""
    known = [name for name in PEERS if any(name in methods for methods in found.values())]
    ratios, absent, failed = {}, [], 0
    for data, methods in found.items():
        if label not in methods:
            continue
        own = scored(methods[label])
        failed += len(methods[label]) - len(own)
        peers = {name: scored(methods.get(name, {})) for name in known}
        absent += [f"{name} on {data}" for name, folds in peers.items()
                   if not own.keys() <= folds.keys()]
        ratio = compared(own, peers)
        if ratio is not None:
            ratios[data] = ratio
    return {"peers": known, "tables": ratios, "absent": absent, "n_failed": failed}


def sentences(label: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Write a summary as text."""
    ratios = found["tables"]
    if ratios:
        yield f"{label} over the best of {', '.join(found['peers'])} (tables: {len(ratios)}):"
        for score in ("RMSE", "CRPS"):
            each = {data: ratio[score] for data, ratio in ratios.items()}
            mean = np.exp(np.mean(np.log(list(each.values()))))
            worst = max(each, key=each.__getitem__)
            yield (f"  {score} times {mean:.3f} (geometric mean), at worst {each[worst]:.3f} "
                   f"({worst})")
        close = sum(ratio["NLL"] <= _CLOSE for ratio in ratios.values())
        yield f"  NLL the best, or within {_CLOSE} of it, on {close} of {len(ratios)}"
    else:
        yield f"{label}: no peer has the same splits"
    if found["absent"]:
        yield f"  Without some of its splits, so not compared: {', '.join(found['absent'])}"
    if found["n_failed"]:
        yield f"  It failed on {found['n_failed']} splits, which are left out"


def report(plan: Plan, results: ResultsFile, path: Path | None) -> None:
    """Print the table and what it comes to; write the figures if asked."""
    found = collected(plan, results)
    print(f"{'table':20s} {'method':16s} {'splits':>6s} {'RMSE':>10s} {'NLL':>9s} {'CRPS':>10s} "
          f"{'coverage':>8s} {'seconds':>9s} {'factorisations':>14s}")
    for data, methods in found.items():
        for method, folds in methods.items():
            print(line(data, method, folds))
    labels = dict.fromkeys(name for methods in found.values() for name in methods
                           if name not in PEERS)
    summaries = {label: summary(label, found) for label in labels}
    for label, each in summaries.items():
        print("", *sentences(label, each), sep="\n")
    rows = {data: {method: {"mean": means(scored(folds)), "splits": list(folds.values())}
                   for method, folds in methods.items()} for data, methods in found.items()}
    write_figures(path, {"version": __version__, "n_rows": plan.n_rows, "summaries": summaries,
                         "tables": rows}, print)


def split_numbers(text: str) -> list[int]:
    """Read numbers and ranges of splits, such as 0,5-9."""
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise argparse.ArgumentTypeError(f"{text!r}: write splits as 0,5-9")
        out += range(int(first), int(last or first) + 1)
    if not out or not set(out) <= set(range(_N_SPLITS)):
        raise argparse.ArgumentTypeError(f"{text!r}: splits go from 0 to {_N_SPLITS - 1}")
    return sorted(set(out))


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", type=Path, help="folder of tables with their own splits")
    parser.add_argument("--data", type=Path, help="folder of CSV files of the nine targets")
    parser.add_argument("--only", help="names of tables, with commas between them")
    parser.add_argument("--splits", type=split_numbers, default="0-9", help="such as 0,5-9")
    parser.add_argument("--methods", default=",".join((OURS, *PEERS)), help="default: %(default)s")
    parser.add_argument("--rows", type=int, default=2000, help="for training and for test, at most")
    parser.add_argument("--set", dest="settings", type=setting, action="append", default=[],
                        metavar="NAME=VALUE", help="a setting of ours")
    parser.add_argument("--label", default=OURS, help="name of ours with these settings")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("reproduce/collection.jsonl"),
                        help="file that results are appended to (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="file for the figures of the table")
    return parser.parse_args(words)


def planned(args: argparse.Namespace) -> Plan:
    """Check what is asked for."""
    known = tables(args.collection, args.data)
    names = list(known) if args.only is None else args.only.split(",")
    methods = list(dict.fromkeys(args.methods.split(",")))
    for option, chosen, choices in (("only", names, known), ("methods", methods, (OURS, *PEERS))):
        for name in chosen:
            if name not in choices:
                raise unknown_name(option, name, choices)
    if args.label in PEERS:
        raise SettingError(f"--label {args.label} is the name of a peer: choose another")
    if args.rows < 1 or args.jobs == 0:
        raise SettingError("--rows must be 1 or more, --jobs 1 or more, or -1 for all cores")
    for name in methods:
        for package in PEERS[name].needs if name in PEERS else ():
            try:
                needed(package, name)
            except MissingPackageError as error:
                raise SettingError(f"{error}, or choose others by --methods") from error
    settings = json.loads(json.dumps(dict(args.settings)))  # as they are read from the file
    strangers = settings.keys() - PCEGPRegressor().get_params().keys()
    if strangers:
        raise SettingError(f"--set {', '.join(sorted(strangers))}: PCEGPRegressor has no such "
                           "parameter")
    return Plan({name: known[name] for name in names}, args.splits, methods, args.label, settings,
                args.rows)


def check_label(plan: Plan, results: ResultsFile) -> None:
    """Refuse rows of other settings under the same label."""
    if OURS in plan.methods and any(row["method"] == plan.label and
                                    row["settings"] != plan.settings for row in results.rows):
        raise SettingError(f"{results.path} has results of {plan.label!r} with other settings: "
                           "choose another --label or --out")


def main(words: Sequence[str] | None = None) -> None:
    args = arguments(words)
    try:
        plan = planned(args)
        if args.json is not None:
            output_path(args.json, Kind.JSON, force=False)
        results = ResultsFile(args.out)
        with results.alone():
            check_label(plan, results)
            run(plan, results, args.jobs)
        report(plan, results, args.json)
    except (PCEGPError, MemoryError) as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nStopped: the same command goes on")


if __name__ == "__main__":
    main()
