"""Arrays by the content of what they are made from, up to a number of bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pcegp.numerics import ArrayCache

A, B = np.arange(10.0), np.arange(10.0) + 1.0


def counted(calls, result):
    def compute():
        calls.append(1)
        return result

    return compute


def test_the_same_content_is_computed_once():
    cache, calls = ArrayCache(10**6), []
    first = cache.get("double", [A], counted(calls, 2 * A))
    assert cache.get("double", [A.copy()], counted(calls, None)) is first
    assert (len(calls), cache.hits) == (1, 1)


def test_another_kind_content_type_or_shape_is_another_array():
    cache, calls = ArrayCache(10**6), []
    for kind, sources in (("double", [A]), ("triple", [A]), ("double", [B]), ("double", [A, B]),
                          ("double", [A.reshape(2, 5)]), ("double", [A.view(np.int64)])):
        cache.get(kind, sources, counted(calls, A))
    assert (len(calls), cache.hits) == (6, 0)


def test_arrays_that_are_not_contiguous_count_by_their_content():
    cache, calls, square = ArrayCache(10**6), [], np.arange(9.0).reshape(3, 3)
    cache.get("it", [square.T], counted(calls, A))
    cache.get("it", [np.ascontiguousarray(square.T)], counted(calls, A))
    assert cache.hits == 1


def test_what_was_used_longest_ago_goes_first():
    cache, calls = ArrayCache(2 * A.nbytes), []
    for kind in (1, 2, 1, 3):  # 2 has to go
        cache.get(kind, [], counted(calls, A))
    cache.get(1, [], counted(calls, A))
    assert len(calls) == 3
    cache.get(2, [], counted(calls, A))
    assert len(calls) == 4


def test_what_is_larger_than_the_cache_is_not_held():
    cache, calls = ArrayCache(0), []
    for _ in range(2):
        np.testing.assert_array_equal(cache.get(1, [], counted(calls, A)), A)
    assert (len(calls), cache.hits) == (2, 0)


def test_threads_may_share_it():
    cache = ArrayCache(10**6)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: cache.get(k % 3, [], lambda: A + k % 3), range(60)))
    for k, array in enumerate(found):
        np.testing.assert_array_equal(array, A + k % 3)
