"""Monotone maps of the target: what the process describes may be a logarithm of it.

Quantities that are positive and range over orders of magnitude, such as a resistance or a price,
have errors in proportion to their size, and so has the variation of the process. Their logarithm
has neither. How much of one suits the data, the evidence chooses (`pcegp.training.selection`):
with the target's distance t from its smallest training value, in units of its range, the map is

    z = log(1 + b t) / b,    b = the bend > 0;    b = 0 leaves the target as it is.

With b < 0, t is the distance from the largest value, and the map is the mirror image. It is the
same in whatever unit the target is given, and with whatever origin. Outside the training range
the map goes on along its tangents, so that every z has a value, and none is far from all data.

n training rows, m new rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pcegp._typing import FloatArray
from pcegp.numerics.quadrature import NODES, hermite_coefficients

_DEVIATION = 2.0  # by the prior, of the logarithm of the ratio of the slopes at both ends
_BLOCK = 20_000  # rows at once: each has a value for every node of the quadrature


@dataclass(frozen=True)
class TargetMap:
    """A map of standardised targets, whose values are standardised again."""

    bend: float
    lowest: float  # training value
    highest: float
    centre: float = 0.0  # of the values of the map
    width: float = 1.0

    @classmethod
    def fit(cls, bend: float, y: FloatArray, weights: FloatArray) -> Self:
        """Fit a map to standardised targets y (n,) with weights (n,)."""
        lowest, highest = float(y.min()), float(y.max())
        if bend == 0.0 or lowest == highest:
            return cls(0.0, lowest, highest)
        values = cls(bend, lowest, highest).transform(y)
        centre = float(np.average(values, weights=weights))
        width = float(np.sqrt(np.average((values - centre) ** 2, weights=weights)))
        return cls(bend, lowest, highest, centre, width)

    @property
    def is_linear(self) -> bool:
        """Tell whether the map changes nothing."""
        return self.bend == 0.0

    @property
    def log_prior(self) -> float:
        """Log of a normal prior on the log ratio of the slopes at both ends, less its maximum."""
        return -0.5 * (float(np.log1p(abs(self.bend))) / _DEVIATION) ** 2

    @cached_property
    def _range(self) -> float:
        return self.highest - self.lowest

    def _distances(self, y: FloatArray) -> FloatArray:
        """Compute the distance t from the end where the map is steep."""
        from_low = (y - self.lowest) / self._range
        return from_low if self.bend > 0.0 else 1.0 - from_low

    def transform(self, y: FloatArray) -> FloatArray:
        """Map standardised targets of any shape."""
        if self.is_linear:
            return y
        b, t = abs(self.bend), self._distances(y)
        inside = np.clip(t, 0.0, 1.0)
        # Along the tangents: of slope 1 at t = 0 and of slope 1 / (1 + b) at t = 1.
        values = np.log1p(b * inside) / b + np.minimum(t, 0.0) + np.maximum(t - 1.0, 0.0) / (1 + b)
        return np.asarray((np.sign(self.bend) * values - self.centre) / self.width)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map back to standardised targets."""
        if self.is_linear:
            return z
        b, sign = abs(self.bend), np.sign(self.bend)
        values = sign * (self.centre + self.width * z)
        highest = np.log1p(b) / b
        inside = np.clip(values, 0.0, highest)
        t = np.expm1(b * inside) / b
        t += np.minimum(values, 0.0) + np.maximum(values - highest, 0.0) * (1.0 + b)
        return np.asarray(self.lowest + self._range * (t if sign > 0.0 else 1.0 - t))

    def log_slope(self, y: FloatArray) -> FloatArray:
        """Compute log dz/dy: what the logarithm of a density of y has beside that of z."""
        if self.is_linear:
            return np.zeros_like(y)
        t = np.clip(self._distances(y), 0.0, 1.0)
        return np.asarray(-np.log1p(abs(self.bend) * t) - np.log(self._range * self.width))

    def moments(
        self, mean: FloatArray, variance: FloatArray, noise: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute the mean of a target, and its variance without noise and with it.

        The target without noise is what is expected of it at a value of the process.

        Parameters
        ----------
        mean, variance : (m,) each, of the process
        noise : (m,) variance of the noise
        """
        noise = np.broadcast_to(noise, mean.shape)
        out = np.empty((3, len(mean)))
        for start in range(0, len(mean), _BLOCK):
            part = slice(start, start + _BLOCK)
            total = variance[part] + noise[part]
            c = self._coefficients(mean[part], total)
            squares = c[1:] ** 2
            shares = np.divide(variance[part], total, out=np.zeros_like(total), where=total > 0.0)
            powers = shares ** np.arange(1, NODES)[:, None]
            out[:, part] = c[0], (squares * powers).sum(axis=0), squares.sum(axis=0)
        return out[0], out[1], out[2]

    def covariance(self, mean: FloatArray, total: FloatArray, shared: FloatArray) -> FloatArray:
        """Compute covariances of targets.

        Parameters
        ----------
        mean, total : (m,) each, of the process with its noise
        shared : (m, m) covariance of the process
        """
        root = np.sqrt(total)
        c = self._coefficients(mean, total)[1:]
        correlation = np.divide(shared, root * root[:, None], out=np.zeros_like(shared),
                                where=(root * root[:, None]) > 0.0)
        # Horner's scheme in the correlation, a matrix in place.
        out = np.zeros_like(shared)
        for row in c[::-1]:
            out += row * row[:, None]
            out *= correlation
        return out

    def expected(self, values: FloatArray, noise: FloatArray) -> FloatArray:
        """Compute the target that is expected at values of the process (m, count)."""
        means = self._coefficients(values.ravel(), np.repeat(noise, values.shape[1]))[0]
        return np.asarray(means.reshape(values.shape))

    def _coefficients(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return hermite_coefficients(self.inverse, mean, np.sqrt(variance))
