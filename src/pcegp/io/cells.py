"""Cells of a table as numbers, and reasons why a cell is none.

A column is a list of n cells as read: text from CSV; text, numbers, dates and None from Parquet
and Excel. A mark is the character between units and decimals, "." or ",".
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from pcegp._typing import FloatArray

_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?"}
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[ T].*)?|\d{1,2}([-/.])\d{1,2}\1\d{2,4}(?: .*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,'’\s])\d{3}(?:\1\d{3})*(?:[.,]\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
# What a spreadsheet shows as it stands; anything else after a sign may be a formula.
_SIGNED = re.compile(r"[+-][\d.,]+(?:[eE][+-]?\d+)?%?")
_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")


@dataclass(frozen=True)
class Notation:
    """A way of writing numbers: whether 1,5 is one, and which marks are in doubt."""

    comma: bool = False
    doubtful: frozenset[str] = frozenset()  # marks that may stand for thousands, as in 1.234

    @property
    def mark(self) -> str:
        """The decimal mark in which numbers are written beside those of the table."""
        return "," if self.doubtful == {"."} else "."


def notation_of(cells: Iterable[str], delimiter: str) -> Notation:
    """Find out how a table writes numbers from some of its cells and what stands between them."""
    if delimiter == ",":
        return Notation()
    sample = list(cells)
    proved = {mark for mark in ",." if any(map(_proof(mark), sample))}
    doubtful = set()
    if "," in proved:
        doubtful.add(".")
    # Semicolons stand between columns because commas stand in numbers; tabs say nothing.
    if "." in proved or (delimiter == "\t" and "," not in proved):
        doubtful.add(",")
    return Notation(True, frozenset(doubtful))


def is_missing(cell: Any) -> bool:
    """Tell whether a cell is empty or says that its value is missing."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or (isinstance(cell, float) and np.isnan(cell))


def numbers(cells: Sequence[Any], notation: Notation) -> tuple[FloatArray, list[int]]:
    """Read cells as numbers (n,), NaN where one is missing; list those that are none."""
    values = _all_numbers(cells, notation)
    bad: list[int] = []
    if values is None:
        values = np.array([_number(cell, notation) for cell in cells])
        bad = [i for i in np.flatnonzero(np.isnan(values)).tolist() if not is_missing(cells[i])]
    for mark in notation.doubtful:
        bad += _in_doubt(cells, mark)
    return values, sorted(set(bad))


def reason(cell: Any) -> str | None:
    """Say what a cell is that is not a number, and what to do; None for plain text."""
    if isinstance(cell, (list, tuple, dict)):
        return "which is several values in one cell: give each a column of its own"
    text = str(cell).strip()
    if isinstance(cell, (date, time, timedelta)) or _DATE.fullmatch(text):
        return ("which is a date or time: make a number of it, such as the days since a start, "
                "or leave the column out")
    if _THOUSANDS.fullmatch(text):
        return "where a mark may stand for thousands: write such numbers as 1234.5"
    if _COMMA.fullmatch(text):
        return ("which has a decimal comma: write 1.5 (or, in a CSV file, put semicolons between "
                "the columns)")
    if text.endswith("%") and not np.isnan(_number(text[:-1], Notation(True))):
        return "which has a sign behind the number: write the number alone"
    return None


def is_formula(cell: Any) -> bool:
    """Tell whether a spreadsheet could take a text for a formula."""
    return (isinstance(cell, str) and cell[:1] in _FORMULA and cell != ""
            and not _SIGNED.fullmatch(cell) and not is_missing(cell))


def exact_number(cell: str) -> float | None:
    """Read a text as a number if nothing of it is lost, as leading zeros would be."""
    # An integer of more than 15 digits is none of a spreadsheet's numbers.
    if re.fullmatch(r"-?(?:0|[1-9]\d{0,14})", cell) and cell != "-0":
        return int(cell)
    try:
        return value if repr(value := float(cell)) == cell and np.isfinite(value) else None
    except ValueError:
        return None


def _all_numbers(cells: Sequence[Any], notation: Notation) -> FloatArray | None:
    """Read cells at once, as nearly all columns allow; None if one of them is not a number."""
    try:
        text = "".join(cells)
    except TypeError:  # not all of them are text
        text = "".join(cell for cell in cells if isinstance(cell, str))
    if "_" in text:  # Python's way of writing 1_000, not a table's
        return None
    if notation.comma and "," in text:
        cells = [c.replace(",", ".") if isinstance(c, str) else c for c in cells]
    try:
        values = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values if values.ndim == 1 else None


def _number(cell: Any, notation: Notation) -> float:
    """Read one cell; NaN if it is missing or not a number."""
    text = cell
    if isinstance(cell, str):
        if "_" in cell:
            return np.nan
        text = cell.replace(",", ".") if notation.comma else cell
    try:
        return float(text)
    except (TypeError, ValueError):
        return np.nan


def _proof(mark: str) -> Any:
    """Make the test whether a text can only be a number with this decimal mark."""
    mark = re.escape(mark)
    match = re.compile(rf"\s*[+-]?(?:0{mark}\d+|\d*{mark}(?!\d{{3}}(?:\D|$))\d+"
                       rf"|\d{{4,}}{mark}\d+)(?:[eE][+-]?\d+)?\s*").fullmatch
    return lambda text: isinstance(text, str) and match(text) is not None


def _in_doubt(cells: Sequence[Any], mark: str) -> list[int]:
    """List cells such as 1.234, unless another cell of the column shows what the mark is."""
    match = re.compile(rf"\s*[+-]?[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}\s*").fullmatch
    found = [i for i, cell in enumerate(cells) if isinstance(cell, str) and match(cell)]
    return [] if found and any(map(_proof(mark), cells)) else found
