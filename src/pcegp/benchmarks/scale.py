"""`pcegp bench scale`: many rows, beside what users would pick for them.

Tables are generated, so that the truth is known, or come from a folder in the format of
github.com/treforevans/uci_datasets. Each fit runs in a process of its own, which is ended at the
time cap; so its peak memory is its own. Every result is appended to a file as it comes, and the
same command goes on where it was stopped.
"""

import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from pcegp import __version__
from pcegp._typing import FloatArray
from pcegp.benchmarks.extras import write_picture
from pcegp.benchmarks.filenames import SCALE_PICTURE, SCALE_RESULTS
from pcegp.benchmarks.protocols import machine
from pcegp.benchmarks.results_file import ResultsFile, Row, key_of
from pcegp.errors import DataError, unknown_name
from pcegp.io import write_figures
from pcegp.metrics import scores

SIZES = (1_000, 10_000, 100_000, 1_000_000)
GENERATED, _PROTOCOL = "generated", "scale"
_N_TEST = 10_000  # of a generated table
_END, _MASK_END = ".data.csv.gz", ".test_mask.csv.gz"
_COLUMNS = ("RMSE", "error_of_truth", "NLL", "coverage95", "seconds", "predict_seconds",
            "peak_gb")


def function(X: FloatArray) -> FloatArray:
    """Compute a non-stationary function of eight inputs between 0 and 1, (n, 8): (n,)."""
    quick = np.sin(6.0 * X[:, 0] + 10.0 * X[:, 0] * X[:, 1] ** 2)
    local = np.exp(-(((X[:, 2] - 0.5) / 0.15) ** 2)) * np.cos(15.0 * X[:, 3])
    smooth = X[:, 4] * X[:, 5] + 0.5 * np.abs(X[:, 6] - 0.3) + 0.2 * X[:, 7]
    return np.asarray(quick + local + smooth)


def _generated(n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Make inputs, targets with noise that grows with the first input, and the truth."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 8))
    truth = function(X)
    return X, truth + (0.05 + 0.15 * X[:, 0]) * rng.normal(size=n), truth


@dataclass(frozen=True)
class Task:
    """A method on a table: what a process of its own is told."""

    method: str
    data: str  # GENERATED, or the name of a table
    number: int  # rows to generate, or the split of a table
    share: float  # of the rows of a table that are trained on
    folder: Path | None

    @property
    def key(self) -> Row:
        """What the task is about, as a file of results knows it."""
        return {"protocol": _PROTOCOL, "budget": f"{self.share:.3g} of the rows",
                "method": self.method, "data": self.data, "seed": 0, "fold": self.number}

    def rows(self) -> tuple[Any, ...]:
        """Make training and test rows, and the truth at the test rows or None."""
        if self.data == GENERATED:
            X, y, _ = _generated(self.number, 0)
            X_test, y_test, truth = _generated(_N_TEST, 1)
            return X, y, X_test, y_test, truth
        assert self.folder is not None  # noqa: S101  # `tasks` has seen to it
        table = np.loadtxt(self.folder / f"{self.data}{_END}", delimiter=",")
        mask = np.loadtxt(self.folder / f"{self.data}{_MASK_END}", delimiter=",")
        is_test = mask[:, self.number] == 1.0
        train, test = table[~is_test], table[is_test]
        if self.share < 0.9:  # the other rows are test rows, too
            order = np.random.default_rng(self.number).permutation(len(table))
            count = round(self.share * len(table))
            train, test = table[order[:count]], table[order[count:]]
        return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1], None


def _exact(_: int) -> Any:
    from pcegp import PCEGPRegressor

    return PCEGPRegressor(inference="exact")


def _neighbours(_: int) -> Any:
    from pcegp import PCEGPRegressor

    return PCEGPRegressor(inference="neighbours")


def _peer(name: str) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from pcegp.benchmarks.baselines import many_rows

        model = getattr(many_rows, name)()
        if hasattr(model, "random_state"):
            model.random_state = seed
        return model

    return make


METHODS: dict[str, Callable[[int], Any]] = {
    "exact": _exact, "neighbours": _neighbours, "lightgbm": _peer("LightGBM"),
    "svgp": _peer("InducingPoints"), "gpboost": _peer("GPBoostNeighbours"),
}


def _work(task: Task, connection: Connection) -> None:
    """Train, predict and score in this process, and send what came out."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, truth = task.rows()
    row: Row = {"n_train": len(X), "n_test": len(X_test), "n_known": len(X) + len(X_test)}
    begin = perf_counter()
    try:
        model = METHODS[task.method](task.number).fit(X, y)
        row["seconds"] = perf_counter() - begin
        begin = perf_counter()
        mean, std = model.predict(X_test, return_std=True)
        row["predict_seconds"] = perf_counter() - begin
        row |= scores(y_test, mean, std)
        if truth is not None:
            row["error_of_truth"] = float(np.sqrt(np.mean((mean - truth) ** 2)))
    except Exception as error:  # other libraries raise whatever they like
        row["seconds"] = perf_counter() - begin
        row["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    with suppress(ImportError):  # not all systems tell
        import resource

        row["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    connection.send(row)


def _result(task: Task, cap: float) -> Row:
    """Run a task in a process of its own, for so many seconds at most."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(task, theirs))
    process.start()
    theirs.close()
    try:
        row: Row = ours.recv() if ours.poll(cap) else {"error": f"above the cap of {cap:g} s",
                                                       "seconds": cap}
    except EOFError:
        row = {"error": "the process ended, for want of memory perhaps", "seconds": 0.0}
    finally:
        process.kill()
        process.join()
    facts = {"n_train": 0, "n_test": 0, "n_known": 0, "version": __version__,
             "date": datetime.now(UTC).date().isoformat(), "machine": machine()}
    return {**task.key, **facts, **row}


def tasks(
    methods: Sequence[str], sizes: Sequence[int], names: Sequence[str], splits: Sequence[int],
    share: float, folder: Path | None,
) -> list[Task]:
    """List what is asked for, the small tables first."""
    for method in methods:
        if method not in METHODS:
            raise unknown_name("method", method, METHODS)
    for name in names:
        if folder is None or not (folder / f"{name}{_END}").is_file():
            raise DataError(f"table {name!r} is not in the collection: give its folder by "
                            f"--collection, with {name}{_END} in it")
    each = [(GENERATED, size) for size in sorted(sizes)]
    each += [(name, split) for name in names for split in splits]
    return [Task(method, data, number, share, folder)
            for data, number in each for method in methods]


def _cell(row: Row, name: str) -> str:
    return f"{row[name]:15.4g}" if name in row else " " * 14 + "-"


def table(rows: Sequence[Row]) -> str:
    """Write a line for each result."""
    lines = [f"{'data':14s}{'rows or split':>14s}  {'method':11s}"
             + "".join(f"{name:>15s}" for name in _COLUMNS)]
    lines += [f"{row['data']:14s}{row['fold']:14,d}  {row['method']:11s}"
              + "".join(_cell(row, name) for name in _COLUMNS)
              + (f"  {row['error']}" if "error" in row else "")
              for row in rows]
    return "\n".join(lines)


def main(
    chosen: Sequence[Task], cap: float, out: Path, json_path: Path | None,
    echo: Callable[[str], None],
) -> None:
    """Compute what the file of results does not have, print the table, and draw the curves."""
    results = ResultsFile(out / SCALE_RESULTS)
    with results.alone():
        missing = [task for task in chosen if results.get(key_of(task.key)) is None]
        for number, task in enumerate(missing, 1):
            row = _result(task, cap)
            results.append(row)
            said = row.get("error") or f"RMSE {row['RMSE']:.4g}, NLL {row['NLL']:.3f}"
            echo(f"{number} of {len(missing)}: {task.data} {task.number:,} {task.method}, "
                 f"{row['seconds']:.1f} s, {said}")
    known = (results.get(key_of(task.key)) for task in chosen)
    rows = [found for found in known if found is not None]
    echo("\n" + table(rows))
    write_figures(json_path, {"version": __version__, "rows": rows}, echo)
    curves = [row for row in rows if row["data"] == GENERATED and "error" not in row]
    if curves:
        write_picture(out / SCALE_PICTURE, lambda path: _draw(curves, path), echo)


def _draw(rows: Sequence[Row], path: Path) -> None:
    """Draw error, density, time and memory by the number of rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    panels = (("error_of_truth", "error of the truth"), ("NLL", "NLL"),
              ("seconds", "seconds of a fit"), ("peak_gb", "peak memory, GB"))
    for ax, (name, title) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for method in METHODS:
            mine = sorted((row["fold"], row[name]) for row in rows
                          if row["method"] == method and name in row)
            if mine:
                ax.plot(*zip(*mine, strict=True), marker="o", label=method)
        ax.set(xscale="log", xlabel="rows", title=title)
        if name != "NLL":
            ax.set_yscale("log")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, format="png", dpi=120)
