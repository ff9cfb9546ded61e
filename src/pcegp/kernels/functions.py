"""Covariance functions of the squared distance D, with their slopes in D.

A covariance function knows squared distance and nothing of points, scales or
variances: it is a correlation f(D) with f(0) = 1. The model places it on warped
points (paper, appendix D, non-stationary table) and multiplies it by a learned
variance. Each one here is a single compiled function over a run of n distances:

    D            (n,)  squared distances, in
    shape              the learned shape parameter; ignored where there is none
    value        (n,)  f(D), out
    slope        (n,)  df/dD, out
    shape_slope  (n,)  df/d(shape), out; may be left alone where there is no shape

To add one, write such a function and pass it to `register`; docs/covariances.md
walks through an example.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import sqrt
from operator import attrgetter
from typing import Any

import numpy as np
from numba import cfunc, types

from pcegp._registry import Registry
from pcegp._typing import FloatArray
from pcegp.numerics.compile import cached
from pcegp.numerics.elementary import exp, log
from pcegp.preprocessing import validation

_ROW = types.CPointer(types.float64)
ROW_KERNEL = types.void(_ROW, types.intp, types.float64, _ROW, _ROW, _ROW)


def compiled(function: Callable[..., None]) -> Any:
    """Compile a covariance function; its machine code is cached on disk."""
    return cached(partial(cfunc, ROW_KERNEL, fastmath={"contract"}, error_model="numpy"), function)


_SQRT3 = sqrt(3.0)
_SQRT5 = sqrt(5.0)


@dataclass(frozen=True)
class CovarianceFunction:
    """A named correlation function of squared distance.

    Parameters
    ----------
    name : str
        What users pass in ``PCEGPRegressor(covariance=...)``.
    kernel : compiled function
        Value and slopes over a run of distances; see the module's notation.
    initial_shape : float or None
        Start value of the learned, positive shape parameter; None if there is none.
    """

    name: str
    kernel: Any
    initial_shape: float | None = None

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # Machine code has an address in one process only: another one looks the name up, or
        # the compiled function where its module has it.
        if COVARIANCES.get(self.name) is self:
            return get, (self.name,)
        function = self.kernel._pyfunc
        return _imported, (self.name, function.__module__, function.__qualname__,
                           self.initial_shape)

    def evaluate(
        self, squared_distance: FloatArray, shape: float | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute value, slope in D and slope in the shape, each like `squared_distance`."""
        distance = np.ascontiguousarray(squared_distance, dtype=np.float64)
        value, slope, shape_slope = (np.zeros_like(distance) for _ in range(3))
        pointers = [a.ctypes.data_as(self.kernel.ctypes.argtypes[0]) for a in
                    (distance, value, slope, shape_slope)]
        shape = self.initial_shape if shape is None else shape
        self.kernel.ctypes(pointers[0], distance.size, shape or 0.0, *pointers[1:])
        return value, slope, shape_slope


@compiled
def _squared_exponential(D, n, shape, value, slope, shape_slope):
    for j in range(n):
        f = exp(-0.5 * D[j])
        value[j] = f
        slope[j] = -0.5 * f


@compiled
def _absolute_exponential(D, n, shape, value, slope, shape_slope):
    for j in range(n):
        r = sqrt(D[j])
        f = exp(-r)
        value[j] = f
        # exp(-r) has no slope at r = 0; a repeated point contributes none.
        slope[j] = -0.5 * f / r if r > 0.0 else 0.0


@compiled
def _matern32(D, n, shape, value, slope, shape_slope):
    for j in range(n):
        r = _SQRT3 * sqrt(D[j])
        f = exp(-r)
        value[j] = (1.0 + r) * f
        slope[j] = -1.5 * f


@compiled
def _matern52(D, n, shape, value, slope, shape_slope):
    for j in range(n):
        r = _SQRT5 * sqrt(D[j])
        f = exp(-r)
        value[j] = (1.0 + r + r * r / 3.0) * f
        slope[j] = -5.0 / 6.0 * (1.0 + r) * f


@compiled
def _rational_quadratic(D, n, shape, value, slope, shape_slope):
    per_shape = 0.5 / shape
    for j in range(n):
        excess = D[j] * per_shape
        log_q = log(1.0 + excess)
        inverse = 1.0 / (1.0 + excess)
        f = exp(-shape * log_q)
        value[j] = f
        slope[j] = -0.5 * f * inverse
        shape_slope[j] = f * (excess * inverse - log_q)


#: Covariance functions by name.
COVARIANCES: Registry[CovarianceFunction] = Registry("covariance function")
register = COVARIANCES.register


def get(name: str) -> CovarianceFunction:
    """Find the covariance function of that name."""
    return validation.check_choice("covariance", name, COVARIANCES)


def _imported(name: str, module: str, path: str, shape: float | None) -> CovarianceFunction:
    """Rebuild a covariance function that is not registered, in another process."""
    return CovarianceFunction(name, attrgetter(path)(import_module(module)), shape)


register(CovarianceFunction("squared_exponential", _squared_exponential))
register(CovarianceFunction("absolute_exponential", _absolute_exponential))
register(CovarianceFunction("matern32", _matern32))
register(CovarianceFunction("matern52", _matern52))
register(CovarianceFunction("rational_quadratic", _rational_quadratic, initial_shape=1.0))
