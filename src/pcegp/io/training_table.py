"""Training data from a table: inputs, target and groups, with the encoding that made them.

The names that the user gives are compared with the header before any row is read.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray
from pcegp.errors import DataError, DataWarning, SettingError, shown, warn
from pcegp.io.cells import numbers
from pcegp.io.encoding import Encoding, category_note, make_encoding, texts_of
from pcegp.io.readers import open_table
from pcegp.io.tables import Block, Table, listed, nearest

_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+")
_SUMS = {"total", "totals", "sum", "mean", "average", "summe", "gesamt", "gesamtsumme",
         "mittelwert", "durchschnitt", "total général", "somme", "moyenne", "suma", "media"}
_FEWEST = 2  # numbers whose sum shows that it is one
_EXACT = 1e-9  # of the size of numbers, by which their sum may be off
_CODES = (-99, -999, -9999, -99999, 999, 9999, 99999)  # that often mean a missing value


@dataclass(frozen=True)
class Columns:
    """The user's choice of the columns of a table.

    Parameters
    ----------
    target : str
        The column to predict.
    features : list of str, optional
        Names, or several of them with commas between; a text that is itself a name stays whole.
        None takes all columns but the target.
    categorical : tuple of str
        Columns of text, written as the features are.
    impute : bool
        Whether medians replace missing numbers.
    group : str, optional
        A column that is no feature, whose equal values belong together.
    """

    target: str
    features: list[str] | None = None
    categorical: tuple[str, ...] = ()
    impute: bool = False
    group: str | None = None


@dataclass(frozen=True)
class TrainingData:
    """Numbers from a table, and the encoding that made them."""

    encoding: Encoding
    X: FloatArray
    y: FloatArray
    groups: NDArray[Any] | None


def read_training(path: Path, columns: Columns) -> TrainingData:
    """Read inputs, target and groups of a table; an error names column and line."""
    table = open_table(path)
    names, target, group = table.names, columns.target, columns.group
    features = _taken_apart(columns.features, names, "--features")
    categorical = _taken_apart(columns.categorical, names, "--categorical")
    for option, wanted in (("--target", [target]), ("--features", features),
                           ("--categorical", categorical),
                           ("--group", [] if group is None else [group])):
        _check_known(table, wanted, option)
    features = features or _others(names, target, group)
    unused = [name for name in categorical if name not in features]
    if unused:
        named = {group: "--group names", target: "--target names"}
        raise DataError(f"--categorical names {listed(unused[:1])}, which "
                        f"{named.get(unused[0], '--features leaves out')}: name there features "
                        "only")
    block = table.whole()
    _check_sums(block)
    encoding = make_encoding(block, target, features, categorical, columns.impute)
    groups = None if group is None else _groups(block, group)
    X, y = encoding.inputs(block), encoding.targets(block)
    _note_codes([*encoding.names, target], np.column_stack([X, y]), block.lines)
    if missing := encoding.without_category(X):
        warn(category_note(missing), DataWarning)
    return TrainingData(encoding, X, y, groups)


def _taken_apart(texts: Sequence[str] | None, names: Sequence[str], option: str) -> list[str]:
    """List the names in texts with commas between them; a name may have commas itself."""
    known, found = set(names), []
    for text in texts or ():
        whole = [name for name in (text, text.strip()) if name in known]
        found += whole[:1] or [part.strip() for part in text.split(",")]
    found = [name for name in found if name]
    if texts and not found:
        raise SettingError(f"{option} names nothing: name a column, or leave the option out")
    return found


def _others(names: Sequence[str], target: str, group: str | None) -> list[str]:
    """Take all columns but the target and the groups as features, if none is an index."""
    index = [name for name in names if _INDEX.fullmatch(name)]
    if index:
        raise DataError(f"{listed(index)} looks like the numbers of the rows, which pandas wrote "
                        "beside the data: leave it out with --features, or give it another name")
    return [name for name in names if name not in (target, group)]


def _groups(block: Block, name: str) -> NDArray[Any]:
    """Read the groups (n,) of the rows, and refuse a row that has none."""
    groups = texts_of(block, name)
    if None in groups:
        raise DataError(f"column {listed([name])} names no group in line "
                        f"{block.lines[groups.index(None)]}: fill that cell, or drop the row")
    return np.array(groups)


def _check_sums(block: Block) -> None:
    """Refuse a last row of sums or means.

    It says so in a cell that no other row has, and a column of numbers confirms it. A word alone
    may be a name, such as that of a place, so it gets no more than a warning.
    """
    for name, cell in zip(block.names, block.rows[-1], strict=True):
        if not (isinstance(cell, str) and cell.strip(" :").casefold() in _SUMS
                and block.cells(name).count(cell) == 1):
            continue
        place = f"column {listed([name])} holds '{shown(cell)}' in line {block.lines[-1]}, the last"
        summed = next((other for other in block.names if _ends_in_sum(block, other)), None)
        if summed is not None:
            raise DataError(f"{place} one, and {listed([summed])} holds the sum or mean of the "
                            "rows above there, so it is no row of data: delete that line")
        warn(f"{place} one: if that is no row of data, delete it", DataWarning)


def _ends_in_sum(block: Block, name: str) -> bool:
    """Tell whether the last number of a column is the sum or the mean of those above.

    A mean may be rounded to the decimals that it is written with. Numbers that are all equal
    tell nothing: they are their own mean.
    """
    values, bad = numbers(block.cells(name), block.notation)
    above, last = values[:-1][np.isfinite(values[:-1])], values[-1]
    if bad or above.size < _FEWEST or not np.isfinite(last) or (above == last).all():
        return False
    decimals = re.search(r"[.,](\d+)$", str(block.cells(name)[-1]).strip())
    rounding = 0.51 * 10.0 ** -len(decimals[1]) if decimals else 0.0
    with np.errstate(over="ignore"):
        total, size = above.sum(), np.abs(above).sum()
    is_sum = abs(last - total) <= _EXACT * size
    is_mean = abs(last - total / above.size) <= rounding + _EXACT * size / above.size
    return bool(np.isfinite(size) and (is_sum or is_mean))


def _note_codes(names: Sequence[str], values: FloatArray, lines: Sequence[int]) -> None:
    """Warn about numbers such as -999 in columns (n, D) that stand far from all others."""
    for code in _CODES:
        hits = values == code
        for j in np.flatnonzero(hits.any(axis=0)).tolist():
            rows, rest = np.flatnonzero(hits[:, j]), values[~hits[:, j], j]
            if rest.size == 0:
                continue
            away = max(rest.min() - code, code - rest.max())
            if away > np.ptp(rest) or (code < 0 <= rest.min()):
                more = f" and in {rows.size - 1} more rows" if rows.size > 1 else ""
                warn(f"column {listed([names[j]])} holds {code} in line {lines[int(rows[0])]}"
                     f"{more}, far from its other values: if it stands for a missing value, empty "
                     "these cells", DataWarning)


def _check_known(table: Table, wanted: Sequence[str], option: str) -> None:
    """Refuse names that the table does not have, and propose the nearest that it has."""
    names = table.names
    known = set(names)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        near = nearest(unknown[0], names)
        proposal = "it has" if near is None else f"did you mean {listed([near])}? It has"
        raise DataError(f"{option} names {listed(unknown)}, which the table does not have: "
                        f"{proposal} {listed(names)}{table.elsewhere()}")
    twice = [name for name, count in Counter(wanted).items() if count > 1]
    if twice:
        raise DataError(f"{option} names {listed(twice)} more than once: name each column once")
