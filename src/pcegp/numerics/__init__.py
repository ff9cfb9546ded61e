"""Compiled loops, Cholesky factors, threads and memory: arrays, nothing of Gaussian processes."""

from pcegp.numerics.array_cache import ArrayCache
from pcegp.numerics.resources import ONE_THREAD, Threads, check_memory, threads_for

__all__ = ["ONE_THREAD", "ArrayCache", "Threads", "check_memory", "threads_for"]
