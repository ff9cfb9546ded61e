"""Storage of studies: in memory, in a journal file or in a database.

A database may be shared by several processes: each records heartbeats for the trials that it
runs, and Optuna finds those of a killed one. Memory and a journal file belong to one process at
a time; the journal is locked by the operating system, which ends the lock with the process.
"""

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any, BinaryIO
from urllib.parse import unquote, unquote_plus

import optuna
from optuna.exceptions import ExperimentalWarning, OptunaError, StorageInternalError
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from sqlalchemy.exc import DatabaseError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pcegp.errors import StorageError, shown
from pcegp.io import check_plain, is_address, lock
from pcegp.search.trials import IDENTITY

# Seconds between heartbeats, and without one until a process counts as killed.
HEARTBEAT_INTERVAL, HEARTBEAT_GRACE = 15, 120
_CONNECT_WITHIN, _SQLITE_WAITS = 10, 60  # seconds
_SHORT = 4  # characters: passwords below are hidden as words only
_TRIES = 3  # to make the tables of a new database

# What a storage raises when it cannot be reached, or cannot hold a text.
STORAGE_FAILURES = (SQLAlchemyError, StorageInternalError, OSError, UnicodeError)
_IN_MEMORY = re.compile(r"sqlite(?:\+\w+)?://(?:/|/:memory:)?(?:\?.*)?")
# Words in the names of an address's parameters whose values are secret.
_SECRET = re.compile("pass|pwd|secret|token", re.IGNORECASE)
# What SQLAlchemy (with the drivers' own errors in it), Optuna and the file system raise.
_FAILURES = (SQLAlchemyError, OptunaError, RuntimeError, ValueError, KeyError, OSError)


class Address(str):
    """An address with a password in it, whose `repr` has none.

    Whatever prints the parameters of an estimator (scikit-learn's text and HTML, logs, errors)
    prints their `repr`. The text itself is the true address.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(without_password(str(self)))


def checked_place(storage: Any) -> Any:
    """Check what a user gives as storage: a text, a path, an Optuna storage or None."""
    if not (storage is None or isinstance(storage, (BaseStorage, os.PathLike))
            or (isinstance(storage, str) and storage)):
        raise StorageError(f"storage={shown(repr(storage))} must be the path of a journal file, "
                           "the URL of a database or an Optuna storage")
    place = "" if storage is None or isinstance(storage, BaseStorage) else str(storage)
    if is_address(place) and "://" not in place:
        raise StorageError(f"the storage {shown(without_password(place), 200)} is no URL of a "
                           "database: write postgresql://USER:PASSWORD@HOST/NAME or "
                           "sqlite:///FILE, and ./NAME for a file with a colon in its name")
    return storage


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
        study = _study(storage, place, name, identity)
        try:
            yield study, storage
        except StorageError:
            raise
        except STORAGE_FAILURES as error:
            raise StorageError(
                f"the storage of the study failed ({_reason(error, place)}): what was finished is "
                "in it; start again when it can be reached"
            ) from _shareable(error, place)


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


def _study(
    storage: BaseStorage, place: Any, name: str, identity: Mapping[str, Any]
) -> optuna.Study:
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
        raise StorageError(
            f"the study {name!r} cannot be opened: {_reason(error, place)}"
        ) from _shareable(error, place)
    known = known if isinstance(known, dict) else {}
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
    if _IN_MEMORY.fullmatch(url):
        raise StorageError(f"the storage {url} names no file, so nothing would be kept: write "
                           "sqlite:///study.db")
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
    except (*_FAILURES, TypeError) as error:  # TypeError: an option that the driver lacks
        raise StorageError(
            f"the storage {without_password(url)} cannot be used ({_reason(error, url)}): check "
            "the address, the password and that its server runs"
        ) from _shareable(error, url)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _reason(error: BaseException, place: Any) -> str:
    """Put the text of an error, the driver's own, in one line without passwords."""
    return _hidden(" ".join(str(getattr(error, "orig", None) or error).split()), place)


def _shareable(error: BaseException, place: Any) -> BaseException | None:
    """Return an error as a cause to be shown, unless its text has a password."""
    whole = " ".join(map(str, (error, error.__cause__, error.__context__)))
    return error if _hidden(whole, place) == whole else None


def without_password(url: str) -> str:
    """Hide the passwords of an address, wherever they stand in it; a path has none."""
    return _hidden(url, url)


def _hidden(text: str, place: Any) -> str:
    """Hide the passwords of an address in a text; longer ones first, which may hold others."""
    for secret in sorted(_secrets(str(place)), key=len, reverse=True):
        # A short one is hidden as a word: as a part of words it tells nothing.
        edges = (r"(?<!\w)", r"(?!\w)") if len(secret) < _SHORT else ("", "")
        text = re.sub(f"{edges[0]}{re.escape(secret)}{edges[1]}", "***", text)
    return text


def _secrets(url: str) -> set[str]:
    """Find the passwords of an address, as written and as meant; it may be malformed."""
    _, separator, rest = url.partition("://")
    is_url = bool(separator)
    if not is_url:
        if not is_address(url):
            return set()
        rest = url.partition(":")[2]  # of a scheme, or of a user
    address, _, query = rest.partition("?")
    found = {value for name, _, value in (part.partition("=") for part in re.split("[&;]", query))
             if _SECRET.search(unquote(name))}
    # A password may hold an @ that should have been quoted, or the ? that seems to begin the query.
    whole = address if "@" in address else rest
    if not is_url:
        found.add(whole.rpartition("@")[0])
    elif not rest.startswith("/"):  # a file has no user
        for user, at, _ in (whole.partition("@"), whole.rpartition("@")):
            if at:
                found.add(user.partition(":")[2])
    return {form for secret in found for form in (secret, unquote(secret), unquote_plus(secret))
            if form}


def _journal(path: Path) -> tuple[BinaryIO, JournalStorage]:
    """Open the file of a journal, locked until it is closed, and its storage."""
    try:
        check_plain(path, StorageError, "choose another path for the journal")
        with ExitStack() as on_error:
            file = on_error.enter_context(path.open("a+b"))
            lock(file.fileno())
            _cut_half_a_line(file)
            of_optuna = JournalFileSymlinkLock(str(path))
            with suppress(RuntimeError):  # there is none, as a rule
                of_optuna.release()  # it outlives a killed process, and would be waited for
            storage = JournalStorage(JournalFileBackend(str(path), lock_obj=of_optuna))
            on_error.pop_all()
            return file, storage
    except StorageError:
        raise
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
    except Exception as error:  # Optuna replays the operations, and trusts each of them
        raise StorageError(f"{path} is not the journal of a study: choose another path") from error


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
