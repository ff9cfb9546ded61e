"""Readers of Parquet and Excel, and the choice of the reader for a file or the standard input."""

import shutil
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pcegp.errors import DataError, needed, shown
from pcegp.io.csv_table import CsvTable
from pcegp.io.tables import Block, Sheet, Table

_AT_ONCE = 1000  # rows of a workbook
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
                columns = [column.to_pylist() for column in batch.columns]
                yield batch, list(zip(*columns, strict=True))
        except MemoryError:
            raise
        except Exception as error:  # of any kind, from a damaged file
            raise self.damaged(error) from None

    def size(self) -> int:
        with self._file() as file:
            return int(file.metadata.num_rows)


class ExcelTable(Sheet):
    """The first sheet of an Excel workbook, by openpyxl."""

    def _lines(self, *, start_only: bool = False) -> Iterator[tuple[int, Sequence[Any]]]:  # noqa: ARG002
        openpyxl = needed("openpyxl", "reading Excel", "tables")

        def opened() -> Iterator[Sequence[Any]]:
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write a size that hides rows and columns
            rows: Iterator[Sequence[Any]] = sheet.iter_rows(values_only=True)
            return rows

        with self.path.open("rb") as stream:
            rows, line = self._careful(opened), 1
            while block := self._careful(lambda: list(islice(rows, _AT_ONCE))):
                yield from enumerate(block, line)
                line += len(block)

    def _careful(self, work: Callable[[], Any]) -> Any:
        """Do what openpyxl does; damaged workbooks make it raise exceptions of any kind."""
        try:
            with warnings.catch_warnings():
                # About styles and rules of a workbook, which have no part in its values.
                warnings.simplefilter("ignore")
                return work()
        except MemoryError:
            raise
        except Exception as error:  # see above: KeyError, zlib.error, ParseError and others
            raise self.damaged(error) from None


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
        start = copy.read(4)
    kinds: dict[bytes, type[Table]] = {b"PAR1": ParquetTable, b"PK\x03\x04": ExcelTable}
    table = kinds.get(start, CsvTable)(path, "the standard input")
    weakref.finalize(table, folder.cleanup)
    return table
