"""Training data from a table: inputs, target and groups, with the encoding that made them.

The names that the user gives are compared with the header before any row is read.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray
from pcegp.errors import DataError, DataWarning, shown, warn
from pcegp.io.encoding import Encoding, category_note, make_encoding
from pcegp.io.readers import open_table
from pcegp.io.tables import Block, Table, listed

_LONGEST = 100  # characters of a name that is compared with others
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+")
_SUMS = {"total", "totals", "sum", "mean", "average", "summe", "gesamt", "gesamtsumme",
         "mittelwert", "durchschnitt", "total général", "somme", "moyenne", "suma", "media"}
_CODES = (-99, -999, -9999, -99999, 999, 9999, 99999)  # that often mean a missing value
_EFFORT = 8_000_000  # characters squared in a search for similar names, half a second


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
    features = _taken_apart(columns.features, names)
    categorical = _taken_apart(columns.categorical, names)
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
    groups = None if group is None else np.array([str(cell) for cell in block.cells(group)])
    X, y = encoding.inputs(block), encoding.targets(block)
    _note_codes([*encoding.names, target], np.column_stack([X, y]), block.lines)
    if missing := encoding.without_category(X):
        warn(category_note(missing), DataWarning)
    return TrainingData(encoding, X, y, groups)


def _taken_apart(texts: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """List the names in texts with commas between them; a name may have commas itself."""
    known, found = set(names), []
    for text in texts or ():
        whole = [name for name in (text, text.strip()) if name in known]
        found += whole[:1] or [part.strip() for part in text.split(",")]
    return [name for name in found if name]


def _others(names: Sequence[str], target: str, group: str | None) -> list[str]:
    """Take all columns but the target and the groups as features, if none is an index."""
    index = [name for name in names if _INDEX.fullmatch(name)]
    if index:
        raise DataError(f"{listed(index)} looks like the numbers of the rows, which pandas wrote "
                        "beside the data: leave it out with --features, or give it another name")
    return [name for name in names if name not in (target, group)]


def _check_sums(block: Block) -> None:
    """Refuse a last row of sums or means, which says so in a cell that no other row has."""
    for name, cell in zip(block.names, block.rows[-1], strict=True):
        if (isinstance(cell, str) and cell.strip(" :").casefold() in _SUMS
                and block.cells(name).count(cell) == 1):
            raise DataError(f"column {listed([name])} holds '{shown(cell)}' in line "
                            f"{block.lines[-1]}, the last one, which is no row of data then: "
                            "delete that line")


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
        wrong = unknown[0][:_LONGEST].casefold()
        few = islice(names, _EFFORT // (1 + len(wrong)) ** 2)
        folded = {name.casefold(): name for name in few if len(name) <= _LONGEST}
        near = get_close_matches(wrong, folded, n=1)
        proposal = f"did you mean {listed([folded[near[0]]])}? It has" if near else "it has"
        raise DataError(f"{option} names {listed(unknown)}, which the table does not have: "
                        f"{proposal} {listed(names)}{table.elsewhere()}")
    twice = [name for name, count in Counter(wanted).items() if count > 1]
    if twice:
        raise DataError(f"{option} names {listed(twice)} more than once: name each column once")
