"""Laws of multi-indices, basis matrices and expansions."""

from __future__ import annotations

import tracemalloc
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcegp.errors import BasisTooLargeError, SettingError
from pcegp.polynomials.expansion import Expansion, count_terms, make_basis, multi_indices
from pcegp.polynomials.families import Hermite, Jacobi, Laguerre, Legendre

FAMILIES = [Hermite(), Legendre(), Jacobi(0.5, 2.0), Laguerre()]

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


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
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


@pytest.mark.parametrize("families", [(f,) for f in FAMILIES] + [(FAMILIES[1], FAMILIES[3])])
def test_moments_equal_quadrature_under_the_first_density(families):
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (20, 2))
    basis = make_basis(families, X, 3)
    expansion = Expansion(basis, rng.normal(size=basis.n_terms))
    nodes, weights = families[0].quadrature(12)
    grid = np.array(list(product(nodes, repeat=2)))
    if families[0].support[0] == 0.0:
        grid = grid + basis.lower
    w = np.prod(list(product(weights, repeat=2)), axis=1)
    values = expansion(grid)
    mean = w @ values
    assert expansion.mean == pytest.approx(mean, rel=1e-9)
    assert expansion.variance == pytest.approx(w @ (values - mean) ** 2, rel=1e-9)


@pytest.mark.parametrize("families", [(f,) for f in FAMILIES] + [tuple(FAMILIES)])
def test_formula_evaluates_to_the_expansion(families):
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.5, 0.5, (15, 2))
    basis = make_basis(families, X, 3)
    expansion = Expansion(basis, rng.normal(size=basis.n_terms))
    compiled = compile(expansion.formula(["a", "b"], digits=17), "formula", "eval")
    value = eval(compiled, {"a": X[:, 0], "b": X[:, 1]})  # noqa: S307
    np.testing.assert_allclose(value, expansion(X), rtol=1e-9, atol=1e-9)


def test_formula_reads_well():
    basis = make_basis((Hermite(),), np.zeros((1, 2)), 1)
    assert Expansion(basis, np.array([1.5, -0.25, 0.0])).formula() == "1.5 - 0.25*x1"
    assert Expansion(basis, np.array([0.0, -0.25, 2.0])).formula(["a", "b"]) == "-0.25*a + 2*b"
    assert Expansion(basis, np.zeros(3)).formula() == "0"


def test_expansion_outside_the_box_is_held_at_its_edge():
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


def test_formula_takes_any_sequence_of_names():
    basis = make_basis((Hermite(),), np.zeros((1, 2)), 1)
    names = np.array(["a", "b"], dtype=object)
    assert Expansion(basis, np.array([1.5, -0.25, 0.0])).formula(names) == "1.5 - 0.25*a"
