"""Tables from files: CSV, Parquet and Excel, whole or block by block.

A CSV file is read as people have them: with commas, semicolons or tabs, a byte-order mark,
quotes, decimal commas (between semicolons or tabs), UTF-8 or Latin-1. Errors name the line.
"""

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TextIO
from zipfile import BadZipFile

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import DataError, needed

_DELIMITERS = ",;\t"
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?"}
_SHOWN = 8  # names listed in one message


@dataclass(frozen=True)
class Block:
    """Some rows of a table: cells as read, and the line of the file that each stands in."""

    names: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    lines: Sequence[int]
    decimal_comma: bool = False
    position: int = 0  # how far the table is read, in the units of its size

    def cells(self, name: str) -> list[Any]:
        """List the cells of one column."""
        k = self.names.index(name)
        return [row[k] for row in self.rows]

    def numbers(self, name: str) -> FloatArray:
        """Read one column as numbers (n,); a missing value is NaN, any other text an error."""
        cells = self.cells(name)
        try:
            return np.array(cells, dtype=np.float64)
        except (TypeError, ValueError):
            return np.array([self._number(name, i, cell) for i, cell in enumerate(cells)])

    def is_numeric(self, name: str) -> bool:
        """Tell whether every cell of a column is a number or missing."""
        try:
            self.numbers(name)
        except DataError:
            return False
        return True

    def _number(self, name: str, i: int, cell: Any) -> float:
        if is_missing(cell):
            return np.nan
        text = str(cell).strip()
        try:
            return float(text.replace(",", ".") if self.decimal_comma else text)
        except ValueError:
            raise DataError(
                f"column {name!r} holds {text[:40]!r} in line {self.lines[i]}, which is "
                "not a number"
            ) from None


def is_missing(cell: Any) -> bool:
    """Tell whether a cell is empty or says that its value is missing."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or (isinstance(cell, float) and np.isnan(cell))


class Table(ABC):
    """A table in a file; nothing but its header is read before it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, checked."""
        names = tuple(self._header())
        if not any(names):
            raise DataError(f"{self.path} has no header line: the first line must name the columns")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"{self.path} has several columns named {listed(twice)}: rename them")
        return names

    def blocks(self, size: int) -> Iterator[Block]:
        """Read blocks of at most `size` rows; a table without rows is an error."""
        names, found = self.names, False
        for block in self._blocks(size):
            found = True
            yield block
        if not found:
            raise DataError(f"{self.path} has no rows below its {len(names)} column names")

    def size(self) -> int | None:
        """Tell the size of the table in the units of `Block.position`, where it is known."""
        return None

    def whole(self) -> Block:
        """Read all rows at once."""
        blocks = list(self.blocks(100_000))
        rows = [row for block in blocks for row in block.rows]
        lines = [line for block in blocks for line in block.lines]
        return Block(self.names, rows, lines, blocks[0].decimal_comma)

    @abstractmethod
    def _header(self) -> Sequence[str]:
        """Read the cells of the first line."""

    @abstractmethod
    def _blocks(self, size: int) -> Iterator[Block]:
        """Read blocks of at most `size` rows, none if there are no rows."""


class CsvTable(Table):
    """Text with one line per row."""

    @cached_property
    def _encoding(self) -> str:
        """The encoding: UTF-8 where the file is that, as it nearly always is; else Latin-1."""
        try:
            with self.path.open(encoding="utf-8-sig") as stream:
                while stream.read(1 << 20):
                    pass
        except UnicodeDecodeError:
            return "latin-1"
        return "utf-8-sig"

    @cached_property
    def _delimiter(self) -> str:
        with self._open() as stream:
            line = stream.readline()
        if "\0" in line:
            raise DataError(f"{self.path} is not text: give a CSV, Parquet (.parquet) or Excel "
                            "(.xlsx) file")
        return max(_DELIMITERS, key=line.count)

    def _open(self) -> TextIO:
        return self.path.open(encoding=self._encoding, newline="")

    def _header(self) -> Sequence[str]:
        with self._open() as stream:
            header = next(csv.reader(stream, delimiter=self._delimiter), None)
        if not header:
            raise DataError(f"{self.path} is empty")
        return [name.strip() for name in header]

    def _blocks(self, size: int) -> Iterator[Block]:
        with self._open() as stream:
            reader = csv.reader(stream, delimiter=self._delimiter)
            next(reader)
            numbered = self._numbered(reader)
            while taken := list(islice(numbered, size)):
                rows = [row for _, row in taken]
                lines = [line for line, _ in taken]
                position = stream.buffer.tell()
                yield Block(self.names, rows, lines, self._delimiter != ",", position)

    def size(self) -> int:
        return self.path.stat().st_size

    def _numbered(self, reader: Any) -> Iterator[tuple[int, Sequence[str]]]:
        """Read rows with their lines; empty lines are passed over."""
        width = len(self.names)
        try:
            for row in reader:
                if len(row) == width:
                    yield reader.line_num, row
                elif row:
                    raise DataError(
                        f"{self.path}, line {reader.line_num}: {len(row)} fields, but the header "
                        f"has {width}"
                    )
        except csv.Error as error:
            raise DataError(f"{self.path}, line {reader.line_num}: {error}") from None


class ParquetTable(Table):
    """Apache Parquet, by pyarrow."""

    def _file(self) -> Any:
        parquet = needed("pyarrow.parquet", "reading Parquet", "tables")
        try:
            return parquet.ParquetFile(self.path)
        except (ValueError, OSError) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from None

    def _header(self) -> Sequence[str]:
        return [str(name) for name in self._file().schema_arrow.names]

    def _blocks(self, size: int) -> Iterator[Block]:
        line = 1
        for batch in self._file().iter_batches(batch_size=size):
            columns = [column.to_pylist() for column in batch.columns]
            rows = list(zip(*columns, strict=True))
            if rows:
                lines = range(line, line + len(rows))
                yield Block(self.names, rows, lines, position=line + len(rows))
            line += len(rows)

    def size(self) -> int:
        return int(self._file().metadata.num_rows)


class ExcelTable(Table):
    """The first sheet of an Excel workbook, by openpyxl."""

    def _rows(self) -> Iterator[Sequence[Any]]:
        openpyxl = needed("openpyxl", "reading Excel", "tables")
        invalid = openpyxl.utils.exceptions.InvalidFileException
        try:
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True)
        except (invalid, BadZipFile, KeyError, OSError, ValueError) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from None
        yield from book.worksheets[0].iter_rows(values_only=True)

    def _header(self) -> Sequence[str]:
        header = next(self._rows(), ())
        return ["" if cell is None else str(cell).strip() for cell in header]

    def _blocks(self, size: int) -> Iterator[Block]:
        rows, line = self._rows(), 2
        next(rows, None)
        while block := list(islice(rows, size)):
            filled = [k for k, row in enumerate(block) if any(cell is not None for cell in row)]
            if filled:
                yield Block(self.names, [block[k] for k in filled], [line + k for k in filled])
            line += len(block)


def listed(names: Sequence[str]) -> str:
    """List names for a message, not too many of them."""
    text = ", ".join(repr(name) for name in names[:_SHOWN])
    return text + (", …" if len(names) > _SHOWN else "")


def open_table(path: Path) -> Table:
    """Open the table in a file; its ending tells Parquet and Excel, anything else is CSV."""
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {what}: give a CSV, Parquet or Excel file")
    kinds: dict[str, Callable[[Path], Table]] = {
        ".parquet": ParquetTable, ".pq": ParquetTable, ".xlsx": ExcelTable, ".xlsm": ExcelTable,
    }
    return kinds.get(path.suffix.lower(), CsvTable)(path)
