"""Orthonormal polynomials in one variable, with the density they belong to.

n points, degrees 0..q.

    values(x, q)   (n, q+1)    p_0(x) .. p_q(x), with E[p_i p_j] = 1 if i = j else 0
    powers(q)      (q+1, q+1)  row k: coefficients of p_k in 1, x, x^2, ...

The classical polynomials of the paper's appendix B are divided by the root of their
norm gamma_k = E[P_k^2]. A degree-0 polynomial is then 1 in every family, so the constant
coefficient of an expansion is its mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gamma
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.polynomial import hermite_e, laguerre, legendre
from numpy.polynomial.polynomial import polyfromroots
from numpy.typing import NDArray
from scipy import special, stats

from pcegp._registry import Registry
from pcegp._typing import FloatArray
from pcegp.errors import SettingError


@runtime_checkable
class Polynomials(Protocol):
    """A family of orthonormal polynomials, as an expansion needs it."""

    @property
    def name(self) -> str:
        """The name that users pass in ``PCEGPRegressor(basis=...)``."""

    @property
    def support(self) -> tuple[float, float]:
        """Ends of the interval that the density lives on."""

    def values(self, x: FloatArray, degree: int) -> FloatArray:
        """Orthonormal polynomials 0..degree at x (...,): (..., degree + 1)."""

    def density(self, x: FloatArray) -> FloatArray:
        """Probability density at x."""

    def norm(self, degree: int) -> float:
        """gamma_k = E[P_k^2] of the classical polynomial P_k."""

    def powers(self, degree: int) -> FloatArray:
        """Coefficients of the orthonormal polynomials in powers of x, one row each."""

    def quadrature(self, points: int) -> tuple[FloatArray, FloatArray]:
        """Gauss nodes and weights under the density; the weights sum to 1."""


def _normalised(classical: NDArray[np.floating[Any]], norm: Callable[[int], float]) -> FloatArray:
    """Divide classical polynomials (..., q+1) by the roots of their norms."""
    return np.asarray(classical / np.sqrt([norm(k) for k in range(classical.shape[-1])]))


def _power_rows(
    rows: Sequence[NDArray[np.floating[Any]]], norm: Callable[[int], float]
) -> FloatArray:
    """Pad rows of classical power coefficients to a square and normalise them."""
    square = np.zeros((len(rows), len(rows)))
    for k, row in enumerate(rows):
        square[k, : row.size] = row
    return _normalised(square.T, norm).T


class _Tabulated(ABC):
    """A classical family whose values, powers and Gauss rule NumPy and SciPy have."""

    _classical: ClassVar[Callable[..., Any]]  # values of the polynomials 0..degree
    _in_powers: ClassVar[Callable[..., Any]]  # from a series in them to one in powers
    _gauss_rule: ClassVar[Callable[..., Any]]

    @abstractmethod
    def norm(self, degree: int) -> float: ...

    def values(self, x: FloatArray, degree: int) -> FloatArray:
        return _normalised(self._classical(x, degree), self.norm)

    def powers(self, degree: int) -> FloatArray:
        units = enumerate(np.eye(degree + 1), 1)
        return _power_rows([self._in_powers(unit[:k]) for k, unit in units], self.norm)

    def quadrature(self, points: int) -> tuple[FloatArray, FloatArray]:
        nodes, weights = self._gauss_rule(points)
        return nodes, weights / weights.sum()


@dataclass(frozen=True)
class Hermite(_Tabulated):
    """Probabilists' Hermite polynomials, for a standard normal variable."""

    name: ClassVar[str] = "hermite"
    support: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    _classical = staticmethod(hermite_e.hermevander)
    _in_powers = staticmethod(hermite_e.herme2poly)
    _gauss_rule = staticmethod(special.roots_hermitenorm)

    def density(self, x: FloatArray) -> FloatArray:
        return np.asarray(stats.norm.pdf(x))

    def norm(self, degree: int) -> float:
        return gamma(degree + 1.0)


@dataclass(frozen=True)
class Legendre(_Tabulated):
    """Legendre polynomials, for a variable uniform on [-1, 1]."""

    name: ClassVar[str] = "legendre"
    support: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    _classical = staticmethod(legendre.legvander)
    _in_powers = staticmethod(legendre.leg2poly)
    _gauss_rule = staticmethod(special.roots_legendre)

    def density(self, x: FloatArray) -> FloatArray:
        return np.asarray(stats.uniform.pdf(x, loc=-1.0, scale=2.0))

    def norm(self, degree: int) -> float:
        return 1.0 / (2.0 * degree + 1.0)


@dataclass(frozen=True)
class Jacobi:
    """Jacobi polynomials, for a beta variable on [-1, 1].

    The density is proportional to (1 - x)^alpha (1 + x)^beta.
    """

    alpha: float = 1.0
    beta: float = 1.0
    name: ClassVar[str] = "jacobi"
    support: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        if not (self.alpha > -1.0 and self.beta > -1.0):
            raise SettingError(
                f"Jacobi(alpha={self.alpha}, beta={self.beta}) has no density: "
                "both parameters must be above -1"
            )

    def values(self, x: FloatArray, degree: int) -> FloatArray:
        orders = np.arange(degree + 1)
        return _normalised(special.eval_jacobi(orders, self.alpha, self.beta, x[..., None]),
                           self.norm)

    def density(self, x: FloatArray) -> FloatArray:
        return np.asarray(stats.beta.pdf(x, self.beta + 1, self.alpha + 1, loc=-1.0, scale=2.0))

    def norm(self, degree: int) -> float:
        a, b, k = self.alpha, self.beta, degree
        if k == 0:
            return 1.0
        log_norm = (
            special.gammaln(k + a + 1) + special.gammaln(k + b + 1)
            - special.gammaln(k + 1) - special.gammaln(k + a + b + 1)
            - special.betaln(a + 1, b + 1)
        )
        return float(np.exp(log_norm) / (2 * k + a + b + 1))

    def powers(self, degree: int) -> FloatArray:
        rows: list[FloatArray] = [np.ones(1)]
        for k in range(1, degree + 1):
            roots, _ = special.roots_jacobi(k, self.alpha, self.beta)
            at_one = special.eval_jacobi(k, self.alpha, self.beta, 1.0)
            rows.append(polyfromroots(roots) * (at_one / np.prod(1.0 - roots)))
        return _power_rows(rows, self.norm)

    def quadrature(self, points: int) -> tuple[FloatArray, FloatArray]:
        nodes, weights = special.roots_jacobi(points, self.alpha, self.beta)
        return nodes, weights / weights.sum()


@dataclass(frozen=True)
class Laguerre(_Tabulated):
    """Laguerre polynomials, for an exponential variable on [0, inf)."""

    name: ClassVar[str] = "laguerre"
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)
    _classical = staticmethod(laguerre.lagvander)
    _in_powers = staticmethod(laguerre.lag2poly)
    _gauss_rule = staticmethod(special.roots_laguerre)

    def density(self, x: FloatArray) -> FloatArray:
        return np.asarray(stats.expon.pdf(x))

    def norm(self, degree: int) -> float:
        return 1.0


#: Families by name.
FAMILIES: Registry[Polynomials] = Registry("polynomial family")
register = FAMILIES.register

for _family in (Hermite(), Legendre(), Jacobi(), Laguerre()):
    register(_family)
