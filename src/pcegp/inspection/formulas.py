"""A learned expansion as a formula in the user's own features: text, LaTeX, SymPy.

Inside the model inputs are scaled, z = (x - centre) / width; a formula says so in full,
so that it can be evaluated at values as they stand in the user's table. It holds inside
the box of the training data; outside, the model keeps the value at the edge.
"""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.kernels import Transform
from pcegp.polynomials import Expansion, polynomial_text

# Names that mean something else in an expression.
_TAKEN = {"exp", "log", "E", "I", "N", "O", "Q", "S", "pi", "beta", "gamma", "zeta", "lambda"}


def identifiers(names: Sequence[str]) -> list[str]:
    """Make names fit for an expression, all different: "Flow rate [m/s]" -> Flow_rate_m_s."""
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
    """factor * (floor + T(sum of terms)), its terms by what they contribute on the box.

    Attributes
    ----------
    names : the features, as the user calls them
    terms : (coefficient, powers of the scaled features) by contribution
    affine : centre and width, (d,) each, of z = (x - centre) / width; None if the scaling is
        not of this kind
    """

    names: tuple[str, ...]
    terms: tuple[tuple[float, tuple[int, ...]], ...]
    transform: Transform
    affine: tuple[FloatArray, FloatArray] | None
    factor: float = 1.0
    floor: float = 0.0

    @property
    def identifiers(self) -> dict[str, str]:
        """The name of each feature in the text, with the feature it stands for."""
        return dict(zip(identifiers(self.names), self.names, strict=True))

    def text(self, digits: int = 4, scaled: bool = False) -> str:
        """Write a Python (and SymPy) expression in the `identifiers`.

        With ``scaled=True`` they stand for the scaled features z, which reads more easily.
        """
        words = identifiers(self.names)
        if not scaled and self.affine is not None:
            # Differences to the centre lose digits where the centre is large.
            precise = max(digits, 6)
            words = [f"(({word} {'-' if c >= 0 else '+'} {abs(c):.{precise}g})/{w:.{precise}g})"
                     for word, c, w in zip(words, *self.affine, strict=True)]
        text = self.transform.text.format(polynomial_text(self.terms, words, digits))
        if self.floor > 0.0:
            text = f"{self.floor:.{digits}g} + {text}"
        return text if self.factor == 1.0 else f"{self.factor:.{digits}g}*({text})"

    def sympy(self, digits: int = 17, scaled: bool = False) -> Any:
        """Write a SymPy expression; its symbols have the names of the features."""
        import sympy

        def number(value: float) -> Any:
            return sympy.Float(value, digits)

        inputs = [sympy.Symbol(name) for name in self.names]
        if not scaled and self.affine is not None:
            inputs = [(x - number(c)) / number(w)
                      for x, c, w in zip(inputs, *self.affine, strict=True)]
        u = sympy.Add(*(
            number(value) * sympy.Mul(*(x**k for x, k in zip(inputs, powers, strict=True)))
            for value, powers in self.terms
        ))
        total = self.transform.sympy(u)
        if self.floor > 0.0:
            total = number(self.floor) + total
        return total if self.factor == 1.0 else number(self.factor) * total

    def latex(self, digits: int = 4) -> str:
        """Write LaTeX in the scaled features."""
        import sympy

        names = {sympy.Symbol(name): r"\mathrm{" + _escaped(name) + "}" for name in self.names}
        return str(sympy.latex(self.sympy(digits, scaled=True), symbol_names=names))


def _escaped(name: str) -> str:
    """Escape a feature's name for LaTeX's text."""
    return re.sub(r"([#$%&_^~ ])", r"\\\1", re.sub(r"[\\{}]", "", name))


def formula_of(
    expansion: Expansion,
    names: Sequence[str],
    transform: Transform,
    affine: tuple[FloatArray, FloatArray] | None,
    offset: float = 0.0,
    factor: float = 1.0,
    floor: float = 0.0,
) -> Formula:
    """Make the formula of an expansion; `offset` is added to its polynomial (see `Shift`)."""
    powers, indices, basis = expansion.powers.copy(), expansion.basis.indices, expansion.basis
    powers[~indices.any(axis=1)] += offset
    z = np.random.default_rng(0).uniform(basis.lower, basis.upper, (256, indices.shape[1]))
    spread = np.array([np.abs(np.prod(z**index, axis=1)).mean() for index in indices])
    order = [k for k in np.argsort(-np.abs(powers) * spread, kind="stable") if powers[k] != 0.0]
    return Formula(
        names=tuple(names),
        terms=tuple((float(powers[k]), tuple(map(int, indices[k]))) for k in order),
        transform=transform, affine=affine, factor=factor, floor=floor,
    )
