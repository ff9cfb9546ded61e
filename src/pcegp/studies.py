"""Where a search keeps its trials: opening a study, and who works on it.

A worker that is killed leaves its trials RUNNING in the study. A worker that is alive
shows it: on its own machine by its process, to others by a time stamp that it renews.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import sleep, time
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pcegp.errors import StorageError

_BEAT_EVERY = 30.0  # seconds
_SILENT_FOR = 600.0  # after which a worker on another machine counts as gone
_CONNECT_WITHIN = 10  # seconds
_TRIES = 3  # to make the tables of a new database
_LOCKED_FOR = 5  # seconds; a journal is locked for milliseconds, unless its worker was killed

_OWNER = "pcegp"  # study attribute: the data and settings that its trials belong to
WORKER = "worker"  # trial attribute: who works on it
REPEATS = "repeats"  # trial attribute: the stale trial that it repeats
STALE = "stale"

# What SQLAlchemy (with the drivers' own errors in it), Optuna and the file system raise.
_FAILURES = (SQLAlchemyError, OptunaError, RuntimeError, ValueError, KeyError, OSError)

_ALIVE_HERE: set[str] = set()


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """No log lines from Optuna; what the user should see is the progress bar."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def open_storage(storage: str | Path | BaseStorage | None) -> BaseStorage:
    """Memory (None), a journal file (a path), a database (a URL), or an Optuna storage."""
    if storage is None:
        return InMemoryStorage()
    if isinstance(storage, BaseStorage):
        return storage
    if "://" in str(storage):
        return _database(str(storage))
    return _journal(Path(storage))


def _database(url: str) -> RDBStorage:
    arguments = {"connect_timeout": _CONNECT_WITHIN} if url.startswith("postgresql") else {}
    # No connection stays open between two folds: the server may be restarted meanwhile.
    options = {"connect_args": arguments, "poolclass": NullPool}
    try:
        for _ in range(_TRIES):
            try:
                return RDBStorage(_with_driver(url), engine_kwargs=options)
            except (IntegrityError, ProgrammingError):
                sleep(1.0)  # another worker makes the same tables at this moment
        return RDBStorage(_with_driver(url), engine_kwargs=options)
    except ImportError as error:
        raise StorageError(
            f"the driver for {_without_password(url)} is not installed: for PostgreSQL, pip "
            "install 'pcegp[postgres]'"
        ) from error
    except _FAILURES as error:
        raise StorageError(
            f"the storage {_without_password(url)} cannot be used ({_reason(error)}): check the "
            "address, the password and that its server runs"
        ) from error


def _reason(error: BaseException) -> str:
    """In one line, as the driver put it."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _with_driver(url: str) -> str:
    """PostgreSQL by psycopg 3, which the extra installs, unless the URL names a driver."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url.split("://", maxsplit=1)[0] + "://…"


def _journal(path: Path) -> JournalStorage:
    try:
        if path.exists() and path.stat().st_size:
            _mend(path)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=_lock(path)))
    except OSError as error:
        raise StorageError(
            f"the journal file {path} cannot be used ({error.strerror or error}): choose another "
            "path"
        ) from error
    except (ValueError, KeyError) as error:
        raise StorageError(f"{path} is not the journal of a study: choose another path") from error


def _lock(path: Path) -> JournalFileSymlinkLock:
    return JournalFileSymlinkLock(str(path), grace_period=_LOCKED_FOR)


def _mend(path: Path) -> None:
    """Cut off a last line that was half written when the machine went down."""
    with path.open("rb") as lines:
        first = lines.readline()
        if not isinstance(json.loads(first), dict) or "op_code" not in json.loads(first):
            raise ValueError
        lines.seek(-1, os.SEEK_END)
        whole = lines.read(1) == b"\n"
    if not whole:
        lock = _lock(path)
        lock.acquire()
        try:
            content = path.read_bytes()
            with path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)
        finally:
            lock.release()


def open_study(
    storage: BaseStorage, name: str, n_objectives: int, owner: Mapping[str, Any],
    sampler: optuna.samplers.BaseSampler,
) -> optuna.Study:
    """The study of that name, made if need be; refused if it belongs to other data.

    `owner` says what the trials belong to: data, folds, objective, space and seed.
    """
    try:
        study = optuna.create_study(
            storage=storage, study_name=name, sampler=sampler, load_if_exists=True,
            directions=["minimize"] * n_objectives,
        )
        known = study.user_attrs.get(_OWNER)
        if known is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(_OWNER, dict(owner))
            known = dict(owner)
    except _FAILURES as error:
        raise StorageError(f"the study {name!r} cannot be opened: {_reason(error)}") from error
    if known != owner:
        differs = [key for key in owner if (known or {}).get(key) != owner[key]]
        raise StorageError(
            f"the study {name!r} was made with another {', '.join(differs)}: choose another name, "
            "or the same data and settings as before"
        )
    return study


def _started(pid: int) -> str | None:
    """When a process was started, or None if it is not there or cannot be known."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    return None


class Worker:
    """This process at work on a study; others can see that it is alive."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self._host, pid = socket.gethostname(), os.getpid()
        self.id = f"{self._host}/{pid}/{_started(pid) or ''}/{uuid.uuid4().hex[:8]}"
        self._stopped = Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Worker:
        _ALIVE_HERE.add(self.id)
        self._study.set_user_attr(self._key(self.id), time())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get(WORKER) == self.id:
                self.leave(trial.number)  # interrupted: for the next worker to repeat
        _ALIVE_HERE.discard(self.id)

    @staticmethod
    def _key(worker: str) -> str:
        return f"worker {worker}"

    def _beat(self) -> None:
        while not self._stopped.wait(_BEAT_EVERY):
            with suppress(Exception):  # the next beat tries again
                self._study.set_user_attr(self._key(self.id), time())

    def _is_alive(self, worker: str) -> bool:
        if worker in _ALIVE_HERE:
            return True
        host, pid, started, _ = worker.rsplit("/", 3)
        if host == self._host and started:
            return int(pid) != os.getpid() and _started(int(pid)) == started
        last = self._study.user_attrs.get(self._key(worker), 0.0)
        return bool(time() - last < _SILENT_FOR)

    def trials_to_repeat(self) -> list[FrozenTrial]:
        """Trials that a killed worker left behind, in their order, for this one to repeat.

        They are marked as stale in the study, by whom, and failed. One without a worker was
        left at the moment it was made: it has nothing to repeat.
        """
        alone = not any(self._is_alive(other) for other in self._others())
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            worker = trial.user_attrs.get(WORKER)
            if alone if worker is None else not self._is_alive(worker):
                self.leave(trial.number)
        trials = self._study.get_trials(deepcopy=False)
        repeated = {trial.user_attrs.get(REPEATS) for trial in trials}
        marks = stale_marks(self._study)
        return [
            trial for trial in trials
            if trial.number in marks and trial.number not in repeated
            and WORKER in trial.user_attrs
            and (marks[trial.number] == self.id or not self._is_alive(marks[trial.number]))
        ]

    def leave(self, number: int) -> None:
        """Mark a trial as left behind, to be repeated."""
        self._study.set_user_attr(f"{STALE} {number}", self.id)
        with suppress(ValueError, RuntimeError):  # it was finished after all
            self._study.tell(number, state=TrialState.FAIL)

    def _others(self) -> list[str]:
        keys = [key for key in self._study.user_attrs if key.startswith("worker ")]
        return [key.removeprefix("worker ") for key in keys if key != self._key(self.id)]


def stale_marks(study: optuna.Study) -> dict[int, str]:
    """The trials that a killed worker left behind, and who found them."""
    marks = {int(key.split()[1]): worker for key, worker in study.user_attrs.items()
             if key.startswith(f"{STALE} ")}
    failed = study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
    return {trial.number: marks[trial.number] for trial in failed if trial.number in marks}
