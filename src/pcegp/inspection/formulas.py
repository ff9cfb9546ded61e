"""A learned expansion as a formula in the user's own features: text, LaTeX, SymPy.

Inside the model inputs are scaled, z = (x - centre) / width; a formula says so in full,
so that it can be evaluated at values as they stand in the user's table. It holds inside
the box of the training data; outside, the model keeps the value at the edge.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.polynomials.expansion import Expansion, polynomial_text

FloatArray = NDArray[np.float64]

# T(u) as text, by the name of the transform; `shift` adds its offset to the polynomial.
_WRAPPED = {
    "identity": "{}",
    "shift": "{}",
    "softplus": "log(1 + exp({}))",
    "sigmoid": "1/(1 + exp(-({})))",
    "exponential": "exp({})",
}
# Names that mean something else in an expression.
_TAKEN = {"exp", "log", "E", "I", "N", "O", "Q", "S", "pi", "beta", "gamma", "zeta", "lambda"}


def identifiers(names: Sequence[str]) -> list[str]:
    """Names that can stand in an expression, all different: "Flow rate [m/s]" -> Flow_rate_m_s."""
    out: list[str] = []
    for name in names:
        word = re.sub(r"\W+", "_", str(name), flags=re.ASCII).strip("_") or "x"
        if word[0].isdigit() or keyword.iskeyword(word) or word in _TAKEN:
            word = f"x_{word}"
        unique, number = word, 2
        while unique in out:
            unique, number = f"{word}_{number}", number + 1
        out.append(unique)
    return out


@dataclass(frozen=True)
class Formula:
    """scale * (floor + T(sum of terms)), sorted by what the terms contribute on the box.

    Attributes
    ----------
    names : the features, as the user calls them
    terms : (coefficient, powers of the scaled features) by contribution
    centre, width : (d,) of z = (x - centre) / width; None if the scaling is not of this kind
    """

    names: tuple[str, ...]
    terms: tuple[tuple[float, tuple[int, ...]], ...]
    transform: str
    centre: FloatArray | None
    width: FloatArray | None
    factor: float = 1.0
    floor: float = 0.0

    @property
    def identifiers(self) -> dict[str, str]:
        """What each feature is called in the text, with the feature it stands for."""
        return dict(zip(identifiers(self.names), self.names, strict=True))

    def text(self, digits: int = 4, scaled: bool = False) -> str:
        """A Python (and SymPy) expression in the `identifiers`.

        With ``scaled=True`` they stand for the scaled features z, which reads more easily.
        """
        words = identifiers(self.names)
        if not scaled:
            words = [self._written_out(i, word, digits) for i, word in enumerate(words)]
        text = _WRAPPED[self.transform].format(polynomial_text(self.terms, words, digits))
        if self.floor > 0.0:
            text = f"{self.floor:.{digits}g} + {text}"
        return text if self.factor == 1.0 else f"{self.factor:.{digits}g}*({text})"

    def _written_out(self, i: int, word: str, digits: int) -> str:
        if self.centre is None or self.width is None:
            return word
        sign = "-" if self.centre[i] >= 0 else "+"
        # Differences to the centre lose digits where the centre is large.
        centre = f"{abs(self.centre[i]):.{max(digits, 6)}g}"
        return f"(({word} {sign} {centre})/{self.width[i]:.{max(digits, 6)}g})"

    def sympy(self, digits: int = 17, scaled: bool = False) -> Any:
        """A SymPy expression; its symbols have the names of the features."""
        import sympy

        def number(value: float) -> Any:
            return sympy.Float(value, digits)

        inputs = [sympy.Symbol(name) for name in self.names]
        if not scaled and self.centre is not None and self.width is not None:
            inputs = [(x - number(c)) / number(w)
                      for x, c, w in zip(inputs, self.centre, self.width, strict=True)]
        u = sympy.Add(*(
            number(value) * sympy.Mul(*(x**k for x, k in zip(inputs, powers, strict=True)))
            for value, powers in self.terms
        ))
        wrapped = {
            "softplus": lambda: sympy.log(1 + sympy.exp(u)),
            "sigmoid": lambda: 1 / (1 + sympy.exp(-u)),
            "exponential": lambda: sympy.exp(u),
        }.get(self.transform, lambda: u)()
        total = wrapped if self.floor == 0.0 else number(self.floor) + wrapped
        return total if self.factor == 1.0 else number(self.factor) * total

    def latex(self, digits: int = 4) -> str:
        """LaTeX in the scaled features."""
        import sympy

        names = {sympy.Symbol(name): r"\mathrm{" + _escaped(name) + "}" for name in self.names}
        return str(sympy.latex(self.sympy(digits, scaled=True), symbol_names=names))


def _escaped(name: str) -> str:
    """A feature's name inside LaTeX's text."""
    for old in "\\{}":
        name = name.replace(old, "")
    return re.sub(r"([#$%&_^~ ])", r"\\\1", name)


def formula_of(
    expansion: Expansion,
    names: Sequence[str],
    transform: str,
    affine: tuple[FloatArray, FloatArray] | None,
    offset: float = 0.0,
    factor: float = 1.0,
    floor: float = 0.0,
) -> Formula:
    """The formula of an expansion; `offset` is added to its polynomial (see `shift`)."""
    powers, indices, basis = expansion.powers.copy(), expansion.basis.indices, expansion.basis
    powers[~indices.any(axis=1)] += offset
    z = basis.lower + (basis.upper - basis.lower) * np.random.default_rng(0).random(
        (256, indices.shape[1])
    )
    spread = np.array([np.abs(np.prod(z**index, axis=1)).mean() for index in indices])
    order = [k for k in np.argsort(-np.abs(powers) * spread, kind="stable") if powers[k] != 0.0]
    centre, width = (None, None) if affine is None else affine
    return Formula(
        names=tuple(map(str, names)),
        terms=tuple((float(powers[k]), tuple(map(int, indices[k]))) for k in order),
        transform=transform, centre=centre, width=width, factor=factor, floor=floor,
    )
