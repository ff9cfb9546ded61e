"""Polynomial chaos expansions: values, moments, other bases and formula.

P multi-indices, b families, m = b P terms; see `pcegp.polynomials.basis`.

    coefficients  (m,)  alpha; first the P of the first family, then of the next
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np

from pcegp._typing import FloatArray, IntArray
from pcegp.polynomials.basis import Basis
from pcegp.polynomials.families import Legendre, Polynomials


@dataclass(frozen=True)
class Expansion:
    """A polynomial chaos expansion: sum_k alpha_k Phi_k(x) (paper, equation 1)."""

    basis: Basis
    coefficients: FloatArray

    def __call__(self, X: FloatArray) -> FloatArray:
        """Value (n,) at X (n, d)."""
        return self.basis.evaluate(X) @ self.coefficients

    @cached_property
    def _in_first_family(self) -> FloatArray:
        """Coefficients (P,) of the same function in the first family alone."""
        first = self.basis.families[0]
        shift = self.basis.shift(first)
        return self._projected(first, lambda nodes, i: nodes + shift[i])

    @cached_property
    def on_box(self) -> FloatArray:
        """Coefficients (P,) in the Legendre polynomials orthonormal on the training box."""
        basis = self.basis
        centre, half = 0.5 * (basis.lower + basis.upper), 0.5 * (basis.upper - basis.lower)
        return self._projected(Legendre(), lambda nodes, i: centre[i] + half[i] * nodes)

    def _projected(
        self, other: Polynomials, inputs: Callable[[FloatArray, int], FloatArray]
    ) -> FloatArray:
        """Project on another family, whose Gauss nodes are `inputs(nodes, i)` in input i."""
        degree = self.basis.degree
        nodes, weights = other.quadrature(degree + 1)
        theirs = other.values(nodes, degree)

        def projections(family: Polynomials, i: int) -> FloatArray:
            # M[k, j] = E[p_k q_j]: exact, the rule has enough nodes for degree 2q.
            ours = family.values(inputs(nodes, i) - self.basis.shift(family)[i], degree)
            return np.asarray((ours * weights[:, None]).T @ theirs)

        return self._rewritten(projections)

    @cached_property
    def powers(self) -> FloatArray:
        """Coefficients (P,) of the monomials x^k, in the order of `basis.indices`."""
        degree = self.basis.degree

        def monomials(family: Polynomials, i: int) -> FloatArray:
            rows, shift = family.powers(degree), self.basis.shift(family)[i]
            if shift == 0.0:
                return rows
            # p(x - shift) in powers of x, by the binomial theorem.
            binomial = np.array([[comb(k, j) * (-shift) ** max(k - j, 0) for j in range(degree + 1)]
                                 for k in range(degree + 1)])
            return np.asarray(rows @ binomial)

        return self._rewritten(monomials)

    def _rewritten(self, matrix_of: Callable[[Polynomials, int], FloatArray]) -> FloatArray:
        """Rewrite each family's part input by input and add the parts up.

        `matrix_of(family, i)` has a row for each degree in input i.
        """
        basis, total = self.basis, np.zeros(len(self.basis.indices))
        position = {tuple(k): row for row, k in enumerate(basis.indices.tolist())}
        parts = np.split(self.coefficients, len(basis.families))
        for family, coefficients in zip(basis.families, parts, strict=True):
            part = coefficients
            for i in range(basis.indices.shape[1]):
                part = _rewrite_input(part, basis.indices, position, i, matrix_of(family, i))
            total += part
        return total

    @property
    def mean(self) -> float:
        """Mean under the density of the first family."""
        return float(self._in_first_family[~self.basis.indices.any(axis=1)].sum())

    @property
    def variance(self) -> float:
        """Variance under the density of the first family."""
        return float(np.sum(self._in_first_family[self.basis.indices.any(axis=1)] ** 2))

    def formula(self, names: Sequence[str] | None = None, digits: int = 4) -> str:
        """Write the expansion as a polynomial in its inputs, a valid Python expression.

        Terms stand in the order of their degree; zeros are left out.
        """
        if names is None:
            names = [f"x{i + 1}" for i in range(self.basis.indices.shape[1])]
        return polynomial_text(zip(self.powers, self.basis.indices, strict=True), names, digits)


def polynomial_text(
    terms: Iterable[tuple[float, Sequence[int]]], names: Sequence[str], digits: int
) -> str:
    """Write coefficients and powers as a Python expression in the names, without zeros."""
    text = ""
    for value, powers in terms:
        if value == 0.0:
            continue
        factors = [f"{abs(value):.{digits}g}"]
        factors += [names[i] if k == 1 else f"{names[i]}**{k}" for i, k in enumerate(powers) if k]
        text += f" {'-' if value < 0 else '+'} " + "*".join(factors)
    text = text.removeprefix(" + ").strip()
    return text.replace("- ", "-", 1) if text.startswith("- ") else text or "0"


def _rewrite_input(
    coefficients: FloatArray,
    indices: IntArray,
    position: dict[tuple[int, ...], int],
    i: int,
    matrix: FloatArray,
) -> FloatArray:
    """Replace p_k(x_i) by sum_j matrix[k, j] q_j(x_i) in every term."""
    out = np.zeros_like(coefficients)
    for row, index in enumerate(indices.tolist()):
        degree = index[i]
        for j in range(degree + 1):
            index[i] = j
            out[position[tuple(index)]] += coefficients[row] * matrix[degree, j]
    return out
