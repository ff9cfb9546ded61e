"""CSV as people have it: any of four delimiters, decimal commas, five encodings, gzip, quotes.

The header is read from the start of the file, so a misspelt name is answered at once. Whether all
of the file is text in one encoding is looked at when rows are read.
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from itertools import chain, islice, zip_longest
from typing import Any, BinaryIO, TextIO, cast

from pcegp.errors import DataError, shown
from pcegp.io.archive import ZIP_START
from pcegp.io.cells import Notation, notation_of, numbers
from pcegp.io.csv_layout import MARKS, Layout, layout_of
from pcegp.io.tables import Dialect, Sheet

_START = 1 << 20  # bytes that are looked at before the whole file is
_SAMPLE = 1000  # lines that show how numbers are written
_GZIP = b"\x1f\x8b"
# The longer mark first: that of UTF-16 is the beginning of it.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}
_UNPACK = "compressed by {}: unpack it"
# What begins like this is no text.
_OTHERS = {
    **{f"BZh{level}1AY&SY".encode(): _UNPACK.format("bzip2") for level in range(1, 10)},
    b"\xfd7zXZ\0": _UNPACK.format("xz"),
    b"7z\xbc\xaf\x27\x1c": _UNPACK.format("7-Zip"),
    b"\x28\xb5\x2f\xfd": _UNPACK.format("Zstandard"),
    ZIP_START: _UNPACK.format("zip") + ", or let its name end in .xlsx if it is a workbook",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a workbook of an old Excel, or one with a password: "
    "save it as .xlsx without one",
    b"PAR1": "Apache Parquet: let its name end in .parquet",
}
_OTHER_TEXT = {
    "JSON": re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\d\]-])'),
    "HTML or XML": re.compile(r"\s*<(?:!doctype|!--|\?xml|(?:html|head|body|table)[\s>])",
                              re.IGNORECASE),
}
_LOOKED_AT = 20  # lines that show what kind of text it is
_HALF_PAIR = re.compile("\udced[\udca0-\udcbf][\udc80-\udcbf]")  # a lone surrogate as bytes
_LETTER = re.compile("[^\0-\x7f\udc80-\udcff]")  # a character of several bytes in UTF-8


class CsvTable(Sheet):
    """Text with one line per row, perhaps compressed by gzip."""

    @cached_property
    def _first_encoding(self) -> str:
        return self._find_encoding(start_only=True)

    @cached_property
    def _encoding(self) -> str:
        return self._find_encoding()

    @cached_property
    def _is_gzip(self) -> bool:
        with self.path.open("rb") as stream:
            return stream.read(2) == _GZIP

    @cached_property
    def _text(self) -> str:
        """The text of the start of the file."""
        decoder = codecs.getincrementaldecoder(self._first_encoding)()
        return "".join(map(decoder.decode, self._chunks(start_only=True)))

    @cached_property
    def _layout(self) -> Layout:
        self._check_kind()
        return layout_of(self._text, self.title)

    def _check_kind(self) -> None:
        """Refuse text that is no table with one of our marks between its columns."""
        text = self._text.lstrip("\ufeff")
        what = next((name for name, start in _OTHER_TEXT.items() if start.match(text)), None)
        if what is not None:
            raise DataError(f"{self.title} is {what}, and no table of rows and columns: write it "
                            "as CSV, Parquet (.parquet) or Excel (.xlsx)")
        header, *lines = [*filter(str.strip, islice(io.StringIO(text), _LOOKED_AT)), ""]
        if any(mark in header for mark in MARKS):
            return
        rows = [line.split() for line in [header, *lines] if line]
        cells = [cell for row in rows[1:] for cell in row]
        is_even = len({len(row) for row in rows}) == 1 < len(rows[0])
        if cells and is_even and not numbers(cells, Notation(True))[1]:
            raise DataError(f"{self.title} has blanks between its columns: write commas, "
                            "semicolons, tabs or bars there")

    @property
    def dialect(self) -> Dialect:
        return Dialect(self._layout.delimiter, self._numbers.mark, self._encoding)

    @cached_property
    def _numbers(self) -> Notation:
        text = self._text
        lines = list(islice(io.StringIO(text, newline=""), self._layout.skipped, _SAMPLE))
        if len(text) > _START // 8 and len(lines) > 1 and not lines[-1].endswith("\n"):
            del lines[-1]  # where the start of the file ends, a number may be cut off
        delimiter = self._layout.delimiter
        rows: list[list[str]] = []
        with suppress(csv.Error):  # it is named with its line when rows are read
            rows.extend(filter(any, csv.reader(lines, delimiter=delimiter, skipinitialspace=True)))
        return notation_of(zip_longest(*rows[1:], fillvalue=""), delimiter)

    def _notation(self) -> Notation:
        return self._numbers

    def size(self) -> int:
        return self.path.stat().st_size

    def _position(self) -> int:
        return self.size() if self._stream.closed else self._stream.tell()

    def _lines(self, *, start_only: bool = False) -> Iterator[tuple[int, Sequence[Any]]]:
        delimiter, above = self._layout.delimiter, self._layout.skipped
        source = nullcontext(io.StringIO(self._text, "")) if start_only else self._open()
        with source as stream:
            # Many write a blank behind the delimiter, and it may stand before a quotation mark.
            reader = csv.reader(islice(stream, above, None), delimiter=delimiter, strict=True,
                                skipinitialspace=True)
            try:
                for row in reader:
                    yield above + reader.line_num, row
            except csv.Error as error:
                raise self._bad_line(above + reader.line_num, error) from None

    def _check_fields(self, line: int, fields: int, expected: int) -> None:
        if fields != expected:
            raise DataError(f"{self.title}, line {line}: {fields} fields, but the header has "
                            f"{expected}")

    def _bad_line(self, line: int, error: csv.Error) -> DataError:
        limit = csv.field_size_limit()
        if "field limit" not in str(error):
            return DataError(f"{self.title}, line {line}: a quotation mark is missing or stands "
                             "inside a cell: write one inside a cell as two")
        with self._open() as stream:
            text = next(islice(stream, line - 1, None), "")
        fields = enumerate(text.split(self._layout.delimiter), 1)
        found = next((f", column {k}: '{shown(cell)}'" for k, cell in fields if len(cell) > limit),
                     ": a cell")
        return DataError(f"{self.title}, line {line}{found} has more than {limit:,} characters: is "
                         "a quotation mark missing?")

    @contextmanager
    def _open_bytes(self) -> Iterator[BinaryIO]:
        with self.path.open("rb") as stream:
            self._stream = stream
            if self._is_gzip:
                with gzip.GzipFile(fileobj=stream) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield stream

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        encoding = self._encoding
        with self._open_bytes() as stream, \
                io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
            yield text

    def _chunks(self, start_only: bool) -> Iterator[bytes]:
        """Read the bytes of the file, or of its start, which has a line end at least."""
        try:
            with self._open_bytes() as stream:
                while chunk := stream.read(_START):
                    yield chunk
                    if start_only and b"\n" in chunk:
                        return
        except (EOFError, OSError, zlib.error) as error:
            if not self._is_gzip:
                raise
            raise self.damaged(error) from None

    def _find_encoding(self, *, start_only: bool = False) -> str:
        """Find the encoding that all of the file is text in.

        A byte-order mark says it; else it is UTF-8, as nearly always, or Windows-1252, which has
        all letters of Latin-1 in their places.
        """
        start = next(self._chunks(True), b"")
        other = next((what for sign, what in _OTHERS.items() if start.startswith(sign)), None)
        if other is not None:
            raise DataError(f"{self.title} is {other}")
        marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
        encoding = marked or "utf-8"
        fault = _first_fault(self._chunks(start_only), encoding, start_only)
        if fault is None:
            return encoding
        line, is_nul = fault
        place = f"{self.title}, line {line}"
        if is_nul and line == 1:
            raise DataError(f"{self.title} is not text: give a CSV, Parquet (.parquet) or Excel "
                            "(.xlsx) file")
        if is_nul:
            raise DataError(f"{place} holds a NUL byte, which no text has: write the table again, "
                            "as UTF-8")
        if marked is None and not self._is_partly_utf8(start_only):
            encoding = "cp1252"
            fault = _first_fault(self._chunks(start_only), encoding, start_only)
            if fault is None:
                return encoding
            place = f"{self.title}, line {fault[0]}"
        raise DataError(f"{place} holds bytes that are no text in {encoding.upper()}, as the rest "
                        "of the file is: correct the line, or write the table again as UTF-8")

    def _is_partly_utf8(self, start_only: bool) -> bool:
        """Tell whether a file that is not UTF-8 has letters or half surrogate pairs of it."""
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        return any(
            _LETTER.search(text) or _HALF_PAIR.search(text)
            for text in map(decoder.decode, self._chunks(start_only))
        )


def _first_fault(
    chunks: Iterable[bytes], encoding: str, start_only: bool
) -> tuple[int, bool] | None:
    """Find the line of the first byte that is not text, and whether it is a NUL."""
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    # The end is checked too, for half a character; the start of a file may end in one.
    for chunk in chunks if start_only else chain(chunks, [b""]):
        try:
            text = decoder.decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            return line + error.object[:error.start].count(b"\n"), False
        if "\0" in text:
            return line + text[:text.index("\0")].count("\n"), True
        line += text.count("\n")
    return None
