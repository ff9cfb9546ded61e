"""Orthonormal polynomials: families in one variable, bases and expansions in several."""

from pcegp.polynomials.basis import Basis, make_basis
from pcegp.polynomials.expansion import Expansion, polynomial_text
from pcegp.polynomials.families import (
    FAMILIES,
    Hermite,
    Jacobi,
    Laguerre,
    Legendre,
    Polynomials,
    register,
)

__all__ = [
    "FAMILIES", "Basis", "Expansion", "Hermite", "Jacobi", "Laguerre", "Legendre", "Polynomials",
    "make_basis", "polynomial_text", "register",
]
