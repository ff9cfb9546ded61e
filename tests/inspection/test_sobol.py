"""Sobol indices: closed form, sampling and SALib agree; known functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcegp.inspection import sobol
from pcegp.polynomials.expansion import Expansion, make_basis
from pcegp.polynomials.families import Hermite, Laguerre, Legendre

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
    for name in ("first", "total", "second"):
        np.testing.assert_allclose(getattr(estimate, name), getattr(exact, name), atol=0.01)


def test_closed_form_equals_salib():
    from SALib.analyze import sobol as analyze
    from SALib.sample import sobol as sample

    expansion = random_expansion(seed=3)
    problem = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": BOX.T.tolist()}
    points = sample.sample(problem, 2**13, seed=1)
    theirs = analyze.analyze(problem, expansion(points), seed=1)
    exact = sobol.of_expansion(expansion)
    np.testing.assert_allclose(exact.first, theirs["S1"], atol=0.02)
    np.testing.assert_allclose(exact.total, theirs["ST"], atol=0.02)
    upper = np.triu_indices(3, 1)
    np.testing.assert_allclose(exact.second[upper], theirs["S2"][upper], atol=0.02)


@given(seed=st.integers(0, 10_000), degree=st.integers(1, 4))
def test_shares_add_up(seed, degree):
    exact = sobol.of_expansion(random_expansion(degree=degree, seed=seed))
    pairs = exact.second.sum() / 2
    assert exact.first.sum() + pairs <= 1 + 1e-12
    assert (exact.total >= exact.first + exact.second.sum(axis=1) - 1e-12).all()
    if degree <= 2:
        assert exact.first.sum() + pairs == pytest.approx(1.0)


def test_ishigami():
    """The usual test function, whose indices are known."""

    def ishigami(X):
        a, b, c = X.T
        return (np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a))[None]

    (found,) = sobol.by_sampling(ishigami, np.full(3, -np.pi), np.full(3, np.pi), log2_points=14)
    np.testing.assert_allclose(found.first, [0.3139, 0.4424, 0.0], atol=0.01)
    np.testing.assert_allclose(found.total, [0.5576, 0.4424, 0.2437], atol=0.01)
    assert found.second[0, 2] == pytest.approx(0.2437, abs=0.01)


def test_a_constant_has_no_indices():
    basis = make_basis((Legendre(),), BOX, 2)
    constant = Expansion(basis, np.eye(1, basis.n_terms).ravel())
    sampled = sobol.by_sampling(lambda X: constant(X)[None], *BOX)
    for found in (sobol.of_expansion(constant), *sampled):
        assert found.variance == 0.0
        assert not found.first.any()
        assert not found.total.any()
    assert sobol.of_expansion(constant).mean == pytest.approx(1.0)


def test_pairs_can_be_left_out():
    expansion = random_expansion()
    (found,) = sobol.by_sampling(lambda X: expansion(X)[None], *BOX, pairs=False)
    assert np.isnan(found.second[0, 1])
    assert np.isfinite(found.total).all()
