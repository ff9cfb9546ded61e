"""Storage of studies: in memory, in a journal file or in a database.

A database may be shared by several processes: each records heartbeats for the trials that it
runs, and Optuna finds those of a killed one. Memory and a journal file belong to one process at
a time; the journal is locked by the operating system, which ends the lock with the process.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any, BinaryIO

import optuna
from optuna.exceptions import ExperimentalWarning, OptunaError, StorageInternalError
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pcegp.errors import StorageError
from pcegp.search.trials import IDENTITY

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Seconds between heartbeats, and without one until a process counts as killed.
HEARTBEAT_INTERVAL, HEARTBEAT_GRACE = 15, 120
_CONNECT_WITHIN, _SQLITE_WAITS = 10, 60  # seconds
_TRIES = 3  # to make the tables of a new database
_FAR = 1 << 40  # bytes; Windows locks ranges, and this one holds no data

# What a storage raises when it cannot be reached.
STORAGE_FAILURES = (SQLAlchemyError, StorageInternalError, OSError)
# What SQLAlchemy (with the drivers' own errors in it), Optuna and the file system raise.
_FAILURES = (SQLAlchemyError, OptunaError, RuntimeError, ValueError, KeyError, OSError)


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's log; what the user should see is the progress bar."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        # Heartbeats and retries are experimental.
        with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
            yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def open_study(
    place: str | Path | BaseStorage | None, name: str, identity: Mapping[str, Any]
) -> Iterator[tuple[optuna.Study, BaseStorage]]:
    """Open the study of that name, made if need be, and its storage; refuse one of other data.

    `place` is a path of a journal file, the URL of a database, an Optuna storage (one without
    heartbeats is taken to be this process's alone), or None for memory; `identity` says what the
    trials belong to. A storage that fails while the study is worked on ends the work with a
    `StorageError`.
    """
    with _opened(place) as storage:
        study = _study(storage, name, identity)
        try:
            yield study, storage
        except StorageError:
            raise
        except STORAGE_FAILURES as error:
            raise StorageError(
                f"the storage of the study failed ({_reason(error)}): what was finished is in it; "
                "start again when it can be reached"
            ) from error


@contextmanager
def _opened(place: str | Path | BaseStorage | None) -> Iterator[BaseStorage]:
    if place is None:
        yield InMemoryStorage()
    elif isinstance(place, BaseStorage):
        yield place
    elif "://" in str(place):
        yield _database(str(place))
    else:
        file, storage = _journal(Path(place))
        with file:
            yield storage


def _study(storage: BaseStorage, name: str, identity: Mapping[str, Any]) -> optuna.Study:
    try:
        study = optuna.create_study(
            storage=storage, study_name=name, load_if_exists=True, sampler=RandomSampler(),
            directions=["minimize"] * len(identity["objective"]),
        )
        known = study.user_attrs.get(IDENTITY)
        if known is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(IDENTITY, dict(identity))
            known = study.user_attrs.get(IDENTITY)  # another process may have been there, too
    except _FAILURES as error:
        raise StorageError(f"the study {name!r} cannot be opened: {_reason(error)}") from error
    known = known or {}
    if known.get("layout") != identity["layout"]:
        raise StorageError(
            f"the study {name!r} was not made by this version of pcegp: choose another name"
        )
    differs = [key for key in identity if known.get(key) != identity[key]]
    if differs:
        raise StorageError(
            f"the study {name!r} was made with another {', '.join(differs)}: choose another name, "
            "or the same data and settings as before"
        )
    return study


def _database(url: str) -> RDBStorage:
    # PostgreSQL by psycopg 3, which the extra installs, unless the URL names a driver.
    with_driver = url.replace("postgresql://", "postgresql+psycopg://", 1)
    arguments = {"connect_timeout": _CONNECT_WITHIN} if url.startswith("postgresql") else {}
    if url.startswith("sqlite"):
        arguments = {"timeout": _SQLITE_WAITS}  # while another process writes
    # No connection stays open between two folds: the server may be restarted meanwhile.
    options = {"connect_args": arguments, "poolclass": NullPool}
    try:
        for attempt in range(_TRIES + 1):
            try:
                return RDBStorage(with_driver, engine_kwargs=options,
                                  heartbeat_interval=HEARTBEAT_INTERVAL,
                                  grace_period=HEARTBEAT_GRACE)
            except DatabaseError as error:
                # Another process makes the same tables, or their first rows, at this moment.
                both = isinstance(error, IntegrityError) or "already exists" in str(error)
                if attempt == _TRIES or not both:
                    raise
                sleep(1.0)
    except ImportError as error:
        raise StorageError(
            f"the driver for {without_password(url)} is not installed: for PostgreSQL, pip "
            "install 'pcegp[postgres]'"
        ) from error
    except _FAILURES as error:
        raise StorageError(
            f"the storage {without_password(url)} cannot be used ({_reason(error)}): check the "
            "address, the password and that its server runs"
        ) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def _reason(error: BaseException) -> str:
    """Put the text of an error, the driver's own, in one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def without_password(url: str) -> str:
    """Hide the password of an address; a path has none."""
    if "://" not in url:
        return url
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url.split("://", maxsplit=1)[0] + "://…"


def _journal(path: Path) -> tuple[BinaryIO, JournalStorage]:
    """Open the file of a journal, locked until it is closed, and its storage."""
    try:
        with ExitStack() as on_error:
            file = on_error.enter_context(path.open("a+b"))
            _lock(file)
            _cut_half_a_line(file)
            lock = JournalFileSymlinkLock(str(path))
            with suppress(RuntimeError):  # there is none, as a rule
                lock.release()  # Optuna's own outlives a killed process, and would be waited for
            storage = JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
            on_error.pop_all()
            return file, storage
    except BlockingIOError as error:
        raise StorageError(
            f"the journal file {path} is in use by another search: wait until that has ended, or "
            "keep the study in a database (sqlite:///… or postgresql://…), which several can share"
        ) from error
    except OSError as error:
        raise StorageError(
            f"the journal file {path} cannot be used ({error.strerror or error}): choose another "
            "path"
        ) from error
    except (ValueError, KeyError) as error:
        raise StorageError(f"{path} is not the journal of a study: choose another path") from error


def _lock(file: BinaryIO) -> None:
    """Take a file for this process, until it is closed or the process ends, however that is."""
    if sys.platform == "win32":
        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _cut_half_a_line(file: BinaryIO) -> None:
    """Cut off a last line that was half written when the machine went down."""
    file.seek(0)
    content = file.read()
    if not content:
        return
    first = json.loads(content.split(b"\n", 1)[0])
    if not isinstance(first, dict) or "op_code" not in first:
        raise ValueError
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        file.seek(0, os.SEEK_END)
        file.truncate(whole)
