"""Arrays that are computed once and used again by those who share a cache.

Many trials of a search share their folds, and so their polynomial bases.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp._typing import FloatArray


class ArrayCache:
    """The arrays used last, up to a number of bytes; they must not be written to."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.hits = 0
        self._arrays: OrderedDict[Hashable, FloatArray] = OrderedDict()
        self._lock = Lock()

    def get(
        self, kind: Hashable, sources: Sequence[NDArray[Any]], compute: Callable[[], FloatArray]
    ) -> FloatArray:
        """Look an array up by the content of what it is made from, or compute it."""
        digest = blake2b()
        for source in sources:
            digest.update(f"{source.dtype}{source.shape}".encode())
            digest.update(np.ascontiguousarray(source).data)
        key = (kind, digest.digest())
        with self._lock:
            if key in self._arrays:
                self.hits += 1
                self._arrays.move_to_end(key)
                return self._arrays[key]
        array = compute()
        with self._lock:
            self._arrays[key] = array
            while sum(cached.nbytes for cached in self._arrays.values()) > self.max_bytes:
                self._arrays.popitem(last=False)
        return array
