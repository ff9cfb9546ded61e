"""Training data from a table: inputs, target and groups, with the encoding that made them.

The names that the user gives are compared with the header before any row is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray
from pcegp.errors import DataError
from pcegp.io.encoding import Encoding, make_encoding
from pcegp.io.readers import open_table
from pcegp.io.tables import listed

_LONGEST = 100  # characters of a name that is compared with others
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
        _check_known(names, wanted, option)
    unused = [name for name in categorical if features and name not in features]
    if unused:
        raise DataError(f"--categorical names {listed(unused)}, which --features leaves out: name "
                        "them in both, or in none")
    if group is not None:
        features = features or [name for name in names if name not in (target, group)]
    block = table.whole()
    encoding = make_encoding(block, target, features, categorical, columns.impute)
    groups = None if group is None else np.array([str(cell) for cell in block.cells(group)])
    return TrainingData(encoding, encoding.inputs(block), encoding.targets(block), groups)


def _taken_apart(texts: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """List the names in texts with commas between them; a name may have commas itself."""
    known, found = set(names), []
    for text in texts or ():
        whole = [name for name in (text, text.strip()) if name in known]
        found += whole[:1] or [part.strip() for part in text.split(",")]
    return [name for name in dict.fromkeys(found) if name]


def _check_known(names: Sequence[str], wanted: Sequence[str], option: str) -> None:
    """Refuse names that the table does not have, and propose the nearest that it has."""
    known = set(names)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        wrong = unknown[0][:_LONGEST].casefold()
        few = islice(names, _EFFORT // (1 + len(wrong)) ** 2)
        folded = {name.casefold(): name for name in few if len(name) <= _LONGEST}
        near = get_close_matches(wrong, folded, n=1)
        proposal = f"did you mean {listed([folded[near[0]]])}? It has" if near else "it has"
        raise DataError(f"{option} names {listed(unknown)}, which the table does not have: "
                        f"{proposal} {listed(names)}")
