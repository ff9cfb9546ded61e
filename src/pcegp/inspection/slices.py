"""Predictions and scales along the inputs, for pictures and reports.

Everything here is numbers in the user's units; `plots` draws them with matplotlib and
`report_figures` with plotly.
"""

from typing import NamedTuple

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import SettingError
from pcegp.estimators import FittedModel, Output
from pcegp.inspection.nonstationarity import function_weights, relevance


class Slice(NamedTuple):
    """The model along one feature, the others at their medians."""

    name: str
    x: FloatArray  # (m,)
    mean: FloatArray  # (m,)
    std: FloatArray  # (m,) with noise
    noise: FloatArray  # (m,) standard deviation of the noise
    scale: FloatArray  # (m,) local scale of this feature, averaged over covariance functions


class Surface(NamedTuple):
    """The model over two features, the others at their medians."""

    names: tuple[str, str]
    x: FloatArray  # (m,)
    y: FloatArray  # (m,)
    mean: FloatArray  # (m, m), rows by y
    std: FloatArray  # (m, m), with noise
    noise: FloatArray  # (m, m) standard deviation of the noise
    speed: FloatArray  # (m, m) how fast the function varies, see `Explanation.speed`


def slice_along(
    fitted: FittedModel, out: Output, feature: str | int, n_points: int = 100
) -> Slice:
    """Predict along one feature."""
    i = feature_number(fitted, feature)
    Z = _grid(fitted, out, [i], n_points)
    scale = out.base.local_scale(Z)
    return Slice(
        fitted.varying_names[i], varying_columns(fitted, fitted.inputs.inverse(Z))[:, i],
        *_predictions(out, Z),
        scale=function_weights(out.base) @ scale[:, i if scale.shape[1] > 1 else 0],
    )


def surface_over(
    fitted: FittedModel, out: Output, features: tuple[str | int, str | int], n_points: int = 40
) -> Surface:
    """Predict over two features."""
    i, j = (feature_number(fitted, feature) for feature in features)
    if i == j:
        raise SettingError(f"a surface needs two different features, not {features[0]!r} twice")
    Z = _grid(fitted, out, [i, j], n_points)
    X, names = varying_columns(fitted, fitted.inputs.inverse(Z)), fitted.varying_names
    speed = np.linalg.norm(relevance(out.base, Z), axis=1)
    grids = [values.reshape(n_points, n_points).T for values in (*_predictions(out, Z), speed)]
    return Surface((names[i], names[j]), X[::n_points, i], X[:n_points, j], *grids)


def feature_number(fitted: FittedModel, feature: str | int) -> int:
    """Find a feature among those that vary, by its name or its number among them."""
    names = fitted.varying_names
    if isinstance(feature, str):
        if feature not in names:
            raise SettingError(f"feature {feature!r} is unknown: choose from {', '.join(names)}")
        return names.index(feature)
    if not 0 <= feature < len(names):
        raise SettingError(f"feature {feature} does not exist: there are {len(names)}, from 0 on")
    return int(feature)


def varying_columns(fitted: FittedModel, X: FloatArray) -> FloatArray:
    """Select the columns of X (m, D) that vary in training; one where none does."""
    return X[:, fitted.inputs.active] if fitted.inputs.active.any() else X[:, :1]


def _grid(fitted: FittedModel, out: Output, features: list[int], n: int) -> FloatArray:
    """Make scaled rows over the range of some features, the others at their medians."""
    lower, upper = fitted.inputs.lower, fitted.inputs.upper
    axes = [np.linspace(lower[i], upper[i], n) for i in features]
    mesh = np.meshgrid(*axes, indexing="ij")
    Z = np.tile(np.median(out.base.data.X, axis=0), (mesh[0].size, 1))
    for i, values in zip(features, mesh, strict=True):
        Z[:, i] = values.ravel()
    return Z


def _predictions(out: Output, Z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Predict mean, deviation and that of the noise alone, (m,) each, at scaled rows."""
    mean, variance = out.posterior.mean_and_variance(Z)
    noise = out.posterior.noise_variance(Z)
    return (out.target.mean(mean), out.target.deviation(np.sqrt(variance)),
            out.target.deviation(np.sqrt(noise)))
