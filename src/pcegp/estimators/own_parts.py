"""Parts of a model that its user wrote, tried on a few rows before the fit.

A covariance function, transform, polynomial family, prior, engine or scaler of the user's own may
raise anything and return anything. What is wrong with it is said in one sentence that names it.

n rows, d inputs, p parameters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from pcegp._typing import FloatArray
from pcegp.errors import NotPositiveDefiniteError, PCEGPError, SettingError
from pcegp.estimators.settings import Settings
from pcegp.inference import EVERY_STEP, Data, Inference
from pcegp.kernels import CovarianceFunction, Process, Transform
from pcegp.kernels.process import INITIAL_NOISE
from pcegp.polynomials import Basis, Polynomials
from pcegp.preprocessing import fit_inputs, validation
from pcegp.training import Prior

_ROWS = 8
_DISTANCES = np.array([0.0, 0.25, 1.0, 4.0])  # squared
_ROUNDING = 1e-6


def check(
    settings: Settings, columns: FloatArray, scaler: Any, input_range: tuple[float, float],
    weights: FloatArray,
) -> None:
    """Try all parts of a model, those of this package too.

    Parameters
    ----------
    settings : the parts
    columns : (n, D) to train on
    scaler : of the columns
    input_range : that a scaler of this package maps to
    weights : (n,)
    """
    engine = settings.options.inference
    with _tried(f"bytes_needed of inference {_name(engine)}") as what:
        _number(what, engine.bytes_needed(*columns.shape))
    X = _scaled(columns, scaler, input_range, weights)[:_ROWS]
    process, scales = settings.process(X), settings.scales(X.shape[1])
    for covariance in process.covariances:
        _check_covariance(covariance)
    fields = np.linspace(-1.0, 1.0, 6 * len(X)).reshape(2, 3, len(X))
    _check_transform("scale_transform", process.transform, fields, scales.tolist())
    _check_transform("noise_transform", process.noise_transform, fields[0, 0], [INITIAL_NOISE])
    for family in process.basis.families:
        _check_family(family, process.basis, X)
    for prior in settings.options.priors:
        _check_prior(prior, process, scales)
    _check_engine(engine, process, X, scales)


def _scaled(
    columns: FloatArray, scaler: Any, input_range: tuple[float, float], weights: FloatArray
) -> FloatArray:
    """Scale columns (n, D) by a clone of a scaler: (n, d)."""
    with _tried(f"input_scaler {_name(scaler)}"):
        own = clone(scaler) if hasattr(scaler, "get_params") else scaler
        return fit_inputs(columns, own, input_range, weights).transform(columns)


def _name(part: Any) -> str:
    name = getattr(part, "name", None)
    return repr(name) if isinstance(name, str) else type(part).__name__


@contextmanager
def _tried(what: str) -> Iterator[str]:
    """Say what raised an error; those of this package say it themselves."""
    try:
        yield what
    except (PCEGPError, MemoryError):
        raise
    except Exception as error:  # the user's own code raises what it likes
        raise SettingError(f"{what} raised {type(error).__name__}: {error}") from error


def _numbers(what: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """Check that something is an array of that shape, of real and finite numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        kind = type(value).__name__ if array.dtype == object else f"{array.dtype} values"
        raise SettingError(f"{what} gave {kind}: it must give an array of real numbers")
    if array.shape != shape:
        raise SettingError(f"{what} gave an array of shape {array.shape}: it must be {shape}")
    if not np.isfinite(array).all():
        raise SettingError(f"{what} gave NaN or infinite values: it must give finite numbers")
    return np.asarray(array, dtype=np.float64)


def _number(what: str, value: Any) -> float:
    return float(_numbers(what, value, ()))


def _check_covariance(function: CovarianceFunction) -> None:
    what = f"covariance {_name(function)}"
    if not hasattr(function.kernel, "address"):
        raise SettingError(f"{what} has no compiled function: put @pcegp.kernels.compiled over it")
    if function.initial_shape is not None:
        validation.check_number(f"initial_shape of {what}", function.initial_shape, 0.0,
                                open_low=True)
    with _tried(what):
        value, slope, shape_slope = function.evaluate(_DISTANCES)
    for name, found in (("value", value), ("slope", slope), ("shape_slope", shape_slope)):
        _numbers(f"the {name} of {what}", found, _DISTANCES.shape)
    if abs(value[0] - 1.0) > _ROUNDING:
        raise SettingError(f"{what} is {value[0]:.6g} at distance 0: it must be 1 there")


def _check_transform(
    parameter: str, transform: Transform, u: FloatArray, starts: list[float]
) -> None:
    what, before = f"{parameter} {_name(transform)}", u.copy()
    with _tried(f"value of {what}") as which:
        value = _numbers(which, transform.value(u), u.shape)
    with _tried(f"offset of {what}") as which:
        _numbers(which, transform.offset(u), (*u.shape[:-1], 1))
    with _tried(f"pull_back of {what}") as which:
        _numbers(which, transform.pull_back(u, value, np.ones_like(u)), u.shape)
    if not np.array_equal(u, before):
        raise SettingError(f"{what} changes the array that it is given: it must make another one")
    with _tried(f"inverse of {what}") as which:
        try:
            inverses = [transform.inverse(start) for start in starts]
        except SettingError:
            return  # a start that it cannot reach, which is said where the start is named
        for inverse in inverses:
            _number(which, inverse)


def _check_family(family: Polynomials, basis: Basis, X: FloatArray) -> None:
    what = f"basis {_name(family)}"
    with _tried(f"support of {what}") as which:
        if not np.shape(family.support) == (2,) or not family.support[0] < family.support[1]:
            raise SettingError(f"{which} is {family.support!r}: it must be two numbers, the lower "
                               "one first")
    with _tried(f"values of {what}") as which:
        points = (X - basis.shift(family)).T
        values = _numbers(which, family.values(points, basis.degree),
                          (*points.shape, basis.degree + 1))
    if np.abs(values[..., 0] - 1.0).max(initial=0.0) > _ROUNDING:
        raise SettingError(f"{what} is not 1 at degree 0: its polynomials must be orthonormal")


def _check_prior(prior: Prior, process: Process, scales: FloatArray) -> None:
    what, centre = f"prior {_name(prior)}", process.initial(scales)
    with _tried(f"bind of {what}"):
        term = prior.bind(process, centre)
    with _tried(f"value of {what}") as which:
        _number(which, term.value(centre))
    with _tried(f"gradient of {what}") as which:
        _numbers(which, term.gradient(centre), centre.shape)
    with _tried(f"precision of {what}") as which:
        if _numbers(which, term.precision(), centre.shape).min(initial=0.0) < 0.0:
            raise SettingError(f"{which} is negative: a curvature is 0 or more")
    with _tried(f"the kink of {what}") as which:
        if term.has_kink:
            _numbers(which, term.kink_gradient(centre), centre.shape)
            _numbers(which, term.prox(centre, np.ones_like(centre)), centre.shape)


def _check_engine(
    engine: Inference, process: Process, X: FloatArray, scales: FloatArray
) -> None:
    what, n, theta = f"inference {_name(engine)}", len(X), process.initial(scales)
    data = Data(X, np.linspace(-1.0, 1.0, n), np.ones(n))
    with _tried(f"bytes_held of {what}") as which:
        _number(which, engine.bytes_held(n, X.shape[1]))
    try:
        with _tried(f"the likelihood of {what}") as which:
            likelihood = engine.bind(process, data)
            found = likelihood(theta)
            _number(which, found.nll)
            _numbers(f"the gradient of {what}", found.gradient, theta.shape)
            if EVERY_STEP in engine.provides:
                _numbers(f"loo_residual of {what}", found.loo_residual, (n,))
                _numbers(f"loo_variance of {what}", found.loo_variance, (n,))
        with _tried(f"the posterior of {what}") as which:
            mean, variance = likelihood.posterior(theta).mean_and_variance(X)
            _numbers(which, mean, (n,))
            _numbers(which, variance, (n,))
    except NotPositiveDefiniteError:
        return  # these few rows; the training tries others
