"""Files that are written whole or not at all.

A file is written under another name beside its place, flushed to disk and renamed:

    .NAME.pcegp-partial-HEX.EXT

Its writer holds a lock of the operating system on it, which ends with the process however that
ends. So whoever writes the same file next can tell what a killed process left, and deletes it.
"""

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from math import isfinite
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

from pcegp.errors import FileError, PCEGPError, shown
from pcegp.io.locks import lock

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS)
_LONGEST = 180  # bytes of a name that are kept in that of its partial file; most systems take 255
_PATH = 1000  # characters of a path in a message
_TRIES = 100  # to make a partial file; another process may take a new one for a dead one's
_SPECIAL = ((stat.S_ISDIR, "a folder"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
            (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
_NO_NAMES = {errno.ELOOP: "a link in a circle", errno.ENAMETOOLONG: "too long a name"}


def _special(path: Path) -> str | None:
    """Say what stands at a path that is no plain file; None for a plain file and for nothing."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return _NO_NAMES.get(error.errno or 0)
    return next((name for test, name in _SPECIAL if test(mode)), None)


def check_plain(
    path: Path, failure: type[PCEGPError] = FileError, advice: str = "", called: str = ""
) -> None:
    """Refuse a path where something else than a plain file stands.

    It is asked before it is opened: a pipe waits for its writer, and a device has no end.

    Parameters
    ----------
    path : Path
    failure : type of PCEGPError
        What is raised.
    advice : str
        What to do next; for a file that is to be written it is known.
    called : str
        What the message calls the file; empty for its path.
    """
    what = _special(path)
    if what is not None:
        usual = "name a file in it" if what == "a folder" else "name a plain file"
        raise failure(f"{called or shown(path, _PATH)} is {what}: {advice or usual}")


def check_writable(path: Path, called: str = "") -> None:
    """Refuse, before the work, a path that cannot become a file; see `check_plain`."""
    called = called or shown(path, _PATH)
    check_plain(path, called=called)
    target = _destination(path)
    if target.exists() and not (os.access(target, os.W_OK) and target.stat().st_mode & 0o222):
        raise FileError(f"{called} is write-protected: choose another file")
    place = next((parent for parent in target.parents if parent.exists()), Path("/"))
    refusal = FileError(f"cannot write {called}: {shown(place, _PATH)} takes no files, choose "
                        "another folder")
    if not place.is_dir():
        raise refusal
    # Only a try tells: permissions do not show a read-only disk, and bind no administrator.
    trial = _Partial(place / target.name)
    try:
        trial.create()
    except OSError:
        raise refusal from None
    finally:
        trial.discard()


class Together:
    """Files written in a block that take their places together, by `commit`, or not at all."""

    def __init__(self) -> None:
        self._waiting: list[_Partial] = []

    def __enter__(self) -> Self:
        self._outside = _together.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _together.reset(self._outside)
        for partial in self._waiting:
            partial.discard()

    def add(self, partial: "_Partial") -> None:
        """Let a finished file wait."""
        self._waiting.append(partial)

    def commit(self) -> list[Path]:
        """Put all files in their places and list them; only a broken disk can stop this halfway."""
        for partial in self._waiting:
            with _named(partial.asked):
                partial.take_place()
        return [partial.asked for partial in self._waiting]


_together: ContextVar[Together | None] = ContextVar("together", default=None)


@contextmanager
def taking_place_alone() -> Iterator[None]:
    """Let each file of the block take its place as soon as it is whole, in any case."""
    outside = _together.set(None)
    try:
        yield
    finally:
        _together.reset(outside)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which takes its place when the block succeeds.

    A link is followed: the file that it leads to is replaced. A new file has the permissions
    that the user's umask gives, another keeps its own. In a block of `Together` the place is
    taken at its end.
    """
    partial, together = _Partial(path), _together.get()
    with ExitStack() as at_the_end:
        at_the_end.callback(partial.discard)
        _create(partial)
        with _named(path):
            yield partial.temporary
            partial.finish()
            if together is None:
                partial.take_place()
        if together is not None:
            together.add(partial)
            at_the_end.pop_all()


def _create(partial: "_Partial") -> None:
    path = partial.asked
    check_plain(path)
    try:
        partial.path.parent.mkdir(parents=True, exist_ok=True)
        partial.create()
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}, choose another place") from error


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file where the disk refuses to write."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise FileError(
            f"cannot write {path}: {error.strerror}; make room or choose another place"
        ) from error


def _destination(path: Path) -> Path:
    """Follow links to the file that is to be written."""
    return Path(os.path.realpath(path))


class _Partial:
    """A file that is being written, beside the place that it will take."""

    def __init__(self, path: Path) -> None:
        self.asked = path
        self.path = _destination(path)
        name = os.fsencode(self.path.name)[:_LONGEST].decode(errors="ignore")
        self._start, self._end = f".{name}.pcegp-partial-", self.path.suffix[:20]
        self._descriptor: int | None = None
        self._rename()

    def _rename(self) -> None:
        self.temporary = self.path.parent / f"{self._start}{token_hex(8)}{self._end}"

    def create(self) -> None:
        """Make the file and lock it, and delete those of writers that are gone."""
        self._delete_left_behind()
        for _ in range(_TRIES):
            # Named before it is there: an interrupt right after its creation must find it, too.
            self._rename()
            mode = self._mode()
            # Readable by no more users than the file that it replaces, but always by its writer.
            self.temporary.touch(mode=0o666 if mode is None else mode | 0o600, exist_ok=False)
            with suppress(FileNotFoundError, BlockingIOError):
                self._descriptor = os.open(self.temporary, os.O_RDWR)
                _lock_if_possible(self._descriptor)
                if os.fstat(self._descriptor).st_nlink:
                    return
            # Another process took it for a dead one's, before the lock was ours.
            self.discard()
        raise OSError(errno.EAGAIN, "other processes interfere")

    def _mode(self) -> int | None:
        """Find the permissions of the file that will be replaced, if there is one."""
        try:
            return stat.S_IMODE(self.path.stat().st_mode)
        except OSError:
            return None

    def finish(self) -> None:
        """Bring all that was written to the disk."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def take_place(self) -> None:
        """Replace the file by this one."""
        mode = self._mode()
        if mode is not None:
            self.temporary.chmod(mode)
        if sys.platform == "win32":
            self._close()  # an open file cannot be renamed there
        self.temporary.replace(self.path)
        with suppress(OSError):  # not every system can flush a folder
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Delete the file, unless it took its place."""
        with suppress(OSError):  # there may be none, nor a folder for it
            if sys.platform == "win32":
                self._close()
            self.temporary.unlink()
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _delete_left_behind(self) -> None:
        pattern = re.compile(re.escape(self._start) + "[0-9a-f]{16}" + re.escape(self._end))
        with suppress(OSError):  # a folder may take files without showing them
            for entry in os.scandir(self.path.parent):
                if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    _delete_if_dead(entry.path)


def _lock_if_possible(descriptor: int) -> None:
    """Lock a partial file; a BlockingIOError if another process has done so."""
    if sys.platform == "win32":
        return  # nobody can delete a file there that is open
    try:
        lock(descriptor)
    except BlockingIOError:
        raise
    except OSError:
        return  # some network disks have no locks, so nothing is deleted there


def _delete_if_dead(name: str) -> None:
    """Delete a partial file whose writer is gone."""
    with suppress(OSError):  # it is locked, has taken its place, or is another user's
        if sys.platform == "win32":
            os.unlink(name)  # which fails while a process has it open
            return
        descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            lock(descriptor)
            os.unlink(name)
        finally:
            os.close(descriptor)


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
        echo(f"\nFigures written to {shown(path, 1000)}")


def _finite(value: Any) -> Any:
    """Put null for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
