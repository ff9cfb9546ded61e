"""Orthonormal polynomials: families in one variable, bases and expansions in several."""

from pcegp.polynomials.families import FAMILIES, Hermite, Jacobi, Laguerre, Legendre, Polynomials

__all__ = ["FAMILIES", "Hermite", "Jacobi", "Laguerre", "Legendre", "Polynomials"]
