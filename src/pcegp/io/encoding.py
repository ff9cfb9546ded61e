"""The encoding that makes numbers for a model from the columns of a table.

Numbers stay as they are. A column of text becomes one column of zeros and ones for each of
its values, if the user names it as categorical. Missing values are refused, or replaced by
the median of the training rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import DataError
from pcegp.io.tables import Block, is_missing, listed

_MOST_VALUES = 20  # of a categorical column


@dataclass(frozen=True)
class Encoding:
    """A rule by which rows of a table become inputs of a model."""

    target: str
    features: tuple[str, ...]
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)  # empty: missing values are refused

    @property
    def names(self) -> list[str]:
        """The model's inputs: "colour=red" for a value of a categorical column."""
        return [
            name for feature in self.features
            for name in ([f"{feature}={value}" for value in self.categories[feature]]
                         if feature in self.categories else [feature])
        ]

    def check_columns(self, names: Sequence[str], *, with_target: bool = False) -> None:
        """Refuse a table that lacks columns; others in it, and their order, do not matter."""
        wanted = [*self.features, *([self.target] if with_target else [])]
        lacking = [name for name in wanted if name not in names]
        if lacking:
            raise DataError(
                f"the table lacks the column{'s' if len(lacking) > 1 else ''} {listed(lacking)}: "
                f"it has {listed(list(names))}"
            )

    def inputs(self, block: Block) -> FloatArray:
        """Make the model's inputs (n, D) from some rows."""
        columns = {name: self._column(block, name) for name in self.features}
        missing = {name: np.isnan(column).any(axis=1) for name, column in columns.items()}
        bad = [f"{name!r} {int(rows.sum())} (first in line {block.lines[int(np.argmax(rows))]})"
               for name, rows in missing.items() if rows.any()]
        if bad:
            raise DataError(
                f"values are missing: {'; '.join(bad)}. Fill or drop them, or fit with "
                "--impute median"
            )
        return np.concatenate([columns[name] for name in self.features], axis=1)

    def targets(self, block: Block) -> FloatArray:
        """Read the target (n,) of some rows."""
        y = block.numbers(self.target)
        rows = np.flatnonzero(~np.isfinite(y))
        if rows.size:
            raise DataError(
                f"the target {self.target!r} is missing or not finite in {rows.size} rows (first "
                f"in line {block.lines[int(rows[0])]}): drop these rows"
            )
        return y

    def _column(self, block: Block, name: str) -> FloatArray:
        if name in self.categories:
            return self._one_hot(block, name)
        column = block.numbers(name)
        if np.isinf(column).any():
            line = block.lines[int(np.argmax(np.isinf(column)))]
            raise DataError(f"column {name!r} is infinite in line {line}")
        if name in self.medians:
            column = np.where(np.isnan(column), self.medians[name], column)
        return column[:, None]

    def _one_hot(self, block: Block, name: str) -> FloatArray:
        cells, values = block.cells(name), self.categories[name]
        texts = [None if is_missing(cell) else str(cell).strip() for cell in cells]
        for line, text in zip(block.lines, texts, strict=True):
            if text is not None and text not in values:
                raise DataError(
                    f"column {name!r} holds {text!r} in line {line}, which was not in the training "
                    f"data: {listed(values)} were"
                )
        out = np.array([[float(text == value) for value in values] for text in texts])
        if not self.medians:  # a missing value belongs to no category: all zeros, if imputed
            out[[text is None for text in texts]] = np.nan
        return out

    def as_dict(self) -> dict[str, Any]:
        """Describe the encoding by plain data, for JSON."""
        return {"target": self.target, "features": list(self.features),
                "categories": {k: list(v) for k, v in self.categories.items()},
                "medians": self.medians}


def from_dict(state: Mapping[str, Any]) -> Encoding:
    """Make the encoding that `as_dict` described."""
    return Encoding(
        str(state["target"]), tuple(map(str, state["features"])),
        {str(k): tuple(map(str, v)) for k, v in state["categories"].items()},
        {str(k): float(v) for k, v in state["medians"].items()},
    )


def make_encoding(
    block: Block, target: str, features: Sequence[str] | None, categorical: Sequence[str],
    impute: bool,
) -> Encoding:
    """Make the encoding of a training table; `features` None takes all columns but the target."""
    _check_known(block.names, [target], "--target")
    _check_known(block.names, features or [], "--features")
    _check_known(block.names, categorical, "--categorical")
    chosen = tuple(features or [name for name in block.names if name != target])
    if target in chosen or not chosen:
        raise DataError(f"the target {target!r} cannot be the only column, or a feature of itself")
    text = [name for name in chosen if name not in categorical and not block.is_numeric(name)]
    if text:
        raise DataError(
            f"the column{'s' if len(text) > 1 else ''} {listed(text)} "
            f"{'are' if len(text) > 1 else 'is'} not numbers: name them with --categorical, or "
            "choose others with --features"
        )
    categories = {name: _values(block, name) for name in chosen if name in categorical}
    medians = {}
    if impute:
        for name in chosen:
            if name not in categories:
                column = block.numbers(name)
                if np.isnan(column).all():
                    raise DataError(f"column {name!r} has no value at all: leave it out")
                medians[name] = float(np.nanmedian(column))
    return Encoding(target, chosen, categories, medians)


def _check_known(names: Sequence[str], wanted: Sequence[str], option: str) -> None:
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise DataError(
            f"{option} names {listed(unknown)}, which the table does not have: it has "
            f"{listed(names)}"
        )


def _values(block: Block, name: str) -> tuple[str, ...]:
    values = sorted({str(cell).strip() for cell in block.cells(name) if not is_missing(cell)})
    if not 1 < len(values) <= _MOST_VALUES:
        raise DataError(
            f"column {name!r} has {len(values)} different values: categorical columns may have 2 "
            f"to {_MOST_VALUES}"
        )
    return tuple(values)
