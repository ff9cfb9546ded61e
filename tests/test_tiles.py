"""Cholesky factor, inverse and solves by tiles against NumPy, on one and several threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcegp import tiles
from pcegp.threads import ALONE, Workers


@pytest.fixture(scope="module", params=[1, 2, 3])
def crew(request):
    workers = Workers(request.param)
    yield workers
    workers.close()


def positive_definite(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n + 0.1 * np.eye(n)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 128, 300, 1001])
def test_factor_and_inverse(n, crew):
    C = positive_definite(n)
    work = C.copy()
    assert tiles.factor(work, crew)
    np.testing.assert_allclose(np.tril(work), np.linalg.cholesky(C), rtol=1e-9, atol=1e-11)
    B = np.random.default_rng(1).normal(size=(150, n))
    half = B.copy()
    tiles.half_solve(work, half, crew)
    np.testing.assert_allclose(half @ np.tril(work).T, B, rtol=1e-9, atol=1e-10)
    assert tiles.invert(work, np.full((n, n), np.nan), crew)
    expected = np.tril(np.linalg.inv(C))
    np.testing.assert_allclose(np.tril(work), expected, atol=1e-11 * np.abs(expected).max())


@given(n=st.integers(1, 400), seed=st.integers(0, 1000))
def test_the_number_of_threads_does_not_change_a_bit(n, seed):
    C = positive_definite(n, seed)
    crew = Workers(2)
    results = []
    for workers in (ALONE, crew):
        work = C.copy()
        assert tiles.factor(work, workers)
        assert tiles.invert(work, np.empty((n, n)), workers)
        results.append(np.tril(work))
    crew.close()
    np.testing.assert_array_equal(*results)


@given(n=st.integers(1, 400), data=st.data())
def test_only_the_lower_triangle_counts(n, data):
    C = positive_definite(n)
    rubbish = C + np.triu(np.full((n, n), data.draw(st.sampled_from([np.nan, 7.0]))), 1)
    for work in (C, rubbish):
        assert tiles.factor(work, ALONE)
        assert tiles.invert(work, np.empty((n, n)), ALONE)
    np.testing.assert_array_equal(np.tril(C), np.tril(rubbish))


@pytest.mark.parametrize("at", [0, 63, 64, 200, 299])
def test_a_matrix_without_factor_is_told_and_no_thread_hangs(at, crew):
    C = positive_definite(300)
    C[at, at] = -1.0
    assert not tiles.factor(C, crew)


def test_a_zero_on_the_diagonal_of_the_factor_is_told(crew):
    L = np.linalg.cholesky(positive_definite(200))
    L[150, 150] = 0.0
    assert not tiles.invert(L, np.empty((200, 200)), crew)
