"""Writers of tables with columns of figures added: CSV, Parquet and Excel, block by block.

What stood in the table stands in the file that is written, in the same words; only what a
spreadsheet would take for a formula is made text, and counted.
"""

import csv
import gzip
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import DataError, SettingError, needed, shown
from pcegp.io.cells import exact_number, is_formula, numbers
from pcegp.io.readers import ParquetTable
from pcegp.io.tables import Block, Table, listed

_AT_ONCE = 10_000  # rows that are looked at
_ROWS, _COLUMNS, _CHARACTERS = 1_048_576, 16_384, 32_767  # of a sheet of Excel


class Writer(ABC):
    """Writer that appends rows of a table, with columns of figures, to a file.

    Attributes
    ----------
    texts : int
        The number of cells below the header that a spreadsheet would have taken for formulas.
    marked : sequence of str
        The names of columns that it would have taken for such, where the file has them with an
        apostrophe before them.
    """

    texts = 0
    marked: Sequence[str] = ()

    @abstractmethod
    def write(self, block: Block, figures: Sequence[FloatArray]) -> None:
        """Append the rows of a block (n,) with columns of figures, (n,) each."""


@dataclass(frozen=True)
class _Plan:
    """Plan of a file: the table that is read, the columns added to it, those of numbers."""

    table: Table
    added: Sequence[str]
    numeric: Collection[str]  # columns that are numbers or missing in every row

    @property
    def names(self) -> list[str]:
        return [*self.table.names, *self.added]


class CsvWriter(Writer):
    """CSV in the dialect of the table that is read."""

    def __init__(self, stream: Any, plan: _Plan) -> None:
        self._mark = plan.table.dialect.mark
        # With its own ends of lines csv puts cells with either character of them in quotes.
        self._csv = csv.writer(_Lines(stream), delimiter=plan.table.dialect.delimiter)
        self.marked = [name for name in plan.names if is_formula(name)]
        self._csv.writerow(map(_guarded, plan.names))

    def write(self, block: Block, figures: Sequence[FloatArray]) -> None:
        columns = [[repr(x).replace(".", self._mark) for x in column.tolist()]
                   for column in figures]
        self._csv.writerows(
            [*map(self._safe, row), *added]
            for row, added in zip(block.rows, zip(*columns, strict=True), strict=True)
        )

    def _safe(self, cell: Any) -> Any:
        self.texts += is_formula(cell)
        return _guarded(cell)


def _guarded(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would take for a formula."""
    return f"'{cell}" if is_formula(cell) else cell


class _Lines:
    """Stream for `csv.writer` that ends lines with a line feed alone."""

    def __init__(self, stream: Any) -> None:
        self._write = stream.write

    def write(self, line: str) -> None:
        self._write(line.removesuffix("\r\n") + "\n")


class ParquetWriter(Writer):
    """Apache Parquet: columns that came from Parquet keep their types, other text stays text."""

    def __init__(self, path: Path, plan: _Plan, open_files: ExitStack) -> None:
        self._arrow = needed("pyarrow", "writing Parquet", "tables")
        parquet = needed("pyarrow.parquet", "writing Parquet", "tables")
        self._plan, pa = plan, self._arrow
        known = (list(plan.table.schema) if isinstance(plan.table, ParquetTable) else [
            pa.field(name, pa.float64() if name in plan.numeric else pa.string())
            for name in plan.table.names
        ])
        self._schema = pa.schema([*known, *(pa.field(name, pa.float64()) for name in plan.added)])
        self._file = open_files.enter_context(parquet.ParquetWriter(path, self._schema))

    def write(self, block: Block, figures: Sequence[FloatArray]) -> None:
        pa = self._arrow
        known = block.batch.columns if block.batch is not None else [
            pa.array(self._column(block, name), field.type, from_pandas=True)
            for name, field in zip(block.names, self._schema, strict=False)
        ]
        columns = [*known, *map(pa.array, figures)]
        self._file.write_batch(pa.record_batch(columns, schema=self._schema))

    def _column(self, block: Block, name: str) -> Any:
        if name in self._plan.numeric:
            return block.numbers(name)  # a missing number is NaN here, and null in the file
        return [None if cell is None else str(cell) for cell in block.cells(name)]


class ExcelWriter(Writer):
    """One sheet of an Excel workbook."""

    def __init__(self, path: Path, plan: _Plan, open_files: ExitStack) -> None:
        openpyxl = needed("openpyxl", "writing Excel", "tables")
        cells = needed("openpyxl.cell.cell", "writing Excel", "tables")
        self._cell, self._illegal = cells.WriteOnlyCell, cells.ILLEGAL_CHARACTERS_RE
        if len(plan.names) > _COLUMNS:
            raise SettingError(f"Excel has no more than {_COLUMNS:,} columns, and these would be "
                               f"{len(plan.names):,}: write .csv or .parquet")
        self._plan, self._rows = plan, 1
        book = openpyxl.Workbook(write_only=True)
        self._sheet = book.create_sheet("predictions")
        open_files.push(self._end(book, path))
        self._sheet.append([self._text(name, f"the name of column {k}")
                            for k, name in enumerate(plan.names, 1)])
        self.texts = 0  # the names are what they were

    def _end(self, book: Any, path: Path) -> Callable[..., None]:
        def end(kind: type[BaseException] | None, *_: object) -> None:
            if kind is None:
                book.save(path)
            else:
                self._sheet.close()  # or openpyxl writes a warning later
        return end

    def write(self, block: Block, figures: Sequence[FloatArray]) -> None:
        self._rows += len(block.rows)
        if self._rows > _ROWS:
            raise SettingError(f"Excel has no more than {_ROWS:,} rows: write .csv or .parquet")
        columns = [self._column(block, name) for name in block.names]
        for row in zip(*columns, *(column.tolist() for column in figures), strict=True):
            self._sheet.append(row)

    def _column(self, block: Block, name: str) -> list[Any]:
        if name in self._plan.numeric:
            return [None if np.isnan(x) else x for x in block.numbers(name).tolist()]
        cells = block.cells(name)
        bad = set(numbers(cells, block.notation)[1])  # such as 1.234 that may be 1234
        return [self._value(cell, name, line, is_number=i not in bad)
                for i, (cell, line) in enumerate(zip(cells, block.lines, strict=True))]

    def _value(self, cell: Any, name: str, line: int, *, is_number: bool) -> Any:
        """Keep what Excel has a type for, make numbers of texts that lose nothing, else text."""
        if isinstance(cell, str):
            number = exact_number(cell) if is_number else None
            if number is not None:
                return number
        elif cell is None or isinstance(cell, (bool, int, date, timedelta)):
            if not isinstance(cell, (datetime, time)) or cell.tzinfo is None:
                return cell
        elif isinstance(cell, float) and np.isfinite(cell):
            return cell
        return self._text(str(cell), f"column {listed([name])} in line {line}")

    def _text(self, text: str, place: str) -> Any:
        if not text:
            return None
        if len(text) > _CHARACTERS:
            raise DataError(f"{place} has {len(text):,} characters, and a cell of Excel no more "
                            f"than {_CHARACTERS:,}: write .csv or .parquet")
        self.texts += is_formula(text)
        cell = self._cell(self._sheet, self._illegal.sub(lambda found: shown(found[0]), text))
        cell.data_type = "s"  # also of what begins with "="
        return cell


def check_ending(path: Path) -> str:
    """Find the kind of table that a path names, and refuse others.

    Returns
    -------
    str
        ".csv", ".csv.gz", ".parquet" or ".xlsx".
    """
    name = path.name.lower()
    known = {".csv": ".csv", ".csv.gz": ".csv.gz", ".parquet": ".parquet", ".pq": ".parquet",
             ".xlsx": ".xlsx"}
    for ending, kind in known.items():
        if name.endswith(ending):
            return kind
    raise SettingError(f"--out {shown(path, 1000)} ends in none of .csv, .csv.gz, .parquet and "
                       ".xlsx, which say what is written: choose one of them")


@contextmanager
def table_writer(
    path: Path, kind: str, table: Table, names: Sequence[str], numeric: Collection[str],
    target: str = "",
) -> Iterator[Writer]:
    """Open a file for the rows of a table with columns of figures beside them.

    Parameters
    ----------
    path : Path
        The file; whatever it is called, `kind` says what is written.
    kind : str
        What `check_ending` found.
    table : Table
        The table whose rows are written.
    names : sequence of str
        Names of the columns that are added, none of them in the table.
    numeric : collection of str
        Columns of the table that are numbers or missing in every row.
    target : str
        A column that becomes one of numbers if it is in the table and each of its cells is a
        number or missing; the table is read once more to find that out.

    Yields
    ------
    Writer
    """
    if kind in (".parquet", ".xlsx") and _holds_numbers(table, target):
        numeric = {*numeric, target}
    plan = _Plan(table, names, numeric)
    with ExitStack() as open_files:
        if kind == ".parquet":
            yield ParquetWriter(path, plan, open_files)
        elif kind == ".xlsx":
            yield ExcelWriter(path, plan, open_files)
        else:
            stream = open_files.enter_context(_text_file(path, kind, table.dialect.encoding))
            yield CsvWriter(stream, plan)


def _holds_numbers(table: Table, name: str) -> bool:
    """Tell whether all cells of a column that is in the table are finite numbers or missing."""
    if name not in table.names or isinstance(table, ParquetTable):
        return False  # Parquet knows the types of its columns
    for block in table.blocks(_AT_ONCE):
        values, bad = numbers(block.cells(name), block.notation)
        if bad or np.isinf(values).any():
            return False
    return True


@contextmanager
def _text_file(path: Path, kind: str, encoding: str) -> Iterator[io.TextIOBase]:
    with ExitStack() as open_files:
        stream: AbstractContextManager[Any] = path.open("wb")
        binary = open_files.enter_context(stream)
        if kind == ".csv.gz":
            # Without a name and a time inside, equal tables make equal files.
            binary = open_files.enter_context(
                gzip.GzipFile(filename="", fileobj=binary, mode="wb", mtime=0))
        yield open_files.enter_context(io.TextIOWrapper(binary, encoding=encoding, newline=""))
