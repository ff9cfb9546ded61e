"""Bases of polynomial chaos expansions: which products of polynomials, and their values.

n points, d inputs, q degree, P multi-indices, b families, m = b P terms.

    indices  (P, d)  degrees of the one-variable factors of each term
    Phi      (n, m)  products of orthonormal polynomials at the inputs; first the P of the
                     first family, then of the next

Every index set here is downward closed (lowering a degree stays inside), so an expansion
in one family can be rewritten exactly in another or in powers of x.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from pcegp._typing import BoolArray, FloatArray, IntArray
from pcegp.errors import BasisTooLargeError, SettingError
from pcegp.numerics import ArrayCache
from pcegp.numerics.compile import loop
from pcegp.polynomials.families import Polynomials

_HIGHEST_DEGREE = 100
_MOST_PATTERNS = 100_000  # of degrees over active inputs, looked through when truncating


def _check(degree: int, hyperbolic: float, max_interaction: int | None) -> None:
    if isinstance(degree, bool) or not isinstance(degree, (int, np.integer)) or degree < 0:
        raise SettingError(f"degree={degree!r} must be a whole number of 0 or more")
    if degree > _HIGHEST_DEGREE:
        raise SettingError(f"degree={degree} is above {_HIGHEST_DEGREE}, where precision is lost")
    if not 0.0 < hyperbolic <= 1.0:
        raise SettingError(f"hyperbolic={hyperbolic!r} must lie in (0, 1]; 1 keeps total degree")
    if max_interaction is not None and max_interaction < 1:
        raise SettingError(f"max_interaction={max_interaction!r} must be 1 or more, or None")


def _degree_patterns(active: int, degree: int, hyperbolic: float) -> IntArray:
    """Positive degrees of `active` inputs with (sum k^h)^(1/h) <= degree: (r, active)."""
    if active == 0:
        return np.zeros((1, 0), dtype=np.int64)
    # Cuts between `active` runs of unit steps give every sum of positive parts.
    rows = [
        np.diff((0, *cut))
        for cut in combinations(range(1, degree + 1), active)
    ]
    patterns = np.array(rows, dtype=np.int64).reshape(-1, active)
    norm = np.sum(patterns.astype(float) ** hyperbolic, axis=1) ** (1.0 / hyperbolic)
    return np.asarray(patterns[norm <= degree * (1.0 + 1e-12)])


def _patterns(
    n_inputs: int, degree: int, hyperbolic: float, max_interaction: int | None
) -> list[IntArray]:
    order = min(n_inputs, degree if max_interaction is None else min(degree, max_interaction))
    if sum(comb(degree, active) for active in range(order + 1)) > _MOST_PATTERNS:
        raise SettingError(
            f"degree={degree} with interactions of {order} inputs cannot be truncated in "
            "reasonable time: lower degree or max_interaction"
        )
    return [_degree_patterns(active, degree, hyperbolic) for active in range(order + 1)]


def count_terms(
    n_inputs: int, degree: int, hyperbolic: float = 1.0, max_interaction: int | None = None
) -> int:
    """Number of multi-indices, without building them; C(d + q, q) by default."""
    _check(degree, hyperbolic, max_interaction)
    if hyperbolic == 1.0 and max_interaction is None:
        return comb(n_inputs + degree, degree)
    patterns = _patterns(n_inputs, degree, hyperbolic, max_interaction)
    return sum(comb(n_inputs, active) * len(p) for active, p in enumerate(patterns))


def multi_indices(
    n_inputs: int, degree: int, hyperbolic: float = 1.0, max_interaction: int | None = None
) -> IntArray:
    """Multi-indices of total degree <= q, the constant first.

    Parameters
    ----------
    hyperbolic : float in (0, 1]
        Keep k with (sum_i k_i^h)^(1/h) <= q. 1 is total degree; less thins interactions.
    max_interaction : int or None
        At most this many inputs in one term.

    Returns
    -------
    indices : (P, d), ordered by total degree, then by input
    """
    _check(degree, hyperbolic, max_interaction)
    blocks = []
    for active, patterns in enumerate(_patterns(n_inputs, degree, hyperbolic, max_interaction)):
        inputs = np.array(list(combinations(range(n_inputs), active)), dtype=np.int64)
        inputs = inputs.reshape(comb(n_inputs, active), active)
        block = np.zeros((len(inputs), len(patterns), n_inputs), dtype=np.int64)
        rows, columns = np.ogrid[: len(inputs), : len(patterns)]
        for position in range(active):
            block[rows, columns, inputs[:, position][:, None]] = patterns[:, position]
        blocks.append(block.reshape(-1, n_inputs))
    indices = np.concatenate(blocks)
    order = np.lexsort((*(-indices.T[::-1]), indices.sum(axis=1)))
    return np.ascontiguousarray(indices[order])


@loop
def _multiply(tables: FloatArray, indices: IntArray, out: FloatArray) -> None:
    """Products of the factors that a term really has; tables (d, q + 1, n), out (P, n)."""
    for term in range(len(indices)):
        row = out[term]
        row[:] = 1.0
        for i in range(indices.shape[1]):
            if indices[term, i] > 0:
                factor = tables[i, indices[term, i]]
                for j in range(row.size):
                    row[j] *= factor[j]


@dataclass(frozen=True)
class Basis:
    """Products of one-variable polynomials: everything about Phi but the points.

    Parameters
    ----------
    families : tuple of polynomial families; several are combined linearly
    indices : (P, d) multi-indices shared by the families
    lower, upper : (d,) corners of the training box. A family that lives on [0, inf)
        is evaluated at x - lower, every other at x.
    """

    families: tuple[Polynomials, ...]
    indices: IntArray
    lower: FloatArray
    upper: FloatArray
    cache: ArrayCache | None = field(default=None, repr=False, compare=False)

    @property
    def n_terms(self) -> int:
        """The number of terms, m."""
        return len(self.families) * len(self.indices)

    @property
    def degree(self) -> int:
        """The largest degree in one variable."""
        return int(self.indices.max(initial=0))

    @cached_property
    def is_constant(self) -> BoolArray:
        """Marks (m,) of the constant terms, one for each family."""
        return np.tile(~self.indices.any(axis=1), len(self.families))

    def bytes_needed(self, n_points: int) -> int:
        """Memory of Phi at that many points."""
        return 8 * n_points * self.n_terms

    def evaluate_in_box(self, X: FloatArray) -> FloatArray:
        """Phi (n, m) at X clipped to the training box: outside it polynomials run away."""
        if self.cache is None:
            return self.evaluate(np.clip(X, self.lower, self.upper))
        sources = (self.indices, self.lower, self.upper, X)
        return self.cache.get(
            self.families, sources, lambda: self.evaluate(np.clip(X, self.lower, self.upper))
        )

    def evaluate(self, X: FloatArray) -> FloatArray:
        """Phi (n, m) at X (n, d); a column is contiguous."""
        return np.concatenate([self._one_family(f, X) for f in self.families]).T

    def shift(self, family: Polynomials) -> FloatArray:
        """Offset (d,) of the inputs at which a family is evaluated."""
        return self.lower if family.support[0] == 0.0 else np.zeros_like(self.lower)

    def _one_family(self, family: Polynomials, X: FloatArray) -> FloatArray:
        """Phi^T (P, n) of one family."""
        tables = family.values((X - self.shift(family)).T, self.degree)  # (d, n, q + 1)
        out = np.empty((len(self.indices), len(X)))
        _multiply(np.ascontiguousarray(tables.swapaxes(1, 2)), self.indices, out)
        return out


def make_basis(
    families: tuple[Polynomials, ...],
    X: FloatArray,
    degree: int,
    hyperbolic: float = 1.0,
    max_interaction: int | None = None,
    max_basis_gb: float = np.inf,
    n_fields: int = 1,
    cache: ArrayCache | None = None,
) -> Basis:
    """Make the basis for training points X (n, d), or refuse one that needs too much memory.

    Counted are Phi, the multi-indices and the parameter vectors of training, some twelve
    of them, with `n_fields` coefficients for each term.
    """
    n, d = X.shape
    terms = len(families) * count_terms(d, degree, hyperbolic, max_interaction)
    needed = 8 * terms * (n + d + 12 * n_fields)
    if needed > max_basis_gb * 1e9:
        raise BasisTooLargeError(
            f"the polynomial basis has {terms:,} terms and needs {needed // 10**6:,} MB at {n:,} "
            f"points, above max_basis_gb={max_basis_gb:g}: lower degree, set max_interaction or "
            "hyperbolic, or raise max_basis_gb"
        )
    indices = multi_indices(d, degree, hyperbolic, max_interaction)
    return Basis(families, indices, X.min(axis=0), X.max(axis=0), cache)
