"""A file of results that grows by whole lines, so that a run can be stopped at any moment."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcegp.errors import DataError

Row = dict[str, Any]
Key = tuple[Any, ...]

#: What makes a row one of its kind.
KEYS = ("protocol", "budget", "method", "data", "seed", "fold")


def key_of(row: Mapping[str, Any]) -> Key:
    """What a row is about."""
    return tuple(row[name] for name in KEYS)


class ResultsFile:
    """Rows of JSON, one to a line; a line that a kill cut off is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read()

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = json.loads(line)
                key_of(row)
            except (ValueError, KeyError, TypeError):
                raise DataError(f"line {number} of {self.path} is not a result: repair or move "
                                "the file") from None
            self.rows.append(row)
        if len(whole) < len(content):
            os.truncate(self.path, len(whole))

    @property
    def done(self) -> set[Key]:
        """The keys of all rows."""
        return {key_of(row) for row in self.rows}

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; it is on the disk when this returns."""
        line = json.dumps({k: _plain(v) for k, v in row.items()}, allow_nan=False) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        self.rows.append(json.loads(line))


def _plain(value: Any) -> Any:
    """JSON knows no infinity: such a number is written as null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
