"""Cells of a table as numbers, and reasons why a cell is none.

A column is a list of n cells as read: text from CSV; text, numbers, dates and None from Parquet
and Excel. A mark is the character between units and decimals, "." or ",".
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import cache
from typing import Any

import numpy as np

from pcegp._typing import FloatArray

_MINUS = "\N{MINUS SIGN}"
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "?"}
# The months of English, German, French and Spanish, in full and cut short.
_MONTH = "(?:" + "|".join((
    r"jan(?:uary|uar|v?\.|vier|v)?|jän(?:ner)?|enero",
    r"feb(?:ruary|ruar|rero|\.)?|févr(?:ier|\.)?",
    r"mar(?:ch|s|zo|\.)?|märz?",
    r"a[pb]r(?:il|\.)?|avr(?:il|\.)?",
    r"mayo?|mai",
    r"june?|juni|juin|junio",
    r"july?|juli|juil(?:let|\.)|julio",
    r"aug(?:ust|\.)?|août|agosto",
    r"sep(?:t|tember|tembre|tiembre|t?\.)?",
    r"o[ck]t(?:ober|obre|ubre|\.)?",
    r"nov(?:ember|embre|iembre|\.)?",
    r"de[cz](?:ember|\.)?|déc(?:embre|\.)?|dic(?:iembre|\.)?",
)) + ")"
_DAY = r"\d{1,2}(?:\.|st|nd|rd|th)?"
_YEAR = r"(?:\d{4}|'?\d{2})"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[ap]\.?m\.?)?"
_DATE = re.compile("|".join((
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[ T].*)?",
    r"\d{1,2}([-/.])\d{1,2}\1\d{2,4}(?: .*)?",
    rf"{_CLOCK}|\d{{1,2}} ?[ap]m",
    r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])",
    r"(?:19|20)\d\d-?W\d{2}(?:-?\d)?",
    r"(?:19|20)\d{6}T\d{4,6}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{0,2})?",
    rf"{_DAY}[-/. ]?{_MONTH}(?:[-/., ]+{_YEAR})?(?: {_CLOCK})?",
    rf"{_MONTH}[-/. ]{_DAY}(?:,? {_YEAR})?(?: {_CLOCK})?",
    rf"{_MONTH}[-/., ]+\d{{4}}|\d{{4}}[-/. ]{_MONTH}(?:[-/. ]{_DAY})?",
)), re.IGNORECASE)
_UNIT = re.compile(
    # Letters that are also names of things need a blank: 3A is seldom a current.
    r"(.*\d)(?:\s*(?:[kMGTcdhmµμn]?(?:m|g|s|l|Pa|Hz|mol|bar|Wh|Nm)|[kMGcdmµμn](?:L|V|A|W|J|N|K)"
    r"|t|h|min|sec|lbs?|oz|ft|in|psi|dB|ppm|ppb|rpm|°[CF]|EUR|USD|GBP|CHF|days?|hours?|years?"
    r"|Tage?|Stunden?|Jahre?)|\s+[ACFJKLNVW])"
    r"(?:[²³]|\^?[23])?(?:/[A-Za-z]{1,4}(?:[²³]|\^?[23])?)?"
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,'’\s])\d{3}(?:\1\d{3})*(?:[.,]\d+)?")
_ONE_GROUP = re.compile(r"([+-]?\d{1,3})[.,](\d{3})")
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
# What a spreadsheet shows as it stands; anything else after a sign may be a formula.
_SIGNED = re.compile(r"[+-][\d.,]+(?:[eE][+-]?\d+)?%?")
_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")


class Formula(str):
    """A formula of a workbook that nobody has computed yet, in place of its value."""

    place = ""  # the cell it stands in, such as B2


@dataclass(frozen=True)
class Notation:
    """A way of writing numbers: whether 1,5 is one, and what marks are known to be."""

    comma: bool = False
    doubtful: frozenset[str] = frozenset()  # marks that may stand for thousands, as in 1.234
    decimal: frozenset[str] = frozenset()  # marks that the table shows to be decimal ones
    seen: frozenset[str] = frozenset()  # marks that stand in numbers, whatever they mean there

    @property
    def mark(self) -> str:
        """The decimal mark in which numbers are written beside those of the table."""
        is_read = self.comma and "," not in self.doubtful  # as the mark of decimals
        return "," if is_read and (self.doubtful or "," in self.seen) else "."


def notation_of(columns: Iterable[Sequence[str]], delimiter: str) -> Notation:
    """Find out how a table writes numbers from a sample of its columns and its delimiter."""
    decimal, thousands, seen = set(), set(), set()
    for column in columns:
        cells = [*map(_with_hyphen, column)]
        text = "".join(cells)
        for mark in ",.":
            if mark in text:
                if any(map(_doubtful(mark), cells)):
                    seen.add(mark)
                if any(map(_proof(mark), cells)):
                    decimal.add(mark)
                if any(map(_grouped(mark), cells)) or _is_mixed(cells, mark, sure=True):
                    thousands.add(mark)
    if delimiter == ",":
        return Notation(False, frozenset(thousands & {"."}), frozenset("."))
    if "," in decimal:
        thousands.add(".")
    # Semicolons stand between columns because commas stand in numbers; others say nothing.
    if "." in decimal or (delimiter != ";" and "," not in decimal):
        thousands.add(",")
    if not decimal and len(seen) > 1:  # 1.234 and 1,234: one of them is a thousand
        thousands |= seen
    return Notation(True, frozenset(thousands), frozenset(decimal), frozenset(seen))


def is_missing(cell: Any) -> bool:
    """Tell whether a cell is empty or says that its value is missing."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or (isinstance(cell, float) and np.isnan(cell))


def numbers(cells: Sequence[Any], notation: Notation) -> tuple[FloatArray, list[int]]:
    """Read cells as numbers (n,), NaN where one is missing; list those that are none."""
    text = _joined(cells)
    if _MINUS in text:
        cells = [_with_hyphen(cell) if isinstance(cell, str) else cell for cell in cells]
    values = _all_numbers(cells, text, notation)
    bad: list[int] = []
    if values is None:
        values = np.array([_number(cell, notation) for cell in cells])
        bad = [i for i in np.flatnonzero(np.isnan(values)).tolist() if not is_missing(cells[i])]
    for mark in ",.":
        if mark in text:
            bad += _in_doubt(cells, mark, notation)
    if "," in text and "." in text:
        bad += _of_two_marks(cells)
    return values, sorted(set(bad))


def reason(cell: Any, notation: Notation) -> str | None:
    """Say what a cell is that is not a number, and what to do; None for plain text."""
    if isinstance(cell, (list, tuple, dict)):
        return "which is several values in one cell: give each a column of its own"
    if isinstance(cell, Formula):
        return (f"which is a formula without a value (cell {cell.place}): open the file in Excel "
                "and save it")
    text = _with_hyphen(str(cell).strip())
    if isinstance(cell, (date, time, timedelta)) or _DATE.fullmatch(text):
        return ("which is a date or time: make a number of it, such as the days since a start, "
                "or leave the column out")
    if _HEXADECIMAL.fullmatch(text):
        return f"which is a hexadecimal number: write {int(text, 16)}"
    return _mark_reason(text, notation)


def is_formula(cell: Any) -> bool:
    """Tell whether a spreadsheet could take a text for a formula."""
    return (isinstance(cell, str) and cell[:1] in _FORMULA and cell != ""
            and not _SIGNED.fullmatch(cell) and not is_missing(cell))


def unguarded(text: str) -> str:
    """Take off the apostrophe that keeps a spreadsheet from taking a text for a formula."""
    return text[1:] if text[:1] == "'" and is_formula(text[1:]) else text


def exact_number(cell: str) -> float | None:
    """Read a text as a number if nothing of it is lost, as leading zeros would be."""
    # An integer of more than 15 digits is none of a spreadsheet's numbers.
    if re.fullmatch(r"-?(?:0|[1-9]\d{0,14})", cell) and cell != "-0":
        return int(cell)
    try:
        return value if repr(value := float(cell)) == cell and np.isfinite(value) else None
    except ValueError:
        return None


def _mark_reason(text: str, notation: Notation) -> str | None:
    """Say which mark or sign keeps a text from being a number, and what to do."""
    if group := _ONE_GROUP.fullmatch(text):
        return (f"where the mark may stand for thousands: write {group[1]}{group[2]} if it does, "
                f"{group[1]}.{group[2]}0 if it does not")
    if _THOUSANDS.fullmatch(text):
        return "where a mark may stand for thousands: write such numbers as 1234.5"
    if _COMMA.fullmatch(text) and notation.comma:
        return ("which has a decimal comma, and other cells of this column have a decimal point: "
                "write all of them with the same mark")
    if _COMMA.fullmatch(text):
        return ("which has a decimal comma: write 1.5 (or, in a CSV file, put semicolons between "
                "the columns)")
    return _sign_reason(text)


def _sign_reason(text: str) -> str | None:
    """Say which sign or unit stands beside a number."""
    for sign, number, place in ((text[-1:], text[:-1], "behind"), (text[:1], text[1:], "before")):
        is_sign = sign in "%‰°" or unicodedata.category(sign or " ") == "Sc"  # of a currency
        if is_sign and not np.isnan(_number(number, Notation(True))):
            return f"which has a sign {place} the number: write the number alone"
    unit = _UNIT.fullmatch(text)
    if unit and not np.isnan(_number(unit[1], Notation(True))):
        return "which has a unit behind the number: write the number alone"
    return None


def _joined(cells: Sequence[Any]) -> str:
    """Join the cells that are text, so that all can be searched at once."""
    try:
        return "".join(cells)
    except TypeError:  # not all of them are text
        return "".join(cell for cell in cells if isinstance(cell, str))


def _with_hyphen(text: str) -> str:
    """Write the minus sign of typography as that of a keyboard, which Python reads."""
    return text.replace(_MINUS, "-")


def _all_numbers(cells: Sequence[Any], text: str, notation: Notation) -> FloatArray | None:
    """Read cells at once, as nearly all columns allow; None if one of them is not a number.

    `text` is that of all cells.
    """
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


_Test = Callable[[str], object]


@cache
def _proof(mark: str) -> _Test:
    """Make the test whether a text can only be a number with this decimal mark."""
    mark = re.escape(mark)
    return re.compile(rf"\s*[+-]?(?:(?:0{mark}\d+|\d*{mark}(?!\d{{3}}(?:\D|$))\d+"
                      rf"|\d{{4,}}{mark}\d+)(?:[eE][+-]?\d+)?|\d+{mark}\d+[eE][+-]?\d+)\s*"
                      ).fullmatch


@cache
def _grouped(mark: str) -> _Test:
    """Make the test whether a text can only be a number with this mark between thousands."""
    other = re.escape("." if mark == "," else ",")
    group = rf"{re.escape(mark)}\d{{3}}"
    return re.compile(
        rf"\s*[+-]?[1-9]\d{{0,2}}(?:(?:{group}){{2,}}|(?:{group})+{other}\d+)\s*").fullmatch


@cache
def _doubtful(mark: str) -> _Test:
    """Make the test whether a text may be a decimal number or one of thousands: 1.234."""
    return re.compile(rf"\s*[+-]?[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}\s*").fullmatch


def _in_doubt(cells: Sequence[Any], mark: str, notation: Notation) -> list[int]:
    """List cells such as 1.234, unless the column or the table shows what the mark is."""
    test = _doubtful(mark)
    found = [i for i, cell in enumerate(cells) if isinstance(cell, str) and test(cell)]
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not found or any(map(_proof(mark), texts)):
        return []
    other = "." if mark == "," else ","
    sure = mark in notation.decimal
    if (mark in notation.doubtful or any(map(_proof(other), texts))
            or _is_mixed(cells, mark, sure=sure)):
        return found
    return []


def _of_two_marks(cells: Sequence[Any]) -> list[int]:
    """List cells such as 5,12 in a column that also has some such as 5.12."""
    texts = [(i, cell) for i, cell in enumerate(cells) if isinstance(cell, str)]
    comma, point = ([i for i, cell in texts if _proof(mark)(cell)] for mark in ",.")
    return comma if point else []


def _is_mixed(cells: Sequence[Any], mark: str, *, sure: bool) -> bool:
    """Tell whether a column such as 900, 1.010 is written as thousands are, not as decimals.

    Whoever writes three decimals writes them in every cell, or leaves zeros at the end away; then
    some cells have fewer. Thousands have three digits behind the mark, and numbers below have no
    mark. If the mark is `sure` to be decimal elsewhere, only a zero at the end shows it.
    """
    test, whole, marked, zeros = _doubtful(mark), False, False, False
    for cell in cells:
        if not isinstance(cell, str):
            whole = whole or not is_missing(cell)
        elif mark not in cell:
            whole = whole or _WHOLE.fullmatch(cell) is not None
        elif test(cell):
            marked, zeros = True, zeros or cell.rstrip()[-1] == "0"
        else:
            return False
    return whole and marked and (zeros or not sure)
