"""What `pcegp predict` and `pcegp evaluate` do: tables through a model, block by block."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pcegp import metrics
from pcegp._progress import bar
from pcegp.cli.table_models import Model, RangeCheck, ignored_columns, load_for_table
from pcegp.errors import DataError, ExtrapolationWarning, SettingError
from pcegp.io.files import check_writable, replacing, write_figures
from pcegp.io.tables import Block, Table, listed, open_table

Echo = Callable[[str], None]
FloatArray = NDArray[np.float64]

_BLOCK = 10_000  # rows in memory at a time


def predict(
    model_path: Path, data: Path, out: Path, interval: float, json_path: Path | None,
    show_bar: bool, echo: Echo,
) -> None:
    """Predict every row of a table; results stand beside its columns in a CSV file."""
    if not 0.0 < interval < 1.0:
        raise SettingError(f"--interval {interval:g} must lie between 0 and 1")
    for file in (out, json_path):
        if file is not None:
            check_writable(file)
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
    notes = check.notes()
    extra = ignored_columns(table.names, encoding)
    if extra:
        notes.insert(0, f"not used by the model: {listed(extra)}")
    echo(f"{check.rows:,} rows predicted by {model_path}, {interval:.0%} intervals")
    for note in notes:
        echo(f"Note: {note}")
    echo(f"\nPredictions written to {out}")
    write_figures(json_path, {
        "rows": check.rows, "outside_training_range": check.outside,
        "far_outside_training_range": check.far_columns(), "not_used": extra,
        "interval": interval,
    }, echo)


def evaluate(
    model_path: Path, data: Path, json_path: Path | None, show_bar: bool, echo: Echo
) -> None:
    """Score a model on a table that has the target."""
    if json_path is not None:
        check_writable(json_path)
    model, encoding = load_for_table(model_path)
    if not encoding.target:
        raise DataError(f"{model_path} does not know its target: fit it by pcegp fit")
    table = open_table(data)
    encoding.check_columns(table.names, with_target=True)
    check = RangeCheck(model, encoding.names)
    y, means, stds = [], [], []
    for block, X in _rows(table, encoding.inputs, show_bar):
        mean, std = _predict(model, X)
        check.add(X)
        y.append(encoding.targets(block))
        means.append(mean)
        stds.append(std)
    parts: Sequence[FloatArray] = [np.concatenate(part) for part in (y, means, stds)]
    scores = metrics.scores(*parts)
    echo(f"{check.rows:,} rows, target {encoding.target!r}")
    for name, value in scores.items():
        echo(f"  {name:10s} {value:.5g}")
    for note in check.notes():
        echo(f"Note: {note}")
    figures: dict[str, Any] = {"rows": check.rows, "outside_training_range": check.outside,
                               "far_outside_training_range": check.far_columns(), **scores}
    write_figures(json_path, figures, echo)


def _rows(
    table: Table, inputs: Callable[[Block], FloatArray], show_bar: bool
) -> Iterator[tuple[Block, FloatArray]]:
    size = table.size()
    with bar(show_bar, size and 100, "percent of the table") as progress:
        for block in table.blocks(_BLOCK):
            yield block, inputs(block)
            if progress is not None and size:
                progress(100 * block.position // size)


def _predict(model: Model, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    with warnings.catch_warnings():
        # Rows outside are counted for the whole table, not block by block.
        warnings.simplefilter("ignore", ExtrapolationWarning)
        # A matrix has no names; they were matched when it was made.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        mean, std = model.predict(X, return_std=True)
    return mean, std


@contextmanager
def _writer(path: Path, names: Sequence[str]) -> Iterator[Callable[..., None]]:
    """A function that appends rows and their predictions to a CSV file."""
    added = [name if name not in names else f"{name}_predicted"
             for name in ("mean", "std", "lower", "upper")]
    with path.open("w", encoding="utf-8", newline="") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow([*names, *added])

        def write(rows: Sequence[Sequence[Any]], *columns: FloatArray) -> None:
            figures = zip(*(column.tolist() for column in columns), strict=True)
            lines.writerows([*row, *values] for row, values in zip(rows, figures, strict=True))

        yield write
