"""The commands `pcegp predict` and `pcegp evaluate`: tables through a model, block by block."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from pcegp import metrics
from pcegp._progress import bar
from pcegp._typing import FloatArray
from pcegp.cli.output import Echo
from pcegp.cli.table_models import Model, RangeCheck, ignored_columns, load_for_table
from pcegp.errors import DataError, ExtrapolationWarning, SettingError, shown
from pcegp.io import (
    Block,
    Table,
    check_ending,
    listed,
    open_table,
    replacing,
    table_writer,
    write_figures,
)

_ADDED = ("mean", "std", "lower", "upper")
_PATH = 1000  # characters of a path in a message
_BLOCK = 10_000  # rows in memory at a time


def predict(
    model_path: Path, data: Path, out: Path, interval: float, json_path: Path | None,
    show_bar: bool, echo: Echo,
) -> None:
    """Predict every row of a table; results stand beside its columns in another table."""
    kind = check_ending(out)
    if not 0.0 < interval < 1.0:
        raise SettingError(f"--interval {interval:g} must lie between 0 and 1")
    model, encoding = load_for_table(model_path)
    table = open_table(data)
    encoding.check_columns(table.names)
    check = RangeCheck(model, encoding.names)
    factor = ndtri(0.5 + interval / 2)
    names = added_names(table.names)
    numeric = set(encoding.features) - set(encoding.categories)
    with replacing(out) as temporary, \
            table_writer(temporary, kind, table, names, numeric) as writer:
        for block, X in _rows(table, encoding.inputs, show_bar):
            mean, std = _predict(model, X)
            check.add(X)
            writer.write(block, [mean, std, mean - factor * std, mean + factor * std])
    echo(f"{check.rows:,} rows predicted by {shown(model_path, _PATH)}, {interval:.0%} intervals")
    extra = ignored_columns(table.names, encoding)
    if extra:
        echo(f"Note: not used by the model: {listed(extra)}")
    renamed = [name for name, usual in zip(names, _ADDED, strict=True) if name != usual]
    if renamed:
        echo(f"Note: the table has such columns itself; those added are {listed(renamed)}")
    if writer.texts:
        echo(f"Note: {writer.texts} cells that begin as formulas do were written as text")
    for note in check.notes():
        echo(f"Note: {note}")
    echo(f"\nPredictions written to {shown(out, _PATH)}")
    figures = {**check.figures(), "not_used": extra, "interval": interval,
               "columns": dict(zip(_ADDED, names, strict=True)), "written_as_text": writer.texts}
    write_figures(json_path, figures, echo)


def evaluate(
    model_path: Path, data: Path, json_path: Path | None, show_bar: bool, echo: Echo
) -> None:
    """Score a model on a table that has the target."""
    model, encoding = load_for_table(model_path)
    if not encoding.target:
        raise DataError(f"{shown(model_path, _PATH)} does not know its target: fit it by pcegp fit")
    table = open_table(data)
    encoding.check_columns(table.names, with_target=True)
    check = RangeCheck(model, encoding.names)
    parts = []
    for block, X in _rows(table, encoding.inputs, show_bar):
        check.add(X)
        parts.append((encoding.targets(block), *_predict(model, X)))
    scores = metrics.scores(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    echo(f"{check.rows:,} rows, target {listed([encoding.target])}")
    for name, value in scores.items():
        echo(f"  {name:10s} {value:.5g}")
    for note in check.notes():
        echo(f"Note: {note}")
    write_figures(json_path, {**check.figures(), **scores}, echo)


def added_names(names: Sequence[str]) -> list[str]:
    """Name the columns that predictions add to those of a table, none as one that it has."""
    taken = set(names)
    return [
        next(name for name in chain([base, f"{base}_predicted"],
                                    (f"{base}_predicted_{k}" for k in count(2)))
             if name not in taken)
        for base in _ADDED
    ]


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
