"""Tables block by block: what their readers have in common, and the texts about them.

Whatever the file, a table is a header of D distinct names and rows of D cells, each row with the
line of the file (or of the sheet) that it stands in.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from pcegp._typing import FloatArray
from pcegp.errors import DataError, shown
from pcegp.io.cells import Formula, Notation, is_missing, numbers, reason, unguarded

_SHOWN = 8  # names listed in one message
_CELL = 40  # characters of a cell in a message
_LOOKED_AT = 20  # rows that show whether a header names all columns
_LONGEST = 100  # characters of a name that is compared with others
_EFFORT = 8_000_000  # characters squared in a search for similar names, half a second


@dataclass(frozen=True)
class Dialect:
    """How a table is written as text: what stands between columns, decimal mark, encoding."""

    delimiter: str = ","
    mark: str = "."
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Block:
    """Some rows of a table: cells as read, and the line of the file that each stands in."""

    names: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    lines: Sequence[int]
    notation: Notation = field(default_factory=Notation)
    position: int = 0  # how far the table is read, in the units of its size
    is_top: bool = False  # whether its first row stands right under the header
    batch: Any = None  # the same rows as Apache Arrow has them, from Parquet

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def cells(self, name: str) -> list[Any]:
        """List the cells of one column."""
        k = self._places[name]
        return [row[k] for row in self.rows]

    def numbers(self, name: str) -> FloatArray:
        """Read one column as numbers (n,); a missing value is NaN, any other text an error."""
        values, bad = numbers(self.cells(name), self.notation)
        if bad:
            raise self._refusal(name, bad)
        return values

    def text_in(self, name: str) -> str | None:
        """Find out whether a column may be categorical.

        Returns
        -------
        str or None
            A piece of text in it with its line, for a message; None if all cells are numbers.

        Raises
        ------
        DataError
            If a column of numbers holds something else: dates, units, a few texts.
        """
        cells = self.cells(name)
        _, bad = numbers(cells, self.notation)
        if not bad:
            return None
        filled = sum(not is_missing(cell) for cell in cells)
        is_known = reason(cells[bad[0]], self.notation) is not None
        if is_known or 2 * len(bad) < filled or self._has_units(name, bad):
            raise self._refusal(name, bad)
        return f"'{shown(cells[bad[0]], _CELL)}' in line {self.lines[bad[0]]}"

    def _has_units(self, name: str, bad: list[int]) -> bool:
        """Tell whether the first row alone holds text, and numbers stand below it."""
        return (self.is_top and bad == [0]
                and not all(is_missing(cell) for cell in self.cells(name)[1:]))

    def _refusal(self, name: str, bad: list[int]) -> DataError:
        cell, line = self.cells(name)[bad[0]], self.lines[bad[0]]
        start = f"column {listed([name])} holds '{shown(cell, _CELL)}' in line {line}, "
        why = reason(cell, self.notation)
        if why is None and self._has_units(name, bad):
            why = ("above numbers: delete that line if it holds units, or write them into the "
                   "names of the columns; correct it if not")
        if why is None:
            others = "" if len(bad) == 1 else f" (nor are {len(bad) - 1} other cells of it)"
            why = f"which is not a number{others}: correct it or leave it empty"
        return DataError(start + why)


class Table(ABC):
    """A table in a file; nothing but its header is read before it is asked for."""

    def __init__(self, path: Path, title: str | None = None) -> None:
        self.path = path
        self.title = shown(title or path, 1000)  # in messages

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, checked."""
        # What a writer of ours put before names that look like formulas is no part of them.
        names = tuple(unguarded(name.strip()) for name in self._header())
        if not any(names):
            raise DataError(f"{self.title} has no header line: the first line must name the "
                            "columns")
        counts = Counter(names)
        if counts[""] > 1:
            places = [str(k) for k, name in enumerate(names, 1) if not name][:_SHOWN]
            raise DataError(f"{self.title} has several columns without a name (such as columns "
                            f"{', '.join(places)}): name them")
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise DataError(f"{self.title} has several columns named {listed(twice)} (blanks at "
                            "the ends of a name do not count): rename them")
        return names

    def blocks(self, size: int) -> Iterator[Block]:
        """Read blocks of at most `size` rows; a table without rows is an error."""
        names, found = self.names, False
        for block in self._blocks(size):
            found = True
            yield block
        if not found:
            raise DataError(f"{self.title} has no rows below its {len(names)} column names")

    @property
    def dialect(self) -> Dialect:
        """How rows of it are written as CSV."""
        return Dialect()

    def size(self) -> int | None:
        """Tell the size of the table in the units of `Block.position`, where it is known."""
        return None

    def elsewhere(self) -> str:
        """Say for a message where else in the file a column may be; empty if nowhere."""
        return ""

    def whole(self) -> Block:
        """Read all rows at once."""
        blocks = list(self.blocks(100_000))
        rows = [row for block in blocks for row in block.rows]
        lines = [line for block in blocks for line in block.lines]
        return Block(self.names, rows, lines, blocks[0].notation, is_top=True)

    def damaged(self, error: BaseException) -> DataError:
        """Make the error for a file that its reader cannot read."""
        why = shown(" ".join(str(error).split()), 150).rstrip(".") or type(error).__name__
        return DataError(f"{self.title} cannot be read ({why}): is it cut off, protected by a "
                         "password, or of another kind than its name says?")

    @abstractmethod
    def _header(self) -> Sequence[str]:
        """Read the names of the columns."""

    @abstractmethod
    def _blocks(self, size: int) -> Iterator[Block]:
        """Read blocks of at most `size` rows, none if there are no rows."""


class Sheet(Table):
    """A table of lines; the first one that is not empty names the columns."""

    def _header(self) -> Sequence[str]:
        passed = False  # whether lines of empty cells came before
        lines = self._lines(start_only=True)
        for line, row in lines:
            if is_filled(row):
                names = _names(row)
                formula = next((cell for cell in row if isinstance(cell, Formula)), None)
                if formula is not None:
                    raise DataError(f"{self.title}: the name of a column is '{shown(formula)}', "
                                    f"{reason(formula, Notation())}")
                # Otherwise the first row of numbers would be lost as a header.
                if passed and not numbers(names, Notation(True))[1]:
                    return []
                self._check_title(names, line, lines)
                return names
            passed = passed or bool(row)
        if not passed:
            raise DataError(f"{self.title} is empty")
        return []

    def _check_title(
        self, names: Sequence[str], line: int, below: Iterator[tuple[int, Sequence[Any]]]
    ) -> None:
        """Refuse a title, comment or list of settings above the header."""
        widths: Counter[int] = Counter()
        # What is wrong in a row, or cut off, is named when all rows are read.
        with suppress(DataError):
            widths.update(len(_names(row)) for _, row in islice(below, _LOOKED_AT)
                          if is_filled(row))
        usual = widths.most_common(1)[0][0] if widths else 0
        filled = sum(map(bool, names))
        if usual > len(names) + (filled > 1):
            raise DataError(
                f"{self.title}, line {line} has {filled} cell{'s' if filled > 1 else ''} (such as "
                f"'{shown(next(filter(None, names)), _CELL)}') and the lines below have {usual}: "
                "delete what stands above the line that names the columns, or name each of them"
            )

    def _blocks(self, size: int) -> Iterator[Block]:
        lines = ((line, row) for line, row in self._lines() if is_filled(row))
        first = next(lines, None)
        if first is None:
            return
        rows, is_top = self._fitted(lines, len(first[1])), True
        while taken := list(islice(rows, size)):
            yield Block(self.names, [row for _, row in taken], [line for line, _ in taken],
                        self._notation(), self._position(), is_top)
            is_top = False

    def _fitted(
        self, lines: Iterator[tuple[int, Sequence[Any]]], fields: int
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Give every row the width of the header."""
        width = len(self.names)
        for line, row in lines:
            self._check_fields(line, len(row), fields)
            if len(row) == width:
                yield line, row
                continue
            beyond = [cell for cell in row[width:] if is_filled([cell])]
            if beyond:
                raise DataError(
                    f"{self.title}, line {line}: '{shown(beyond[0], _CELL)}' stands to the right "
                    f"of the last of the {width} column names: name that column or empty it"
                )
            yield line, [*row[:width], *[None] * (width - len(row))]

    def _check_fields(self, line: int, fields: int, expected: int) -> None:
        """Refuse a row with another number of fields than the header; most formats allow it."""

    def _notation(self) -> Notation:
        return Notation()

    def _position(self) -> int:
        return 0

    @abstractmethod
    def _lines(self, *, start_only: bool = False) -> Iterator[tuple[int, Sequence[Any]]]:
        """Read all lines with their numbers; `start_only` if no more than the header is wanted."""


def is_filled(row: Sequence[Any]) -> bool:
    """Tell whether anything is in a row."""
    # Nearly always the first cell tells, which is quicker.
    return bool(row) and (bool(row[0]) or any(cell is not None and cell != "" for cell in row))


def _names(row: Sequence[Any]) -> list[str]:
    """Make names of the cells of the header; the empty ones at its end are no columns."""
    names = ["" if cell is None else str(cell).strip() for cell in row]
    while names and not names[-1]:
        names.pop()
    return names


def listed(names: Sequence[str]) -> str:
    """List names for a message, safe to print, not too many of them."""
    text = ", ".join(f"'{shown(name)}'" for name in names[:_SHOWN])
    return text + (", …" if len(names) > _SHOWN else "")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Find the one of some names that another may have meant, in half a second at most."""
    wrong = name[:_LONGEST].casefold()
    few = islice(names, _EFFORT // (1 + len(wrong)) ** 2)
    folded = {each.casefold(): each for each in few if len(each) <= _LONGEST}
    near = get_close_matches(wrong, folded, n=1)
    return folded[near[0]] if near else None
