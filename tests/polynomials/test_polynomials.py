"""Laws of the one-variable polynomials: orthonormal, and equal to their power form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from pcegp.errors import SettingError
from pcegp.polynomials import families as polynomials
from pcegp.polynomials.families import Hermite, Jacobi, Laguerre, Legendre

FAMILIES = [Hermite(), Legendre(), Jacobi(), Jacobi(0.0, 0.0), Jacobi(-0.5, 2.5), Laguerre()]
by_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)


@by_family
def test_orthonormal_under_the_density(family):
    nodes, weights = family.quadrature(30)
    values = family.values(nodes, 10)
    np.testing.assert_allclose((values * weights[:, None]).T @ values, np.eye(11), atol=1e-10)


@by_family
def test_density_integrates_to_one_and_fits_the_quadrature(family):
    low, high = family.support
    total, _ = integrate.quad(family.density, low, high)
    second, _ = integrate.quad(lambda x: x**2 * family.density(x), low, high)
    nodes, weights = family.quadrature(10)
    assert total == pytest.approx(1.0, abs=1e-7)
    assert second == pytest.approx(weights @ nodes**2, rel=1e-6)


@by_family
def test_norm_is_the_mean_square_of_the_classical_polynomial(family):
    nodes, weights = family.quadrature(20)
    for degree in range(6):
        classical = family.values(nodes, 5)[:, degree] * np.sqrt(family.norm(degree))
        assert weights @ classical**2 == pytest.approx(family.norm(degree), rel=1e-10)


@by_family
def test_power_form_has_the_same_values(family):
    x = np.linspace(max(family.support[0], -1), 1, 25)
    powers = np.vander(x, 8, increasing=True)
    np.testing.assert_allclose(family.values(x, 7), powers @ family.powers(7).T, atol=1e-9)


def test_jacobi_without_parameters_is_legendre():
    x = np.linspace(-1, 1, 11)
    np.testing.assert_allclose(Jacobi(0.0, 0.0).values(x, 6), Legendre().values(x, 6), atol=1e-12)


def test_classical_values():
    x = np.array([0.3])
    hermite = Hermite().values(x, 2)[0, 2] * np.sqrt(Hermite().norm(2))
    legendre = Legendre().values(x, 2)[0, 2] * np.sqrt(Legendre().norm(2))
    laguerre = Laguerre().values(x, 2)[0, 2]
    assert hermite == pytest.approx(0.3**2 - 1)
    assert legendre == pytest.approx((3 * 0.3**2 - 1) / 2)
    assert laguerre == pytest.approx((0.3**2 - 4 * 0.3 + 2) / 2)


@pytest.mark.parametrize("parameters", [(-1.0, 0.0), (0.0, -2.0), (float("nan"), 0.0)])
def test_jacobi_refuses_parameters_without_a_density(parameters):
    with pytest.raises(SettingError, match="above -1"):
        Jacobi(*parameters)


def test_resolve_takes_names_objects_and_lists():
    assert polynomials.resolve("jacobi") == (Jacobi(),)
    assert polynomials.resolve(["legendre", Jacobi(2, 1)]) == (Legendre(), Jacobi(2, 1))


@pytest.mark.parametrize("basis", ["chebyshev", 3, ["legendre", "cosine"]])
def test_unknown_basis_lists_the_known_ones(basis):
    with pytest.raises(SettingError, match="hermite, legendre, jacobi, laguerre"):
        polynomials.resolve(basis)


@pytest.mark.parametrize("basis", [[], ["legendre", "legendre"]])
def test_empty_or_repeated_basis_is_refused(basis):
    with pytest.raises(SettingError, match="basis"):
        polynomials.resolve(basis)
