"""Arrays that are computed once and used again, where a search says so.

Many trials of a search share their folds, and so their polynomial bases. Inside
`with remembering(memory):` an array is looked up by the content of what it is made from; outside,
nothing is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_CURRENT: ContextVar[Memory | None] = ContextVar("memory", default=None)


class Memory:
    """The arrays used last, up to a number of bytes; they must not be written to."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.hits = 0
        self._arrays: OrderedDict[Hashable, FloatArray] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], FloatArray]) -> FloatArray:
        """The array of that key, computed if it is not there."""
        with self._lock:
            if key in self._arrays:
                self.hits += 1
                self._arrays.move_to_end(key)
                return self._arrays[key]
        array = compute()
        with self._lock:
            self._arrays[key] = array
            while sum(kept.nbytes for kept in self._arrays.values()) > self.max_bytes:
                self._arrays.popitem(last=False)
        return array


@contextmanager
def remembering(memory: Memory) -> Iterator[None]:
    """Look arrays up in this memory, in this thread."""
    token = _CURRENT.set(memory)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def remembered(
    kind: Hashable, arrays: Sequence[NDArray[Any]], compute: Callable[[], FloatArray]
) -> FloatArray:
    """What `compute` gives, from the current memory if it has been computed before."""
    memory = _CURRENT.get()
    if memory is None:
        return compute()
    digest = blake2b()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return memory.get((kind, digest.digest()), compute)
