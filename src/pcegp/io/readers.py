"""Readers of Parquet and Excel, and the choice of the reader for a file or the standard input."""

import shutil
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from pcegp.errors import DataError, DataWarning, PCEGPError, needed, shown, warn
from pcegp.io.archive import ZIP_START
from pcegp.io.cells import Formula
from pcegp.io.csv_table import CsvTable
from pcegp.io.tables import Block, Sheet, Table, is_filled, listed

_AT_ONCE = 1000  # rows of a workbook
_CHUNK = 1 << 20  # bytes
_STANDARD_INPUT = Path("-")


class ParquetTable(Table):
    """Apache Parquet, by pyarrow."""

    def _file(self) -> Any:
        parquet = needed("pyarrow.parquet", "reading Parquet", "tables")
        try:
            return parquet.ParquetFile(self.path)
        except Exception as error:  # of any kind, from a damaged file
            raise self.damaged(error) from None

    @property
    def schema(self) -> Any:
        """The names and types of the columns, in Apache Arrow's words."""
        with self._file() as file:
            return file.schema_arrow

    def _header(self) -> Sequence[str]:
        return [str(name) for name in self.schema.names]

    def _blocks(self, size: int) -> Iterator[Block]:
        line = 1
        with self._file() as file:
            for batch, rows in self._batches(file, size):
                if rows:
                    yield Block(self.names, rows, range(line, line + len(rows)),
                                position=line + len(rows), batch=batch)
                line += len(rows)

    def _batches(self, file: Any, size: int) -> Iterator[tuple[Any, list[Sequence[Any]]]]:
        try:
            for batch in file.iter_batches(batch_size=size):
                columns = map(self._cells, self.names, batch.columns)
                yield batch, list(zip(*columns, strict=True))
        except (MemoryError, PCEGPError):
            raise
        except Exception as error:  # of any kind, from a damaged file
            raise self.damaged(error) from None

    def _cells(self, name: str, column: Any) -> list[Any]:
        """List the cells of a column; Python lacks some of what Apache Arrow has."""
        try:
            cells: list[Any] = column.to_pylist()
        except MemoryError:
            raise
        except Exception as error:  # such as years after 9999, and time zones nobody knows
            raise DataError(
                f"column {listed([name])} of {self.title} holds values of the type "
                f"{shown(column.type)} that cannot be read ({shown(error)}): write them as text, "
                "or leave the column out of the file"
            ) from None
        return cells

    def size(self) -> int:
        with self._file() as file:
            return int(file.metadata.num_rows)


class ExcelTable(Sheet):
    """The first sheet of an Excel workbook that can be seen, by openpyxl.

    If that one is empty, the only one that is not.
    """

    _sheet = ""  # its name, when it is chosen
    _is_noted = False  # whether the user has been told of hidden rows

    def _lines(self, *, start_only: bool = False) -> Iterator[tuple[int, Sequence[Any]]]:
        with self.path.open("rb") as stream, ExitStack() as others:
            book = self._open(stream)
            sheet = book[self._choose(book)]
            if not start_only:
                self._note_hidden_rows(sheet)
            rows, line = self._rows(sheet), 1
            formulas: Iterator[Sequence[Any]] | None = None
            while block := self._careful(lambda: list(islice(rows, _AT_ONCE))):
                if formulas is not None or any(None in row for row in block):
                    if formulas is None:
                        formulas = self._careful(partial(self._formulas, others, line - 1))
                    found = self._careful(partial(list, islice(formulas, len(block))))
                    block = [_with_formulas(*both) for both in zip(block, found, strict=True)]
                yield from enumerate(block, line)
                line += len(block)

    def _note_hidden_rows(self, sheet: Any) -> None:
        """Warn, once, of rows that a filter hides."""
        if self._is_noted:
            return
        self._is_noted = True
        if count := self._careful(partial(_hidden_rows, sheet)):
            warn(f"{count} row{'s' if count > 1 else ''} of {self.title} cannot be seen in Excel, "
                 "as a filter hides rows, and are used like all others: delete them if they are "
                 "no part of the data", DataWarning)

    @cached_property
    def _visible(self) -> dict[str, bool]:
        """The sheets that can be seen, and whether anything is in them."""
        with self.path.open("rb") as stream:
            book = self._open(stream)
            return {
                sheet.title: self._careful(partial(_is_any_filled, self._rows(sheet)))
                for sheet in book.worksheets if sheet.sheet_state == "visible"
            }

    def elsewhere(self) -> str:
        others = [name for name, filled in self._visible.items() if filled and name != self._sheet]
        if not others:
            return ""
        return (f"; this is the sheet {listed([self._sheet])} of {self.title}, which also has "
                f"{listed(others)}: move the one to read to the front")

    def _choose(self, book: Any) -> str:
        """Choose the sheet to read."""
        if not self._sheet:
            seen = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
            if not book.worksheets:
                raise DataError(f"{self.title} has no sheet with cells, only charts: give the "
                                "workbook that has the data")
            first = (seen or book.worksheets)[0]
            name = first.title
            if not self._careful(partial(_is_any_filled, self._rows(first))):
                filled = [name for name, is_filled in self._visible.items() if is_filled]
                if len(filled) > 1:
                    raise DataError(f"the first sheet {listed([name])} of {self.title} is empty, "
                                    f"and {listed(filled)} are not: move the one to read to the "
                                    "front")
                name = next(iter(filled), name)
            self._sheet = name
        return self._sheet

    def _open(self, stream: Any, *, data_only: bool = True) -> Any:
        excel = needed("openpyxl.reader.excel", "reading Excel", "tables")

        def opened() -> Any:
            reader = excel.ExcelReader(stream, read_only=True, data_only=data_only)
            # A sheet of its own for a chart has no cells, and openpyxl fails at some of them.
            reader.read_chartsheet = lambda *_: None
            reader.read()
            return reader.wb

        return self._careful(opened)

    def _rows(self, sheet: Any, *, values_only: bool = True) -> Iterator[Sequence[Any]]:
        def opened() -> Iterator[Sequence[Any]]:
            sheet.reset_dimensions()  # some programs write a size that hides rows and columns
            rows: Iterator[Sequence[Any]] = sheet.iter_rows(values_only=values_only)
            return rows

        rows: Iterator[Sequence[Any]] = self._careful(opened)
        return rows

    def _formulas(self, files: ExitStack, begin: int) -> Iterator[Sequence[Any]]:
        """Read the formulas without a value, row by row; None stands for all other cells.

        A formula whose value is an empty text has a type, one that nobody computed has none.
        """
        books = [self._open(files.enter_context(self.path.open("rb")), data_only=data_only)
                 for data_only in (True, False)]
        cells = self._rows(books[0][self._sheet], values_only=False)
        texts = self._rows(books[1][self._sheet], values_only=False)
        for row, other in islice(zip(cells, texts, strict=True), begin, None):
            yield [
                _formula(text)
                if text.data_type == "f" and cell.value is None and cell.data_type != "str"
                else None for cell, text in zip(row, other, strict=True)
            ]

    def _careful(self, work: Callable[[], Any]) -> Any:
        """Do what openpyxl does; damaged workbooks make it raise exceptions of any kind."""
        try:
            with warnings.catch_warnings():
                # About styles and rules of a workbook, which have no part in its values.
                warnings.simplefilter("ignore")
                return work()
        except (MemoryError, PCEGPError):
            raise
        except Exception as error:  # see above: KeyError, zlib.error, ParseError and others
            raise self.damaged(error) from None


def _is_any_filled(rows: Iterator[Sequence[Any]]) -> bool:
    return any(map(is_filled, rows))


def _hidden_rows(sheet: Any) -> int:
    """Count the rows with anything in them that are hidden."""
    xml = needed("openpyxl.xml.functions", "reading Excel", "tables")
    # The cells that openpyxl gives do not know whether their row is hidden.
    with sheet._get_source() as source:
        if not _holds(source, b"hidden"):  # as nearly all sheets, which is soon seen
            return 0
    count, is_row_filled = 0, False
    with sheet._get_source() as source:
        for _, element in xml.iterparse(source):
            tag = element.tag.rpartition("}")[2]
            if tag in ("v", "is"):
                is_row_filled = True
            elif tag == "row":
                count += is_row_filled and element.get("hidden") in ("1", "true")
                is_row_filled = False
                element.clear()
    return count


def _holds(stream: BinaryIO, word: bytes) -> bool:
    """Tell whether a word is in the rest of a stream."""
    end = b""
    while chunk := stream.read(_CHUNK):
        if word in end + chunk:
            return True
        end = chunk[-len(word):]
    return False


def _formula(cell: Any) -> Formula:
    formula = Formula(getattr(cell.value, "text", cell.value))
    formula.place = cell.coordinate
    return formula


def _with_formulas(row: Sequence[Any], formulas: Sequence[Any]) -> Sequence[Any]:
    """Put the formulas without a value into a row, where they stand."""
    if not any(formulas):
        return row
    return [cell if formula is None else formula
            for cell, formula in zip(row, formulas, strict=True)]


def open_table(path: Path) -> Table:
    """Open the table in a file or in the standard input.

    Parameters
    ----------
    path : Path
        Its ending tells Parquet and Excel, anything else is CSV; "-" is the standard input, whose
        beginning tells.

    Returns
    -------
    Table
        Nothing but the standard input is read yet.
    """
    if path == _STANDARD_INPUT:
        return _open_standard_input()
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"{shown(path, 1000)} {what}: give a CSV, Parquet or Excel file")
    kinds: dict[str, Callable[[Path], Table]] = {
        ".parquet": ParquetTable, ".pq": ParquetTable, ".xlsx": ExcelTable, ".xlsm": ExcelTable,
    }
    return kinds.get(path.suffix.lower(), CsvTable)(path)


def _open_standard_input() -> Table:
    """Keep the standard input in a temporary file, as tables are read more than once."""
    folder = TemporaryDirectory(prefix="pcegp-")
    path = Path(folder.name) / "standard-input"
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    with path.open("rb") as copy:
        start = copy.read(len(ZIP_START))
    kinds: dict[bytes, type[Table]] = {b"PAR1": ParquetTable, ZIP_START: ExcelTable}
    table = kinds.get(start, CsvTable)(path, "the standard input")
    weakref.finalize(table, folder.cleanup)
    return table
