"""Threads and memory that this process may use.

Threads are our own, as many as BLAS may use, while BLAS keeps to one: its idle threads spin
for a tenth of a second and would take a core from ours, and their number would show in the
rounding of every result. Memory is asked for before anything is allocated.
"""

import operator
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

from pcegp.errors import OutOfMemoryError

# Each thread beyond the first needs this many points more, or it costs more than it brings.
_POINTS_PER_THREAD = 150


class Threads:
    """The threads of one block of work: the one that called, and its helpers.

    Helpers wait between passes and end with the block, so that fork, nested workers and
    fits side by side are all safe. ``run_on_all(task, *arguments)`` makes the same call on
    every thread at once; the calls share the work among themselves.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._helpers = ThreadPoolExecutor(count - 1) if count > 1 else None
        #: One thread just makes the call.
        self.run_on_all: Callable[..., Any] = operator.call if count == 1 else self._run_on_all

    def _run_on_all(self, task: Callable[..., None], *arguments: Any) -> None:
        assert self._helpers is not None  # noqa: S101  # there are several threads
        calls = [self._helpers.submit(task, *arguments) for _ in range(self.count - 1)]
        try:
            task(*arguments)
        finally:
            _finish(calls)

    def close(self) -> None:
        """End the helpers."""
        if self._helpers is not None:
            self._helpers.shutdown()


def _finish(calls: list[Future[None]]) -> None:
    """Wait for the helpers, also while the user interrupts: they write into our arrays."""
    interrupt = None
    for call in calls:
        is_over = False
        while not is_over:
            try:
                is_over = call.cancel() or call.done()  # one that has not begun is not needed
                if not is_over:
                    wait([call])
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
    for call in calls:
        if not call.cancelled():
            call.result()


ONE_THREAD = Threads()


@cache
def _blas_libraries() -> ThreadpoolController:
    """NumPy's and SciPy's BLAS; to look for them takes longer than a small prediction."""
    return ThreadpoolController().select(user_api="blas")


class _SingleBlas:
    """One BLAS thread for several blocks of work, which bring their own threads.

    The limit is a setting of the whole process: it is put back when the last block ends,
    to what it was when the first one began.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._limit: Any = None
        self._allowed = 1
        self._owner = 0

    def enter(self, n_points: int, n_jobs: int | None) -> int:
        """Begin a block and tell how many threads it may use."""
        with self._lock:
            if self._blocks == 0:
                libraries = _blas_libraries()
                pools = [pool["num_threads"] for pool in libraries.info()]
                self._allowed = min(pools, default=1)
                self._limit = libraries.limit(limits=1)
                self._owner = get_ident()
            self._blocks += 1
            # Beside a block of another thread, more threads would get in each other's way.
            allowed = self._allowed if self._owner == get_ident() else 1
            wanted = allowed if n_jobs is None else min(allowed, n_jobs)
            return max(1, min(wanted, n_points // _POINTS_PER_THREAD))

    def leave(self) -> None:
        """End a block."""
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                self._limit.restore_original_limits()


_blas = _SingleBlas()


def _forget_other_threads() -> None:
    """Begin anew in a forked child: no block of a thread that it does not have will end."""
    global _blas  # noqa: PLW0603
    _blas = _SingleBlas()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def threads_for(n_points: int, n_jobs: int | None = None) -> Iterator[Threads]:
    """Threads for matrices of this size; BLAS keeps to one until the block ends.

    As many as BLAS is allowed now (so a worker process that was given one keeps to
    one), at most `n_jobs`, one for every 150 points, and one beside the work of another
    thread.
    """
    threads = Threads(_blas.enter(n_points, n_jobs))
    try:
        yield threads
    finally:
        threads.close()
        _blas.leave()


def bytes_available() -> int | None:
    """Memory this process may still take, or None where that cannot be known."""
    limits = (_of_machine(), _of_container(), _of_process())
    return min((limit for limit in limits if limit is not None), default=None)


def check_memory(needed: int, what: str) -> None:
    """Refuse work that needs more bytes than are free; `what` names it in the error."""
    available = bytes_available()
    if available is not None and needed > available:
        raise OutOfMemoryError(
            f"{what} needs {needed / 1e9:.1f} GB of memory, but only {available / 1e9:.1f} GB are "
            "free: use fewer rows or another machine"
        )


def _field(path: Path, name: str) -> int | None:
    """A line such as "MemAvailable:  123 kB", in bytes."""
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_text(encoding="ascii", errors="ignore").splitlines():
            if line.startswith(name):
                return 1024 * int(line.split()[1])
    return None


def _of_machine() -> int | None:
    return _field(Path("/proc/meminfo"), "MemAvailable")


def _of_container() -> int | None:
    """Memory that the control group (version 2) of a container leaves."""
    folder = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):
        limit = (folder / "memory.max").read_text().strip()
        if limit != "max":
            return int(limit) - int((folder / "memory.current").read_text())
    return None


def _of_process() -> int | None:
    """Memory that `ulimit -v` leaves."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    used = _field(Path("/proc/self/status"), "VmSize")
    return limit - used if used is not None else limit
