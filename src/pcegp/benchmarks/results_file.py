"""A file of results that grows by whole lines, so that a run can be stopped at any moment."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pcegp.errors import DataError, SettingError

if sys.platform != "win32":  # which has no such locks
    import fcntl

Row = dict[str, Any]
Key = tuple[Any, ...]

#: What makes a row one of its kind.
KEYS = ("protocol", "budget", "method", "data", "seed", "fold")
# What every row tells about itself.
_FACTS = ("seconds", "version", "date", "machine", "n_train", "n_test", "n_known")
# JSON has no number for these; scores may be such.
_ODD = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def key_of(row: Mapping[str, Any]) -> Key:
    """Tell what a row is about."""
    return tuple(row[name] for name in KEYS)


class ResultsFile:
    """Rows of JSON, one to a line; a line that a kill cut off is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[Key, Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read()

    def _read(self) -> int:
        """Read all rows; returns the number of bytes of whole lines."""
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = _from_line(line)
                self._rows.setdefault(key_of(row), row)
                known = row.keys() >= set(_FACTS)
            except (ValueError, KeyError, TypeError, AttributeError):
                known = False
            if not known:
                raise DataError(f"line {number} of {self.path} is not a result of this version: "
                                "repair or move the file")
        return len(whole)

    @property
    def rows(self) -> list[Row]:
        """The rows, in the order in which they came."""
        return list(self._rows.values())

    def get(self, key: Key) -> Row | None:
        """Look up the row of a key, if there is one."""
        return self._rows.get(key)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Read the file anew, and let no other process add rows meanwhile; a kill frees it."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if sys.platform != "win32":
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise SettingError(f"another run writes to {self.path}: wait for it, or choose "
                                       "another --out") from None
            # Only now is a last line without an end known to be one that a kill cut off.
            os.ftruncate(handle, self._read())
            yield
        finally:
            os.close(handle)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; it is on the disk, whole, when this returns."""
        line = _to_line(row)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            before = os.fstat(handle).st_size
            try:
                rest = line
                while rest:
                    rest = rest[os.write(handle, rest):]
                os.fsync(handle)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(handle, before)  # rather no line than half of one
                raise
        finally:
            os.close(handle)
        self._rows[key_of(row)] = _from_line(line)


def _to_line(row: Mapping[str, Any]) -> bytes:
    plain = {name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
             for name, value in row.items()}
    return (json.dumps(plain, allow_nan=False) + "\n").encode()


def _from_line(line: bytes) -> Row:
    return {name: _ODD.get(value, value) if isinstance(value, str) else value
            for name, value in json.loads(line).items()}
