"""Cholesky factor, inverse and solves by tiles against NumPy, on one and several threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcegp.numerics import cholesky as linalg
from pcegp.numerics import tiles
from pcegp.numerics.threads import ALONE, Workers


@pytest.fixture(scope="module", params=[1, 2, 3])
def crew(request):
    workers = Workers(request.param)
    yield workers
    workers.close()


def positive_definite(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n + 0.1 * np.eye(n)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 128, 300, 1001])
def test_factor_solves_and_inverse(n, exact, crew):
    C = positive_definite(n)
    work, workspace = C.copy(), np.full((n, n), np.nan)
    assert tiles.factor(work, workspace, crew, exact)
    np.testing.assert_allclose(np.tril(work), np.linalg.cholesky(C), rtol=1e-9, atol=1e-11)
    B = np.random.default_rng(1).normal(size=(150, n))
    half = B.copy()
    tiles.half_solve(work, half, crew)
    np.testing.assert_allclose(half @ np.tril(work).T, B, rtol=1e-9, atol=1e-10)
    x = B[0].copy()
    tiles.solve_and_invert(work, x, workspace, crew)
    np.testing.assert_allclose(C @ x, B[0], rtol=1e-8, atol=1e-9)
    expected = np.tril(np.linalg.inv(C))
    np.testing.assert_allclose(np.tril(work), expected, atol=1e-11 * np.abs(expected).max())


def inverse_of(C, crew):
    """Lower triangle of C^-1; C is overwritten."""
    workspace = np.empty_like(C)
    assert tiles.factor(C, workspace, crew)
    tiles.solve_and_invert(C, np.ones(len(C)), workspace, crew)
    return np.tril(C)


@given(n=st.integers(1, 400), seed=st.integers(0, 1000))
def test_the_number_of_threads_does_not_change_a_bit(n, seed):
    C = positive_definite(n, seed)
    crew = Workers(2)
    two = inverse_of(C.copy(), crew)
    crew.close()
    np.testing.assert_array_equal(inverse_of(C, ALONE), two)


@given(n=st.integers(1, 400), rubbish=st.sampled_from([np.nan, 7.0]))
def test_only_the_lower_triangle_counts(n, rubbish):
    C = positive_definite(n)
    other = np.where(np.tri(n, dtype=bool), C, rubbish)
    np.testing.assert_array_equal(inverse_of(C, ALONE), inverse_of(other, ALONE))


def smooth(noise, n=300):
    """A nearly singular covariance: a smooth process at sorted points."""
    x = np.sort(np.random.default_rng(0).uniform(size=n))
    return np.exp(-4.5 * np.subtract.outer(x, x) ** 2) + noise * np.eye(n)


@pytest.mark.parametrize(("exact", "error"), [(False, 1e-13), (True, 1e-14)])
def test_little_is_lost_where_the_matrix_is_nearly_singular(exact, error):
    C = smooth(1e-6)
    work = C.copy()
    assert tiles.factor(work, np.empty_like(C), ALONE, exact)
    L = np.tril(work)
    np.testing.assert_allclose(L @ L.T, C, rtol=0, atol=error)


def test_what_only_the_exact_way_can_factor_needs_no_jitter():
    C = smooth(1e-13)
    assert not tiles.factor(C.copy(), np.empty_like(C), ALONE)
    _, jitter = linalg.cholesky(np.empty_like(C), lambda W: np.copyto(W, C), np.empty_like(C))
    assert jitter == 0.0


@pytest.mark.parametrize("at", [0, 63, 64, 200, 299])
def test_a_matrix_without_factor_is_told_and_no_thread_hangs(at, crew):
    C = positive_definite(300)
    C[at, at] = -1.0
    assert not tiles.factor(C, np.empty_like(C), crew)
