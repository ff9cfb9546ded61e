"""The commands `pcegp predict` and `pcegp evaluate`: tables through a model, block by block."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path

import numpy as np

from pcegp import metrics
from pcegp._progress import bar
from pcegp._typing import FloatArray
from pcegp.cli.intervals import Ends
from pcegp.cli.table_models import Model, RangeCheck, ignored_columns, load_for_table
from pcegp.cli.terminal import Echo, stage
from pcegp.errors import DataError, ExtrapolationWarning, shown
from pcegp.io import (
    Block,
    Encoding,
    Table,
    Writer,
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
    model_path: Path, data: Path, out: Path, ends: Ends, json_path: Path | None, show_bar: bool,
    echo: Echo,
) -> None:
    """Predict every row of a table; results stand beside its columns in another table."""
    kind = check_ending(out)
    with stage(f"loading {model_path}"):
        model, encoding = load_for_table(model_path)
    table = open_table(data)
    encoding.check_columns(table.names)
    check = RangeCheck(model, encoding.names)
    names = added_names(table.names)
    numeric = set(encoding.features) - set(encoding.categories)
    if ends.trains:  # which takes long, so faults of the table are found before
        for _ in _rows(table, encoding.inputs, show_bar, "percent of the table checked"):
            pass
    with _quiet_about_names():
        ends_at, told = ends.of(model, show_bar)
    with replacing(out) as temporary, ExitStack() as open_files:
        with stage(f"reading {data}"):  # to see whether the target is numbers
            writer = open_files.enter_context(
                table_writer(temporary, kind, table, names, numeric, encoding.target))
        for block, X in _rows(table, encoding.inputs, show_bar):
            mean, std = _predict(model, X)
            with _quiet_about_names():
                lower, upper = ends_at(X, mean, std)
            check.add(X)
            writer.write(block, [mean, std, lower, upper])
    echo(f"{check.rows:,} rows predicted by {shown(model_path, _PATH)}; {told}")
    extra = ignored_columns(table.names, encoding)
    for note in _notes(table, encoding, names, writer, check):
        echo(f"Note: {note}")
    echo(f"\nPredictions written to {shown(out, _PATH)}")
    figures = {**check.figures(), "not_used": extra, "interval": None, "band": None,
               ends.option: ends.share, "columns": dict(zip(_ADDED, names, strict=True)),
               "written_as_text": writer.texts}
    write_figures(json_path, figures, echo)


def _notes(
    table: Table, encoding: Encoding, names: Sequence[str], writer: Writer, check: RangeCheck
) -> Iterator[str]:
    """Say what the user should know about a table and its predictions."""
    extra = ignored_columns(table.names, encoding)
    if extra:
        yield f"not used by the model: {listed(extra)}"
    renamed = [name for name, usual in zip(names, _ADDED, strict=True) if name != usual]
    if renamed:
        yield f"the table has such columns itself; those added are {listed(renamed)}"
    if writer.marked:
        yield (f"{listed(writer.marked)} would be a formula as the name of a column, so it is "
               "written with an apostrophe before it, which pcegp takes off when it reads the file")
    if writer.texts:
        yield f"{writer.texts} cells that begin as formulas do were written as text"
    yield from check.notes()


def evaluate(
    model_path: Path, data: Path, json_path: Path | None, show_bar: bool, echo: Echo
) -> None:
    """Score a model on a table that has the target."""
    with stage(f"loading {model_path}"):
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
    if check.rows == 1:
        echo(f"Note: {metrics.UNDEFINED_R2}")
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
    table: Table, inputs: Callable[[Block], FloatArray], show_bar: bool,
    label: str = "percent of the table",
) -> Iterator[tuple[Block, FloatArray]]:
    """Read a table block by block, with the inputs of each."""
    size = table.size()
    with bar(show_bar, size and 100, label) as progress:
        for block in table.blocks(_BLOCK):
            yield block, inputs(block)
            if progress is not None and size:
                progress(100 * block.position // size)


@contextmanager
def _quiet_about_names() -> Iterator[None]:
    """Let a matrix have no names; they were matched when it was made."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def _predict(model: Model, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Predict mean and deviation, without warnings that would come with every block."""
    with _quiet_about_names():
        # Rows outside are counted for the whole table, not block by block.
        warnings.simplefilter("ignore", ExtrapolationWarning)
        mean, std = model.predict(X, return_std=True)
    return mean, std
