"""Families of polynomials: their laws, and the values that books give."""

from __future__ import annotations

import numpy as np
import pytest

from laws import family_laws
from pcegp.errors import SettingError
from pcegp.polynomials import FAMILIES, Hermite, Jacobi, Laguerre, Legendre, register


@pytest.mark.parametrize(
    "family", [*FAMILIES.values(), Jacobi(0.0, 0.0), Jacobi(-0.5, 2.5)], ids=repr
)
@family_laws.each()
def test_laws(law, family):
    law(family)


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


def test_they_are_known_by_their_names():
    assert tuple(FAMILIES)[:4] == ("hermite", "legendre", "jacobi", "laguerre")
    assert all(family.name == name for name, family in FAMILIES.items())


def test_a_known_name_cannot_be_registered_again():
    with pytest.raises(SettingError, match="exists already"):
        register(Jacobi(2.0, 1.0))
