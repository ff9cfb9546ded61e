"""The thread policy: our own threads, as many as BLAS may use, while BLAS keeps to one.

Idle BLAS threads spin for a tenth of a second and would take a core from ours, and their
number would show in the rounding of every result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

# Each thread beyond the first needs this many points more, or it costs more than it brings.
_POINTS_PER_THREAD = 150


class Workers:
    """The threads of one block of work: the one that called, and its helpers.

    Helpers wait between passes and end with the block, so that fork, nested workers and
    fits side by side are all safe.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._helpers = ThreadPoolExecutor(count - 1) if count > 1 else None

    def together(self, task: Callable[[], None]) -> None:
        """Call `task` on every thread at once; its calls share the work among themselves."""
        if self._helpers is None:
            task()
            return
        calls = [self._helpers.submit(task) for _ in range(self.count - 1)]
        try:
            task()
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
        while not (call.cancel() or call.done()):  # one that has not begun is not needed
            try:
                wait([call])
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
    for call in calls:
        if not call.cancelled():
            call.result()


ALONE = Workers(1)


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
        """Begin a block; how many threads it may use."""
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
    """A forked child has only the forking thread: no block of another one will end."""
    global _blas  # noqa: PLW0603
    _blas = _SingleBlas()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def workers(n_points: int, n_jobs: int | None = None) -> Iterator[Workers]:
    """The threads for matrices of this size; BLAS keeps to one until the block ends.

    As many as BLAS is allowed now (so a worker process that was given one keeps to
    one), at most `n_jobs`, one for every 150 points, and one beside the work of another
    thread.
    """
    crew = Workers(_blas.enter(n_points, n_jobs))
    try:
        yield crew
    finally:
        crew.close()
        _blas.leave()
