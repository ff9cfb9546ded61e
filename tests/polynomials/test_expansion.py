"""Laws of expansions: moments, other bases and formulas."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pcegp.polynomials import Expansion, Hermite, Jacobi, Laguerre, Legendre, make_basis

FAMILIES = [Hermite(), Legendre(), Jacobi(0.5, 2.0), Laguerre()]


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


def test_formula_takes_any_sequence_of_names():
    basis = make_basis((Hermite(),), np.zeros((1, 2)), 1)
    names = np.array(["a", "b"], dtype=object)
    assert Expansion(basis, np.array([1.5, -0.25, 0.0])).formula(names) == "1.5 - 0.25*a"


@pytest.mark.parametrize("families", [(f,) for f in FAMILIES] + [tuple(FAMILIES)])
def test_coefficients_on_the_box_are_those_of_legendre_there(families):
    rng = np.random.default_rng(3)
    X = rng.uniform(0.2, 0.9, (15, 2))
    basis = make_basis(families, X, 3)
    expansion = Expansion(basis, rng.normal(size=basis.n_terms))
    unit = 2 * (X - basis.lower) / (basis.upper - basis.lower) - 1
    on_box = make_basis((Legendre(),), unit, 3).evaluate(unit) @ expansion.on_box
    np.testing.assert_allclose(on_box, expansion(X), rtol=1e-9, atol=1e-9)
