"""The commands `pcegp predict` and `pcegp evaluate`: tables through a model, block by block."""

import csv
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from pcegp import metrics
from pcegp._progress import bar
from pcegp._typing import FloatArray
from pcegp.cli.output import Echo, check_outputs
from pcegp.cli.table_models import Model, RangeCheck, ignored_columns, load_for_table
from pcegp.errors import DataError, ExtrapolationWarning, SettingError
from pcegp.io import Block, Table, listed, open_table, replacing, write_figures

_BLOCK = 10_000  # rows in memory at a time


def predict(
    model_path: Path, data: Path, out: Path, interval: float, json_path: Path | None,
    show_bar: bool, echo: Echo,
) -> None:
    """Predict every row of a table; results stand beside its columns in a CSV file."""
    if not 0.0 < interval < 1.0:
        raise SettingError(f"--interval {interval:g} must lie between 0 and 1")
    check_outputs(out, json_path)
    if out.resolve() == data.resolve():
        raise SettingError(f"--out {out} is the table itself: choose another file")
    model, encoding = load_for_table(model_path)
    table = open_table(data)
    encoding.check_columns(table.names)
    check = RangeCheck(model, encoding.names)
    factor = ndtri(0.5 + interval / 2)
    with replacing(out) as temporary, _writer(temporary, table.names) as write:
        for block, X in _rows(table, encoding.inputs, show_bar):
            mean, std = _predict(model, X)
            check.add(X)
            write(block.rows, mean, std, mean - factor * std, mean + factor * std)
    echo(f"{check.rows:,} rows predicted by {model_path}, {interval:.0%} intervals")
    extra = ignored_columns(table.names, encoding)
    if extra:
        echo(f"Note: not used by the model: {listed(extra)}")
    for note in check.notes():
        echo(f"Note: {note}")
    echo(f"\nPredictions written to {out}")
    figures = {**check.figures(), "not_used": extra, "interval": interval}
    write_figures(json_path, figures, echo)


def evaluate(
    model_path: Path, data: Path, json_path: Path | None, show_bar: bool, echo: Echo
) -> None:
    """Score a model on a table that has the target."""
    check_outputs(json_path)
    model, encoding = load_for_table(model_path)
    if not encoding.target:
        raise DataError(f"{model_path} does not know its target: fit it by pcegp fit")
    table = open_table(data)
    encoding.check_columns(table.names, with_target=True)
    check = RangeCheck(model, encoding.names)
    parts = []
    for block, X in _rows(table, encoding.inputs, show_bar):
        check.add(X)
        parts.append((encoding.targets(block), *_predict(model, X)))
    scores = metrics.scores(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    echo(f"{check.rows:,} rows, target {encoding.target!r}")
    for name, value in scores.items():
        echo(f"  {name:10s} {value:.5g}")
    for note in check.notes():
        echo(f"Note: {note}")
    write_figures(json_path, {**check.figures(), **scores}, echo)


def _rows(
    table: Table, inputs: Callable[[Block], FloatArray], show_bar: bool
) -> Iterator[tuple[Block, FloatArray]]:
    """Read a table block by block, with the inputs of each."""
    size = table.size()
    with bar(show_bar, size and 100, "percent of the table") as progress:
        for block in table.blocks(_BLOCK):
            yield block, inputs(block)
            if progress is not None and size:
                progress(100 * block.position // size)


def _predict(model: Model, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Predict mean and deviation, without warnings that would come with every block."""
    with warnings.catch_warnings():
        # Rows outside are counted for the whole table, not block by block.
        warnings.simplefilter("ignore", ExtrapolationWarning)
        # A matrix has no names; they were matched when it was made.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        mean, std = model.predict(X, return_std=True)
    return mean, std


@contextmanager
def _writer(path: Path, names: Sequence[str]) -> Iterator[Callable[..., None]]:
    """Open a CSV file; yield a function that appends rows and their predictions."""
    added = [name if name not in names else f"{name}_predicted"
             for name in ("mean", "std", "lower", "upper")]
    with path.open("w", encoding="utf-8", newline="") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow([*names, *added])

        def write(rows: Sequence[Sequence[Any]], *columns: FloatArray) -> None:
            figures = zip(*(column.tolist() for column in columns), strict=True)
            lines.writerows([*row, *values] for row, values in zip(rows, figures, strict=True))

        yield write
