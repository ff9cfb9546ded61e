"""Files that are written whole or not at all."""

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import Any

from pcegp.errors import FileError

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS)


def check_writable(path: Path) -> None:
    """Refuse, before the work, a path that cannot become a file."""
    if path.is_dir():
        raise FileError(f"{path} is a folder: name a file in it")
    place = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise FileError(f"cannot write {path}: {place} takes no files, choose another folder")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which takes its place when the block succeeds."""
    # Named before it is there: an interrupt right after its creation must find it, too.
    temporary = path.parent / f".{path.name}.{token_hex(8)}{path.suffix}"
    try:
        _create(temporary, path)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise FileError(
            f"cannot write {path}: {error.strerror}; make room or choose another place"
        ) from error
    finally:
        with suppress(OSError):  # there may be none, nor a folder for it
            temporary.unlink()


def _create(temporary: Path, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}, choose another place") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_figures(
    path: Path | None, figures: Mapping[str, Any], echo: Callable[[str], None]
) -> None:
    """Write figures as JSON, if the user wants them, and say so."""
    if path is not None:
        write_text(path, json.dumps(_finite(figures), indent=2, allow_nan=False) + "\n")
        echo(f"\nFigures written to {path}")


def _finite(value: Any) -> Any:
    """Put null for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
