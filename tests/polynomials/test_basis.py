"""Laws of multi-indices and basis matrices."""

from __future__ import annotations

import tracemalloc
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcegp.errors import BasisTooLargeError, SettingError
from pcegp.numerics import ArrayCache
from pcegp.polynomials import FAMILIES, Hermite, Jacobi, Laguerre, Legendre, make_basis
from pcegp.polynomials.basis import count_terms, multi_indices

truncations = st.tuples(
    st.integers(1, 5),
    st.integers(0, 5),
    st.sampled_from([1.0, 0.8, 0.5]),
    st.none() | st.integers(1, 3),
)


@given(st.integers(1, 8), st.integers(0, 6))
def test_total_degree_has_binomially_many_terms(d, q):
    indices = multi_indices(d, q)
    assert len(indices) == comb(d + q, q) == count_terms(d, q)
    assert len(np.unique(indices, axis=0)) == len(indices)


@given(truncations)
def test_truncated_sets_are_exactly_what_they_say(truncation):
    d, q, hyperbolic, interaction = truncation
    found = {tuple(k) for k in multi_indices(d, q, hyperbolic, interaction).tolist()}
    expected = {
        k
        for k in product(range(q + 1), repeat=d)
        if sum(i**hyperbolic for i in k) ** (1 / hyperbolic) <= q + 1e-9
        and sum(i > 0 for i in k) <= (interaction or d)
    }
    assert found == expected
    assert count_terms(d, q, hyperbolic, interaction) == len(expected)


@given(truncations)
def test_index_sets_are_downward_closed_and_start_with_the_constant(truncation):
    indices = multi_indices(*truncation)
    found = {tuple(k) for k in indices.tolist()}
    assert not indices[0].any()
    assert (np.diff(indices.sum(axis=1)) >= 0).all()
    for k in found:
        for i, degree in enumerate(k):
            if degree:
                assert (*k[:i], degree - 1, *k[i + 1 :]) in found


@pytest.mark.parametrize("family", FAMILIES.values(), ids=repr)
def test_basis_is_orthonormal_in_several_inputs(family):
    nodes, weights = family.quadrature(6)
    X = np.array(list(product(nodes, repeat=2)))
    w = np.prod(list(product(weights, repeat=2)), axis=1)
    # A box that starts at 0 leaves the points of a family on [0, inf) where they are.
    basis = make_basis((family,), np.vstack([np.zeros(2), np.ones(2)]), 4)
    Phi = basis.evaluate(X)
    np.testing.assert_allclose((Phi * w[:, None]).T @ Phi, np.eye(15), atol=1e-10)


def test_several_families_multiply_the_number_of_terms():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (10, 3))
    basis = make_basis((Legendre(), Hermite()), X, 2)
    assert basis.n_terms == 2 * comb(5, 2)
    assert basis.evaluate(X).shape == (10, basis.n_terms)
    assert basis.is_constant.sum() == 2


def test_outside_the_box_a_basis_is_held_at_its_edge():
    X = np.array([[-0.5, -0.5], [0.5, 0.5]])
    basis = make_basis((Legendre(),), X, 3)
    outside = np.array([[3.0, 0.2]])
    np.testing.assert_array_equal(
        basis.evaluate_in_box(outside), basis.evaluate(np.array([[0.5, 0.2]]))
    )


def test_too_large_a_basis_is_refused_before_it_is_allocated():
    X = np.zeros((1000, 30))
    tracemalloc.start()
    with pytest.raises(BasisTooLargeError, match=r"48,903,492 terms and needs 407,\d\d\d MB"):
        make_basis((Legendre(),), X, 8, max_basis_gb=1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6


@pytest.mark.parametrize(
    ("degree", "hyperbolic", "interaction"),
    [(-1, 1.0, None), (1.5, 1.0, None), (True, 1.0, None), (2, 0.0, None), (2, 1.5, None),
     (2, 1.0, 0), (101, 1.0, None), (60, 0.5, None)],
)
def test_impossible_truncations_are_refused(degree, hyperbolic, interaction):
    with pytest.raises(SettingError):
        multi_indices(30, degree, hyperbolic, interaction)


def test_a_basis_says_what_it_needs():
    X = np.random.default_rng(0).uniform(size=(10, 3))
    basis = make_basis((Legendre(), Hermite()), X, 2)
    assert basis.bytes_needed(10) == basis.evaluate(X).nbytes


def test_a_basis_in_a_cache_is_the_same_and_computed_once():
    X = np.random.default_rng(0).uniform(size=(10, 3))
    cache = ArrayCache(max_bytes=10**6)
    # Other polynomials, degrees or boxes are other arrays.
    for arguments in [((Legendre(),), X, 2), ((Legendre(),), X, 1), ((Legendre(),), X[:5], 2),
                      ((Jacobi(),), X, 2), ((Jacobi(2.0, 1.0),), X, 2), ((Laguerre(),), X, 2)]:
        plain, cached = make_basis(*arguments), make_basis(*arguments, cache=cache)
        hits = cache.hits
        for more in range(3):
            np.testing.assert_array_equal(cached.evaluate_in_box(X), plain.evaluate_in_box(X))
            assert cache.hits == hits + more
