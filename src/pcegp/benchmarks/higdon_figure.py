"""The demo's figure: predictions with 95 % bands, and the local scale."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pcegp.benchmarks import higdon
from pcegp.benchmarks.higdon import Result
from pcegp.errors import ExtrapolationWarning
from pcegp.estimators.regressor import PCEGPRegressor

FloatArray = NDArray[np.float64]

_BLUE, _ORANGE, _GREY = "#1f5fa8", "#d9730d", "#8a8a8a"
_DEFAULT, _PAPER_GP, _RESTARTS = 0, 3, 4  # positions in higdon.models()


def draw(results: dict[int, list[Result]], path: Path) -> None:
    """Save the figure of both toy examples."""
    figure = Figure(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(2, 3)
    for ax, position in zip(axes[0, :2], (_DEFAULT, _PAPER_GP), strict=True):
        _prediction(ax, results[1][position])
    _scale_1d(axes[0, 2], results[1][_DEFAULT])
    for ax, position in zip(axes[1, :2], (_DEFAULT, _RESTARTS), strict=True):
        _error_map(ax, results[2][position])
    _scale_2d(axes[1, 2], results[2][_DEFAULT])
    figure.savefig(path, dpi=110, format="png")


def _prediction(ax: Axes, result: Result) -> None:
    X, X_test = higdon.data(1)
    mean, std = result.model.predict(X_test, return_std=True)
    x = X_test[:, 0]
    ax.fill_between(x, mean - 1.96 * std, mean + 1.96 * std, color=_BLUE, alpha=0.2, lw=0,
                    label="95 % band")
    ax.plot(x, mean, color=_BLUE, label="prediction")
    ax.plot(x, higdon.higdon(X_test), color=_GREY, ls="--", lw=1, label="truth")
    ax.plot(X[:, 0], higdon.higdon(X), "k.", ms=5, label="data")
    ax.set(title=f"{result.name}\nRMSE {result.scores['RMSE']:.3f}", xlabel="x", ylabel="y",
           ylim=(-3.2, 3.2))
    ax.legend(fontsize=8, loc="upper right")


def _mean_scale(model: PCEGPRegressor, X: FloatArray) -> FloatArray:
    """Local scale (F, m), averaged over covariance functions by their variances."""
    variances = np.exp(model.posteriors_[0].parameters.log_variances)
    return np.asarray(np.average(np.abs(model.local_scale(X)), axis=0, weights=variances))


def _scale_1d(ax: Axes, result: Result) -> None:
    _, X_test = higdon.data(1)
    scale = _mean_scale(result.model, X_test)[0]
    ax.plot(X_test[:, 0], scale, color=_ORANGE)
    ax.set(title="Local scale l(x)\nlarge = fast variation", xlabel="x", ylabel="l(x)",
           ylim=(0, 1.1 * scale.max()))


def _grid() -> tuple[FloatArray, FloatArray]:
    axis = np.linspace(0, 1, 60)
    x1, x2 = np.meshgrid(axis, axis)
    return axis, np.column_stack([x1.ravel(), x2.ravel()])


def _error_map(ax: Axes, result: Result) -> None:
    axis, X = _grid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        error = np.abs(result.model.predict(X) - higdon.higdon(X)).reshape(60, 60)
    mesh = ax.pcolormesh(axis, axis, error, cmap="magma_r", vmin=0, vmax=0.6)
    train, _ = higdon.data(2)
    ax.plot(train[:, 0], train[:, 1], "k.", ms=2)
    ax.set(title=f"{result.name}\nabsolute error, RMSE {result.scores['RMSE']:.3f}",
           xlabel="$x_1$", ylabel="$x_2$")
    ax.figure.colorbar(mesh, ax=ax)


def _scale_2d(ax: Axes, result: Result) -> None:
    axis = np.linspace(0, 1, 200)
    X = np.column_stack([axis, np.full_like(axis, 0.5)])
    fields = _mean_scale(result.model, X)
    for field, name, colour in zip(fields, ("$x_1$", "$x_2$"), (_ORANGE, _BLUE), strict=True):
        ax.plot(axis, field, color=colour, label=f"scale of {name}")
    ax.set(title="Local scale along $x_1$\n($x_2$ = 0.5)", xlabel="$x_1$", ylabel="l(x)",
           ylim=(0, 1.1 * fields.max()))
    ax.legend(fontsize=8)
