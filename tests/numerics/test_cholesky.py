"""Cholesky factor, inverse and solves by tiles against NumPy, on one and several threads."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcegp.numerics import ONE_THREAD, Threads, cholesky


@pytest.fixture(scope="module", params=[1, 3])
def threads(request):
    several = Threads(request.param)
    yield several
    several.close()


def positive_definite(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n + 0.1 * np.eye(n)


def factored(C, threads=ONE_THREAD, jitter=0.0, careful=False):
    """The factor of C with the workspace that it has left, and what was added to C."""
    work, workspace = C.copy(), np.full_like(C, np.nan)
    added = cholesky.factor(work, workspace, threads, jitter, careful)
    return work, workspace, added


@pytest.mark.parametrize(
    ("n", "careful"), [*product([1, 2, 63, 64, 65, 128, 200], [False, True]), (1001, False)]
)
def test_factor_solves_and_inverse(n, careful, threads):
    C = positive_definite(n)
    work, workspace, added = factored(C, threads, careful=careful)
    assert added == 0.0
    np.testing.assert_allclose(np.tril(work), np.linalg.cholesky(C), rtol=1e-9, atol=1e-11)
    B = np.random.default_rng(1).normal(size=(150, n))
    half = cholesky.half_solve(work, B.copy(), threads)
    np.testing.assert_allclose(half @ np.tril(work).T, B, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(C @ cholesky.solve(work, B[0]), B[0], rtol=1e-8, atol=1e-9)
    x = cholesky.solve_and_invert(work, B[0], workspace, threads)
    np.testing.assert_allclose(C @ x, B[0], rtol=1e-8, atol=1e-9)
    expected = np.tril(np.linalg.inv(C))
    np.testing.assert_allclose(np.tril(work), expected, atol=1e-11 * np.abs(expected).max())


def test_solves_leave_the_right_hand_side_alone():
    C, y = positive_definite(5), np.arange(5.0)
    work, workspace, _ = factored(C)
    cholesky.solve(work, y)
    cholesky.solve_and_invert(work, y, workspace)
    np.testing.assert_array_equal(y, np.arange(5.0))


def inverse_of(C, threads):
    """Lower triangle of C^-1."""
    work, workspace, _ = factored(C, threads)
    cholesky.solve_and_invert(work, np.ones(len(C)), workspace, threads)
    return np.tril(work)


@settings(max_examples=8)
@given(n=st.integers(1, 400), seed=st.integers(0, 1000))
def test_the_number_of_threads_does_not_change_a_bit(n, seed):
    C = positive_definite(n, seed)
    two = Threads(2)
    found = inverse_of(C, two)
    two.close()
    np.testing.assert_array_equal(inverse_of(C, ONE_THREAD), found)


@settings(max_examples=8)
@given(n=st.integers(1, 400), rubbish=st.sampled_from([np.nan, 7.0]))
def test_only_the_lower_triangle_counts(n, rubbish):
    C = positive_definite(n)
    other = np.where(np.tri(n, dtype=bool), C, rubbish)
    np.testing.assert_array_equal(inverse_of(C, ONE_THREAD), inverse_of(other, ONE_THREAD))


def smooth(noise, n=300):
    """A nearly singular covariance: a smooth process at sorted points."""
    x = np.sort(np.random.default_rng(0).uniform(size=n))
    return np.exp(-4.5 * np.subtract.outer(x, x) ** 2) + noise * np.eye(n)


@pytest.mark.parametrize(("careful", "error"), [(False, 1e-13), (True, 1e-14)])
def test_little_is_lost_where_the_matrix_is_nearly_singular(careful, error):
    C = smooth(1e-6)
    L = np.tril(factored(C, careful=careful)[0])
    np.testing.assert_allclose(L @ L.T, C, rtol=0, atol=error)


def first_attempt(C):
    """The first way to factor that works: its number, the factor and what it added."""
    for number, (jitter, careful) in enumerate(cholesky.ATTEMPTS):
        work, _, added = factored(C, jitter=jitter, careful=careful)
        if added is not None:
            return number, np.tril(work), added
    return None


def test_what_only_the_careful_way_can_factor_needs_no_jitter():
    number, _, added = first_attempt(smooth(1e-13))
    assert cholesky.ATTEMPTS[number] == (0.0, True)
    assert added == 0.0


def test_attempts_report_what_they_added():
    singular = np.ones((4, 4))
    _, L, added = first_attempt(singular)
    assert 0 < added <= 1e-6
    np.testing.assert_allclose(L @ L.T, singular + added * np.eye(4), rtol=1e-12)
    _, _, larger = first_attempt(1e6 * singular)  # jitter is relative
    assert larger == pytest.approx(1e6 * added)


def test_an_indefinite_matrix_has_no_factor():
    assert first_attempt(np.array([[1.0, 2.0], [2.0, 1.0]])) is None


@pytest.mark.parametrize("at", [0, 63, 64, 200, 299])
def test_a_matrix_without_factor_is_told_and_no_thread_hangs(at, threads):
    C = positive_definite(300)
    C[at, at] = -1.0
    assert factored(C, threads)[2] is None


@pytest.mark.parametrize("noise", [1e-2, 1e-6, 1e-10])
def test_the_condition_number_is_nearly_that_of_the_matrix(noise):
    C = smooth(noise, 40)
    exact = np.linalg.cond(C, 1)
    # LAPACK's estimate is a lower bound, up to rounding.
    assert 0.1 * exact <= cholesky.condition_number(factored(C)[0]) <= 1.001 * exact
