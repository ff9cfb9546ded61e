"""The encoding that makes numbers for a model from the columns of a table.

Numbers stay as they are. A column of text becomes one column of zeros and ones for each of
its values, if the user names it as categorical. Missing values are refused, or replaced by
the median of the training rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import DataError, ModelFileError, shown
from pcegp.io.cells import Formula, is_missing, reason, unguarded
from pcegp.io.tables import Block, listed, nearest

_MOST_VALUES = 20  # of a categorical column
_SHOWN = 8  # columns in a message about missing values


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
        known = set(names)
        lacking = [name for name in wanted if name not in known]
        if lacking:
            # What the model uses already is no misspelling of something else.
            used = set(wanted)
            near = nearest(lacking[0], (name for name in names if name not in used))
            proposal = "" if near is None else (
                f"; did you mean {listed([near])}? Rename it in the table")
            raise DataError(
                f"the table lacks the column{'s' if len(lacking) > 1 else ''} {listed(lacking)}: "
                f"it has {listed(list(names))}{proposal}"
            )

    def inputs(self, block: Block) -> FloatArray:
        """Make the model's inputs (n, D) from some rows."""
        columns = {name: self._column(block, name) for name in self.features}
        missing = {name: np.isnan(column).any(axis=1) for name, column in columns.items()}
        bad = [
            f"{listed([name])} {int(rows.sum())} (first in line {block.lines[int(rows.argmax())]})"
            for name, rows in missing.items() if rows.any()
        ]
        if bad:
            more = "; …" if len(bad) > _SHOWN else ""
            raise DataError(
                f"values are missing: {'; '.join(bad[:_SHOWN])}{more}. Fill or drop them, or fit "
                "with --impute median"
            )
        return np.concatenate([columns[name] for name in self.features], axis=1)

    def targets(self, block: Block) -> FloatArray:
        """Read the target (n,) of some rows."""
        y = block.numbers(self.target)
        rows = np.flatnonzero(~np.isfinite(y))
        if rows.size:
            raise DataError(
                f"the target {listed([self.target])} is missing or not finite in {rows.size} rows "
                f"(first in line {block.lines[int(rows[0])]}): drop these rows"
            )
        return y

    def _column(self, block: Block, name: str) -> FloatArray:
        if name in self.categories:
            return self._one_hot(block, name)
        column = block.numbers(name)
        if np.isinf(column).any():
            line = block.lines[int(np.argmax(np.isinf(column)))]
            raise DataError(f"column {listed([name])} is infinite in line {line}")
        if name in self.medians:
            column = np.where(np.isnan(column), self.medians[name], column)
        return column[:, None]

    def _one_hot(self, block: Block, name: str) -> FloatArray:
        texts, values = texts_of(block, name), self.categories[name]
        for line, text in zip(block.lines, texts, strict=True):
            if text is not None and text not in values:
                raise DataError(
                    f"column {listed([name])} holds '{shown(text, 40)}' in line {line}, which was "
                    f"not in the training data: {listed(values)} were"
                )
        out = np.array([[float(text == value) for value in values] for text in texts])
        if not self.medians:  # a missing value belongs to no category: all zeros, if imputed
            out[[text is None for text in texts]] = np.nan
        return out

    def without_category(self, X: FloatArray) -> dict[str, int]:
        """Count the rows of inputs (n, D) with zeros for all values of a categorical column."""
        counts, begin = {}, 0
        for feature in self.features:
            end = begin + len(self.categories.get(feature, "1"))
            if feature in self.categories:
                counts[feature] = int((X[:, begin:end] == 0.0).all(axis=1).sum())
            begin = end
        return {name: count for name, count in counts.items() if count}

    def as_dict(self) -> dict[str, Any]:
        """Describe the encoding by plain data, for JSON."""
        return {"target": self.target, "features": list(self.features),
                "categories": {k: list(v) for k, v in self.categories.items()},
                "medians": self.medians}


def from_dict(state: Mapping[str, Any]) -> Encoding:
    """Make the encoding that `as_dict` described; refuse one that no training table gives."""
    encoding = Encoding(
        str(state["target"]), tuple(map(str, state["features"])),
        {str(k): tuple(map(str, v)) for k, v in state["categories"].items()},
        {str(k): float(v) for k, v in state["medians"].items()},
    )
    if encoding.target in encoding.features:
        raise ModelFileError("it has an encoding in which the target is a feature")
    if twice := _repeated(encoding.names):
        raise ModelFileError(f"it has an encoding with several inputs named {listed(twice)}")
    return encoding


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def make_encoding(
    block: Block, target: str, features: Sequence[str] | None, categorical: Sequence[str],
    impute: bool,
) -> Encoding:
    """Make the encoding of a training table; `features` None takes all columns but the target."""
    chosen = tuple([name for name in block.names if name != target] if features is None
                   else features)
    if target in chosen or not chosen:
        raise DataError(f"the target {listed([target])} cannot be the only column, or a feature of "
                        "itself")
    if "" in chosen:
        raise DataError(
            f"column number {block.names.index('') + 1} has no name, as an index that another "
            "program wrote: name it, or choose others with --features"
        )
    named = set(categorical)
    texts = {name: block.text_in(name) for name in chosen if name not in named}
    text = [name for name, found in texts.items() if found]
    if text:
        first = f"such as {texts[text[0]]}" if len(text) > 1 else texts[text[0]]
        raise DataError(
            f"the column{'s' if len(text) > 1 else ''} {listed(text)} "
            f"{'are' if len(text) > 1 else 'is'} not numbers ({first}): name "
            f"{'them' if len(text) > 1 else 'it'} with --categorical, or choose others with "
            "--features"
        )
    categories = {name: _values(block, name) for name in chosen if name in named}
    medians = {}
    if impute:
        for name in chosen:
            if name not in categories:
                column = block.numbers(name)
                if np.isnan(column).all():
                    raise DataError(f"column {listed([name])} has no value at all: leave it out")
                medians[name] = float(np.nanmedian(column))
    encoding = Encoding(target, chosen, categories, medians)
    if twice := _repeated(encoding.names):
        raise DataError(f"the values of a categorical column make inputs named {listed(twice)}, "
                        "which other columns are named too: rename those")
    return encoding


def category_note(counts: Mapping[str, int]) -> str:
    """Say of how many rows a category is missing, by the names of the columns."""
    rows = ", ".join(f"{count} row{'s have' if count > 1 else ' has'} no {listed([name])}"
                     for name, count in counts.items())
    return f"{rows}: a missing value belongs to no category, and all its inputs are 0"


def texts_of(block: Block, name: str) -> list[str | None]:
    """List the values of a column of categories or groups, None where one is missing."""
    cells = block.cells(name)
    for line, cell in zip(block.lines, cells, strict=True):
        if isinstance(cell, Formula):
            raise DataError(f"column {listed([name])} holds '{shown(cell, 40)}' in line {line}, "
                            f"{reason(cell, block.notation)}")
    return [None if is_missing(cell) else unguarded(str(cell).strip()) for cell in cells]


def _values(block: Block, name: str) -> tuple[str, ...]:
    values = sorted({text for text in texts_of(block, name) if text is not None})
    if not 1 < len(values) <= _MOST_VALUES:
        raise DataError(
            f"column {listed([name])} has {len(values)} different values: categorical columns may "
            f"have 2 to {_MOST_VALUES}"
        )
    return tuple(values)
