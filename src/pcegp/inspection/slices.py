"""What pictures and reports show: predictions and scales along the inputs.

Everything here is numbers in the user's units; `plots` draws them with matplotlib and
`report` with plotly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import SettingError
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inspection.explanation import names_of, posterior_of
from pcegp.inspection.nonstationarity import relevance

FloatArray = NDArray[np.float64]


class Slice(NamedTuple):
    """The model along one feature, the others at their medians."""

    name: str
    x: FloatArray  # (m,)
    mean: FloatArray  # (m,)
    std: FloatArray  # (m,) with noise
    scale: FloatArray  # (m,) local scale of this feature, averaged over covariance functions
    noise: FloatArray  # (m,) standard deviation of the noise


class Surface(NamedTuple):
    """The model over two features, the others at their medians."""

    names: tuple[str, str]
    x: FloatArray  # (m,)
    y: FloatArray  # (m,)
    mean: FloatArray  # (m, m), rows by y
    std: FloatArray  # (m, m), with noise
    noise: FloatArray  # (m, m) standard deviation of the noise
    speed: FloatArray  # (m, m) how fast the function varies, see `Explanation.speed`


def training_inputs(model: PCEGPRegressor, output: int = 0) -> FloatArray:
    """Training columns (n, D) in their own units, without rows of zero weight."""
    return model._inputs.inverse(posterior_of(model, output).X)


def feature_number(model: PCEGPRegressor, feature: str | int) -> int:
    """Position of a feature among those that vary, by its name or that position."""
    names = names_of(model)
    if isinstance(feature, str):
        if feature not in names:
            raise SettingError(f"feature {feature!r} is unknown: choose from {', '.join(names)}")
        return names.index(feature)
    if not 0 <= feature < len(names):
        raise SettingError(f"feature {feature} does not exist: there are {len(names)}, from 0 on")
    return int(feature)


def _grid(model: PCEGPRegressor, features: list[int], n: int, output: int) -> FloatArray:
    """Scaled rows over the training range of some features, the others at their medians."""
    posterior = posterior_of(model, output)
    axes = [np.linspace(model._inputs.lower[i], model._inputs.upper[i], n) for i in features]
    mesh = np.meshgrid(*axes, indexing="ij")
    Z = np.tile(np.median(posterior.X, axis=0), (mesh[0].size, 1))
    for i, values in zip(features, mesh, strict=True):
        Z[:, i] = values.ravel()
    return Z


def slice_along(
    model: PCEGPRegressor, feature: str | int, n_points: int = 100, output: int = 0
) -> Slice:
    """The model along one feature."""
    i = feature_number(model, feature)
    posterior, scaler = posterior_of(model, output), model._targets[output]
    Z = _grid(model, [i], n_points, output)
    mean, variance = posterior.mean_and_variance(Z)
    scale = posterior.local_scale(Z)
    variances = np.exp(posterior.parameters.log_variances)
    field = scale[:, i if scale.shape[1] > 1 else 0]
    column = int(np.flatnonzero(model.active_columns_)[i]) if model.active_columns_.any() else 0
    return Slice(
        name=names_of(model)[i],
        x=model._inputs.inverse(Z)[:, column],
        mean=scaler.mean(mean),
        std=scaler.deviation(np.sqrt(variance)),
        scale=np.asarray(variances @ field / variances.sum()),
        noise=scaler.deviation(np.sqrt(posterior.noise_variance(Z))),
    )


def surface_over(
    model: PCEGPRegressor, features: tuple[str | int, str | int], n_points: int = 40,
    output: int = 0,
) -> Surface:
    """The model over two features."""
    i, j = (feature_number(model, feature) for feature in features)
    if i == j:
        raise SettingError(f"a surface needs two different features, not {features[0]!r} twice")
    Z = _grid(model, [i, j], n_points, output)
    posterior, scaler = posterior_of(model, output), model._targets[output]
    mean, variance = posterior.mean_and_variance(Z)
    X = model._inputs.inverse(Z)[:, np.flatnonzero(model.active_columns_)]
    names = names_of(model)

    def by_row(values: FloatArray) -> FloatArray:
        return values.reshape(n_points, n_points).T

    return Surface(
        names=(names[i], names[j]),
        x=X[:: n_points, i],
        y=X[:n_points, j],
        mean=by_row(scaler.mean(mean)),
        std=by_row(scaler.deviation(np.sqrt(variance))),
        noise=by_row(scaler.deviation(np.sqrt(posterior.noise_variance(Z)))),
        speed=by_row(np.linalg.norm(relevance(posterior, Z), axis=1)),
    )


def history_of(model: PCEGPRegressor, output: int = 0) -> dict[str, FloatArray]:
    """Training history of one output."""
    posterior_of(model, output)
    histories = [model.history_] if isinstance(model.history_, dict) else model.history_
    return dict(histories[output])
