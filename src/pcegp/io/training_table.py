"""Training data from a table: inputs, target and groups, with the encoding that made them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray
from pcegp.errors import DataError
from pcegp.io.encoding import Encoding, make_encoding
from pcegp.io.tables import listed, open_table


@dataclass(frozen=True)
class Columns:
    """The user's choice of the columns of a table."""

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
    block = open_table(path).whole()
    features, groups = columns.features, None
    if columns.group is not None:
        if columns.group not in block.names:
            raise DataError(
                f"--group names {columns.group!r}, which the table does not have: it has "
                f"{listed(block.names)}"
            )
        groups = np.array([str(cell) for cell in block.cells(columns.group)])
        if features is None:
            features = [n for n in block.names if n not in (columns.target, columns.group)]
    encoding = make_encoding(block, columns.target, features, columns.categorical, columns.impute)
    return TrainingData(encoding, encoding.inputs(block), encoding.targets(block), groups)
