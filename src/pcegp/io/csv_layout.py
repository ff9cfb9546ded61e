"""Where a CSV table begins, and what stands between its columns.

Excel may write `sep=;` as the first line; other programs write comments that begin with #. Such
lines are no part of the table. A title is not told from a header here: `Sheet` looks at the rows.
"""

import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile

from pcegp.errors import DataError, shown

MARKS = "\t;,|"  # between columns
_LINES = 100  # that are looked at
_PAIRS = 20  # of neighbours that may show the delimiter
_SEP = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """The number of lines above the table, and its delimiter."""

    skipped: int
    delimiter: str


def layout_of(text: str, title: str) -> Layout:
    """Find the layout of a table from its beginning; `title` names it in errors."""
    lines = [*islice(io.StringIO(text, newline=""), _LINES)]
    # The marks in names and texts in quotes are no delimiters.
    plain = re.sub(r'"[^"]*"', "", "".join(lines)).splitlines()
    said = _SEP.fullmatch(lines[0].rstrip("\r\n")) if lines else None
    if said is not None:
        if said[1] not in MARKS:
            raise DataError(f"{title}, line 1 says that '{shown(said[1])}' stands between columns: "
                            "write the table with commas, semicolons, tabs or bars")
        return Layout(1 + _comments(lines[1:], said[1]), said[1])
    delimiter = _delimiter([line for line in plain if line.strip()])
    return Layout(_comments(lines, delimiter), delimiter)


def _delimiter(lines: Sequence[str]) -> str:
    """Choose the most frequent mark in the header, of those as frequent in the next line.

    A title or comment has other marks than the table; the first lines that agree show those.
    """
    above = sum(1 for _ in takewhile(lambda line: line.lstrip().startswith("#"), lines))
    # The last line that begins with # may be the header.
    lines = lines[max(above - 1, 0):]
    pairs = list(islice(pairwise([*lines, "", ""]), _PAIRS))
    agreed = (mark for upper, lower in pairs for mark in [_best(upper, lower)]
              if mark is not None and upper.count(mark) == lower.count(mark))
    mark, first = next(agreed, None), _best(*pairs[0])
    if above or first is None or (mark is not None and mark not in lines[0]):
        return mark or first or ","
    return first


def _best(header: str, first: str) -> str | None:
    marks = [mark for mark in MARKS if mark in header]
    return max(marks, default=None, key=lambda mark: (
        header.count(mark) == first.count(mark), header.count(mark)
    ))


def _comments(lines: Sequence[str], delimiter: str) -> int:
    """Count the lines above the table if comments are among them, else none.

    The last line that begins with # is the header if the row below it has as many cells, and
    numbers in it. Without numbers that row is the header itself, unless no row has any.
    """
    filled = [k for k, line in enumerate(lines) if line.strip()]
    below = next((k for k in filled if not lines[k].lstrip().startswith("#")), None)
    if below is None or below == filled[0]:
        return 0
    last = max(k for k in filled if k < below)
    rows = _rows(lines[last:], delimiter)
    if len(rows) > 1 and len(rows[0]) == len(rows[1]):
        are_numbers = [_has_number(row) for row in rows[1:]]
        if are_numbers[0] or not any(are_numbers):
            return last
    return below


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Read the cells of lines, as far as they can be read; empty lines are no rows."""
    rows: list[list[str]] = []
    with suppress(csv.Error):  # it is named with its line when rows are read
        rows.extend(filter(any, csv.reader(lines, delimiter=delimiter)))
    return rows


def _has_number(row: Sequence[str]) -> bool:
    return any(re.fullmatch(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?", cell.strip(' "'))
               for cell in row)
