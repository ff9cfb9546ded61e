"""Monotone maps of scaled inputs: how a column is spread before polynomials see it.

n rows, d inputs.

A skewed column crowds most rows into a corner of the training box, where one scale cannot serve
both the crowd and the tail. A monotone map spreads them. The evidence chooses the map that suits
the data (`pcegp.training.selection`). Every map keeps the range of each training column.

    linear   x
    power    ((1 + u)^p - 1) / p of u = (x - min) / (median - min), with the p of the largest
             likelihood of a normal distribution (Yeo and Johnson, 2000, who also say how it
             continues below 0)
    asinh    asinh(2 u) of u = (x - median) / deviation: linear in the middle, logarithmic in
             both tails
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import minimize_scalar

from pcegp._typing import FloatArray
from pcegp.errors import unknown_name

_POWERS = (-3.0, 5.0)  # the range that is searched
_NORMAL_DECILES = 2.5631  # 90 % minus 10 % quantile of a standard normal distribution
_STEEPNESS = 2.0  # of asinh in the middle
# What a column is measured in is at least this share of its range, so that no power overflows.
_LEAST_UNIT = 1e-30
_FARTHEST = 1e15  # ranges of a column; rows further outside are equally far from everything


@dataclass(frozen=True)
class MonotoneMap:
    """A map of inputs (n, d), column by column; see `fit_monotone`."""

    name: str
    centre: FloatArray  # (d,)
    unit: FloatArray  # (d,)
    power: FloatArray  # (d,), only used by "power"
    lowest: FloatArray  # (d,) smallest training value
    highest: FloatArray  # (d,)

    @classmethod
    def of(cls, name: str, columns: FloatArray | None) -> Self:
        """Make a map from its `columns`; a linear one has none."""
        if name == "linear" or columns is None:
            return cls("linear", *(np.empty(0) for _ in range(5)))
        return cls(name, *columns)

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        """All that a map knows of the inputs, (d,) each, as `of` takes it."""
        return (self.centre, self.unit, self.power, self.lowest, self.highest)

    @property
    def is_linear(self) -> bool:
        """Tell whether the map changes nothing."""
        return self.name == "linear"

    def transform(self, X: FloatArray) -> FloatArray:
        """Map rows (m, d); what lies outside the training range stays outside of it."""
        if self.is_linear:
            return X
        spread = _SPREADS[self.name]
        farthest = _FARTHEST * (self.highest - self.lowest)
        X = np.clip(X, self.lowest - farthest, self.highest + farthest)
        ends = [spread((end - self.centre) / self.unit, self.power)
                for end in (self.lowest, self.highest)]
        width = np.where(self.highest > self.lowest, ends[1] - ends[0], 1.0)
        share = (spread((X - self.centre) / self.unit, self.power) - ends[0]) / width
        return np.asarray(self.lowest + share * (self.highest - self.lowest))


def _power(u: FloatArray, power: FloatArray) -> FloatArray:
    """Compute the transform of Yeo and Johnson."""
    above, below = np.maximum(u, 0.0), np.maximum(-u, 0.0)
    return _boxcox1p(above, power) - _boxcox1p(below, 2.0 - power)


def _boxcox1p(u: FloatArray, power: FloatArray) -> FloatArray:
    """Compute ((1 + u)^p - 1) / p, or log(1 + u) where p is 0, without cancellation."""
    logs = np.log1p(u)
    safe = np.where(power == 0.0, 1.0, power)
    return np.where(power == 0.0, logs, np.expm1(safe * logs) / safe)


def _asinh(u: FloatArray, power: FloatArray) -> FloatArray:  # noqa: ARG001  # as every map
    return np.arcsinh(_STEEPNESS * u)


_SPREADS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "power": _power, "asinh": _asinh,
}
#: The names of the maps.
MONOTONE = ("linear", *_SPREADS)


#: The map of any number of inputs that changes nothing.
LINEAR = MonotoneMap.of("linear", None)


def fit_monotone(name: str, X: FloatArray, weights: FloatArray) -> MonotoneMap:
    """Fit a map to training inputs X (n, d) with weights (n,)."""
    if name not in MONOTONE:
        raise unknown_name("input_map", name, ("auto", *MONOTONE))
    if name == "linear":
        return LINEAR
    lowest, highest = X.min(axis=0), X.max(axis=0)
    power = np.ones(X.shape[1])
    if name == "power":
        centre = lowest
        unit = _positive(_quantile(X, 0.5, weights) - lowest, X, weights)
        power = np.array([_likeliest_power(u, weights) for u in ((X - centre) / unit).T])
    else:
        centre = _quantile(X, 0.5, weights)
        spread = _quantile(X, 0.9, weights) - _quantile(X, 0.1, weights)
        unit = _positive(spread / _NORMAL_DECILES, X, weights)
    return MonotoneMap(name, centre, unit, power, lowest, highest)


def _quantile(X: FloatArray, share: float, weights: FloatArray) -> FloatArray:
    return np.asarray(np.quantile(X, share, axis=0, weights=weights, method="inverted_cdf"))


def _positive(unit: FloatArray, X: FloatArray, weights: FloatArray) -> FloatArray:
    """Take the standard deviation, or 1, where a unit is next to nothing."""
    least = _LEAST_UNIT * (X.max(axis=0) - X.min(axis=0))
    mean = np.average(X, axis=0, weights=weights)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    return np.where(unit > least, unit, np.where(deviation > 0.0, deviation, 1.0))


def _likeliest_power(u: FloatArray, weights: FloatArray) -> float:
    """Find the power that makes values (n,) most like draws of a normal distribution."""
    logs, total = np.log1p(u), weights.sum()

    def nll(power: float) -> float:
        values = _boxcox1p(u, np.array(power))
        mean = weights @ values / total
        variance = max(float(weights @ (values - mean) ** 2 / total), np.finfo(float).tiny)
        return float(0.5 * total * np.log(variance) - (power - 1.0) * (weights @ logs))

    return float(minimize_scalar(nll, bounds=_POWERS, method="bounded").x)
