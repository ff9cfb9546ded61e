"""Sobol indices: closed form, sampling, SALib and SciPy agree; known functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import sobol_indices, uniform

from pcegp.inspection import sobol
from pcegp.polynomials import Expansion, Hermite, Laguerre, Legendre, make_basis

BOX = np.array([[-0.5, -0.5, 0.0], [0.5, 1.0, 2.0]])
LEGENDRE = (Legendre(),)


def random_expansion(families=LEGENDRE, degree=3, seed=0):
    basis = make_basis(families, BOX, degree)
    return Expansion(basis, np.random.default_rng(seed).normal(size=basis.n_terms))


@pytest.mark.parametrize("families", [(Legendre(),), (Hermite(),), (Laguerre(), Legendre())])
def test_closed_form_equals_sampling(families):
    expansion = random_expansion(families)
    exact = sobol.of_expansion(expansion)
    (estimate,) = sobol.by_sampling(lambda X: expansion(X)[None], *BOX, log2_points=15)
    assert estimate.mean == pytest.approx(exact.mean, rel=0.02, abs=0.02)
    assert estimate.variance == pytest.approx(exact.variance, rel=0.02)
    np.testing.assert_allclose(estimate.first, exact.first, atol=0.01)
    np.testing.assert_allclose(estimate.total, exact.total, atol=0.01)


def test_sampling_equals_scipy():
    expansions = [random_expansion(seed=seed) for seed in (1, 2)]

    def functions(X):
        return np.array([expansion(X) for expansion in expansions])

    ours = sobol.by_sampling(functions, *BOX, log2_points=13)
    theirs = sobol_indices(
        func=lambda x: functions(x.T), n=2**13, rng=np.random.default_rng(0),
        dists=[uniform(low, high - low) for low, high in BOX.T],
    )
    np.testing.assert_allclose([one.first for one in ours], theirs.first_order, atol=0.01)
    np.testing.assert_allclose([one.total for one in ours], theirs.total_order, atol=0.01)


def test_closed_form_equals_salib():
    from SALib.analyze import sobol as analyze
    from SALib.sample import sobol as sample

    expansion = random_expansion(seed=3)
    problem = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": BOX.T.tolist()}
    points = sample.sample(problem, 2**13, calc_second_order=False, seed=1)
    theirs = analyze.analyze(problem, expansion(points), calc_second_order=False, seed=1)
    exact = sobol.of_expansion(expansion)
    np.testing.assert_allclose(exact.first, theirs["S1"], atol=0.02)
    np.testing.assert_allclose(exact.total, theirs["ST"], atol=0.02)


@given(seed=st.integers(0, 10_000), degree=st.integers(1, 4))
def test_shares_add_up(seed, degree):
    exact = sobol.of_expansion(random_expansion(degree=degree, seed=seed))
    assert exact.first.sum() <= 1 + 1e-12
    assert exact.total.sum() >= 1 - 1e-12
    assert (exact.total >= exact.first - 1e-12).all()
    if degree == 1:
        np.testing.assert_allclose(exact.first, exact.total)
    if degree <= 2:  # of a pair's share, each of its two inputs has all
        pairs = 1 - exact.first.sum()
        assert exact.total.sum() - exact.first.sum() == pytest.approx(2 * pairs)


def test_ishigami():
    """The usual test function, whose indices are known."""

    def ishigami(X):
        a, b, c = X.T
        return (np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a))[None]

    (found,) = sobol.by_sampling(ishigami, np.full(3, -np.pi), np.full(3, np.pi), log2_points=14)
    np.testing.assert_allclose(found.first, [0.3139, 0.4424, 0.0], atol=0.01)
    np.testing.assert_allclose(found.total, [0.5576, 0.4424, 0.2437], atol=0.01)


def test_a_constant_has_no_indices():
    basis = make_basis((Legendre(),), BOX, 2)
    constant = Expansion(basis, np.eye(1, basis.n_terms).ravel())
    sampled = sobol.by_sampling(lambda X: constant(X)[None], *BOX)
    for found in (sobol.of_expansion(constant), *sampled):
        assert found.variance == 0.0
        assert not found.first.any()
        assert not found.total.any()
    assert sobol.of_expansion(constant).mean == pytest.approx(1.0)


def test_one_function_of_one_input():
    """SciPy's estimator fails there."""
    (found,) = sobol.by_sampling(lambda X: np.sin(X).T, np.zeros(1), np.ones(1))
    assert found.first == pytest.approx([1.0], abs=1e-3)
    assert found.total == pytest.approx([1.0], abs=1e-3)
