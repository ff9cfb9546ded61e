"""Where a search keeps its trials: opening a study, and who works on it.

A worker that is killed leaves its trials RUNNING in the study. A worker that is alive
shows it: on its own machine by its process, to others by a time stamp that it renews.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count, islice
from pathlib import Path
from threading import Event, Thread
from time import sleep, time
from typing import Any

import optuna
from optuna.exceptions import OptunaError, StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pcegp.errors import StorageError

_BEAT_EVERY = 30.0  # seconds
_GONE = 0.0  # instead of a time stamp: the worker has left
_SILENT_FOR = 600.0  # after which a worker on another machine counts as gone
_CONNECT_WITHIN = 10  # seconds
_WAITS, _WAIT = 20, 0.05  # seconds, for another worker to decide
LOOK_AGAIN = 0.5  # seconds, for other workers to go on
_NASCENT_FOR = 5.0  # seconds that a new trial may be without a place
_TRIES = 3  # to make the tables of a new database
_LOCKED_FOR = 5  # seconds; a journal is locked for milliseconds, unless its worker was killed

OWNER = "pcegp"  # study attribute: the data and settings that its trials belong to
_STALE = "stale"  # study attribute: who found a trial that was left behind
# Attributes of trials, in the order in which they are set.
WORKER = "worker"  # who works on it
SLOT = "slot"  # its place in an undisturbed search; in finals, what it is to evaluate
REPEATS = "repeats"  # the stale trial that it repeats
SETTINGS = "settings"  # what is evaluated: from here on the trial is whole
REASON = "reason"  # why it failed

# What a storage raises when it cannot be reached.
STORAGE_FAILURES = (SQLAlchemyError, StorageInternalError, OSError)
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
            f"the driver for {without_password(url)} is not installed: for PostgreSQL, pip "
            "install 'pcegp[postgres]'"
        ) from error
    except _FAILURES as error:
        raise StorageError(
            f"the storage {without_password(url)} cannot be used ({_reason(error)}): check the "
            "address, the password and that its server runs"
        ) from error


def _reason(error: BaseException) -> str:
    """In one line, as the driver put it."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def lost(error: BaseException) -> StorageError:
    """The error for a storage that fails while it is used."""
    if isinstance(error, StorageError):
        return error
    return StorageError(f"the storage of the study failed ({_reason(error)}): what was finished is "
                        "in it; start again when it can be reached")


def _with_driver(url: str) -> str:
    """PostgreSQL by psycopg 3, which the extra installs, unless the URL names a driver."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def without_password(url: str) -> str:
    """An address that may be shown; a path is one as it is."""
    if "://" not in url:
        return url
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
        known = study.user_attrs.get(OWNER)
        if known is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(OWNER, dict(owner))
            known = study.user_attrs.get(OWNER)  # another worker may have been there, too
    except _FAILURES as error:
        raise StorageError(f"the study {name!r} cannot be opened: {_reason(error)}") from error
    if known != owner:
        differs = [key for key in owner if (known or {}).get(key) != owner[key]]
        raise StorageError(
            f"the study {name!r} was made with another {', '.join(differs)}: choose another name, "
            "or the same data and settings as before"
        )
    return study


def is_stale(trial: FrozenTrial) -> bool:
    """Whether a trial was left behind: one that failed by itself has a reason."""
    return trial.state == TrialState.FAIL and REASON not in trial.user_attrs


def _is_whole(trial: FrozenTrial) -> bool:
    """Whether a trial has its settings; one that was left before is as if it had never been."""
    return SETTINGS in trial.user_attrs


def _stale_unrepeated(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that were left behind and that no other repeats, by slot."""
    repeated = {t.user_attrs.get(REPEATS) for t in trials if _is_whole(t) or not is_stale(t)}
    left = [t for t in trials if is_stale(t) and _is_whole(t) and t.number not in repeated]
    return sorted(left, key=lambda trial: int(trial.user_attrs[SLOT]))


def free_slot(study: optuna.Study, number: int | None = None) -> int:
    """The first place that no trial has, nor one that is still to be repeated.

    For the trial of that number, those that others made before it a moment ago and that
    have no place yet come first.
    """
    trials = study.get_trials(deepcopy=False)
    kept = [trial for trial in trials if not is_stale(trial)] + _stale_unrepeated(trials)
    taken = {trial.user_attrs.get(SLOT) for trial in kept}
    free = (slot for slot in count() if slot not in taken)
    return next(islice(free, sum(map(_is_nascent, trials[: number or 0])), None))


def is_busy(study: optuna.Study) -> bool:
    """Whether a trial is being run or must be repeated, by whomever."""
    trials = study.get_trials(deepcopy=False)
    running = (t for t in trials if t.state == TrialState.RUNNING)
    # One that was left before it had a worker is nobody's.
    return (any(WORKER in t.user_attrs or _is_nascent(t) for t in running)
            or bool(_stale_unrepeated(trials)))


def _is_nascent(trial: FrozenTrial) -> bool:
    """Whether a worker is about to give a trial its place; if that takes long, it was killed."""
    begun = trial.datetime_start
    return (trial.state == TrialState.RUNNING and SLOT not in trial.user_attrs
            and begun is not None and (datetime.now() - begun).total_seconds() < _NASCENT_FOR)


def has_rival(study: optuna.Study, number: int, slot: int | str) -> bool:
    """Whether another worker took the slot at the same moment, and may keep it.

    The earlier trial may. One that is about to decide the same question is waited for.
    """
    for _ in range(_WAITS):
        rivals = [
            trial for trial in study.get_trials(deepcopy=False)
            if trial.number != number and trial.user_attrs.get(SLOT) == slot
            and not is_stale(trial)
        ]
        if not rivals or any(_is_whole(trial) or trial.number < number for trial in rivals):
            return bool(rivals)
        sleep(_WAIT)
    return False  # that one was killed at this very moment


def _host() -> str:
    """Where numbers of processes mean the same: a machine, or a container with its name."""
    name = socket.gethostname()
    with suppress(OSError):
        name += f" {Path('/proc/self/ns/pid').stat().st_ino}"
    return name


def _started(pid: int) -> str | None:
    """When a process was started, or None if it is not there or cannot be known."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    return None


def _exists(pid: int) -> bool:
    """Whether a process of that number is there, as far as the system tells."""
    if os.name != "posix":
        return True  # signal 0 would end it there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class Worker:
    """This process at work on a study; others can see that it is alive."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study
        self._host, pid = _host(), os.getpid()
        self.id = f"{self._host}/{pid}/{_started(pid) or ''}/{uuid.uuid4().hex[:8]}"
        self._stopped = Event()
        self._thread = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Worker:
        _ALIVE_HERE.add(self.id)
        self._study.set_user_attr(self._key(self.id), time())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        _ALIVE_HERE.discard(self.id)  # first of all: a second Ctrl-C may end this early
        self._stopped.set()
        self._thread.join()
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get(WORKER) == self.id:
                self._leave(trial.number)  # interrupted: for the next worker to repeat
        self._study.set_user_attr(self._key(self.id), _GONE)

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
        last = self._study.user_attrs.get(self._key(worker), _GONE)
        if last == _GONE:
            return False
        host, pid, started, _ = worker.rsplit("/", 3)
        if host == self._host:
            if int(pid) == os.getpid():
                return False  # an earlier one of this process, or of its number
            has_ended = _started(int(pid)) != started if started else not _exists(int(pid))
            if has_ended:
                return False
        return bool(time() - last < _SILENT_FOR)

    def trials_to_repeat(self) -> list[FrozenTrial]:
        """Trials that a killed worker left behind, in their order, for this one to repeat."""
        self.clear_up()
        found_by = self._study.user_attrs
        return [
            trial for trial in _stale_unrepeated(self._study.get_trials(deepcopy=False))
            if self._may_repeat(found_by.get(f"{_STALE} {trial.number}", ""))
        ]

    def clear_up(self) -> None:
        """Fail what a killed worker left behind, without a reason; the study notes by whom.

        A trial without a worker was left at the moment it was made; while others work, it
        may be theirs.
        """
        alone = not any(self._is_alive(other) for other in self._others())
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            worker = trial.user_attrs.get(WORKER)
            if alone if worker is None else not self._is_alive(worker):
                self._leave(trial.number)

    def _may_repeat(self, finder: str) -> bool:
        return not finder or finder == self.id or not self._is_alive(finder)

    def _leave(self, number: int) -> None:
        """Fail a trial that was left behind; who does that has to repeat it."""
        self._study.set_user_attr(f"{_STALE} {number}", self.id)
        with suppress(ValueError, RuntimeError):  # it was finished, or another one was faster
            self._study.tell(number, state=TrialState.FAIL)

    def _others(self) -> list[str]:
        keys = [key for key in self._study.user_attrs if key.startswith("worker ")]
        return [key.removeprefix("worker ") for key in keys if key != self._key(self.id)]
