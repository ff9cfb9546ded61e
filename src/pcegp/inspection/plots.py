"""Pictures of a fitted model with matplotlib; each function takes and returns an Axes.

    from pcegp import explain
    from pcegp.inspection import plots
    plots.shares(explain(model)).figure.savefig("shares.png")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from pcegp.errors import SettingError, needed, unknown_name
from pcegp.estimators import PCEGPRegressor, fitted_output
from pcegp.inspection import slices
from pcegp.inspection.diagnostics import Diagnostics
from pcegp.inspection.explanation import Explanation
from pcegp.kernels import COVARIANCES, TRANSFORMS
from pcegp.polynomials import FAMILIES, Polynomials
from pcegp.preprocessing import validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREY = "#1f5fa8", "#d9730d", "#8a8a8a"
_MOST_BARS = 20
_SURFACES = ("mean", "std", "noise", "speed")


def new_axes(ax: Axes | None) -> Axes:
    """Take the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    axes: Axes = needed("matplotlib.pyplot", "a picture", "plot").subplots(layout="constrained")[1]
    return axes


def plain_text(name: str) -> str:
    """Write a name so that matplotlib takes no part of it for a formula."""
    return name.replace("$", r"\$")


def prediction(
    model: PCEGPRegressor, ax: Axes | None = None, coverage: float = 0.95, output: int = 0
) -> Axes:
    """Draw data, mean and band of a model with one feature."""
    fitted, _ = fitted_output(model, output, "plots.prediction")
    if (n_features := len(fitted.varying_names)) > 1:
        raise SettingError(
            f"plots.prediction shows one feature, this model has {n_features}: use plots.slice or "
            "plots.surface"
        )
    ax = slice(model, 0, ax, coverage, output)
    x = slices.varying_columns(fitted, fitted.training_inputs())[:, 0]
    ax.plot(x, fitted.training_target(output), "k.", ms=4, label="data")
    ax.legend()
    return ax


def slice(
    model: PCEGPRegressor, feature: str | int, ax: Axes | None = None, coverage: float = 0.95,
    output: int = 0,
) -> Axes:
    """Draw mean and band along one feature, the others at their medians."""
    if not 0.0 < coverage < 1.0:
        raise SettingError(f"coverage={coverage!r} must lie between 0 and 1")
    fitted, out = fitted_output(model, output, "plots.slice")
    along, ax = slices.slice_along(fitted, out, feature, 200), new_axes(ax)
    band = ndtri(0.5 + coverage / 2) * along.std
    ax.fill_between(along.x, along.mean - band, along.mean + band, color=BLUE, alpha=0.2, lw=0,
                    label=f"{coverage:.0%} band")
    ax.plot(along.x, along.mean, color=BLUE, label="prediction")
    ax.set(xlabel=plain_text(along.name), ylabel="target")
    ax.legend()
    return ax


def surface(
    model: PCEGPRegressor, features: tuple[str | int, str | int] = (0, 1),
    ax: Axes | None = None, show: str = "mean", output: int = 0,
) -> Axes:
    """Draw contours over two features, the others at their medians.

    `show` is "mean", "std", "noise" (its standard deviation) or "speed" (how fast the model
    believes the function to vary).
    """
    if show not in _SURFACES:
        raise unknown_name("show", show, _SURFACES)
    fitted, out = fitted_output(model, output, "plots.surface")
    over, ax = slices.surface_over(fitted, out, features), new_axes(ax)
    filled = ax.contourf(over.x, over.y, getattr(over, show), levels=20, cmap="viridis")
    ax.figure.colorbar(filled, ax=ax, label=show)
    X = slices.varying_columns(fitted, fitted.training_inputs())
    i, j = (slices.feature_number(fitted, feature) for feature in features)
    ax.plot(X[:, i], X[:, j], "k.", ms=2, alpha=0.4)
    ax.set(xlabel=plain_text(over.names[0]), ylabel=plain_text(over.names[1]))
    return ax


def scale_along(
    model: PCEGPRegressor, features: Sequence[str | int] | None = None, ax: Axes | None = None,
    output: int = 0,
) -> Axes:
    """Draw the local scale along each feature's training range, the others at their medians."""
    fitted, out = fitted_output(model, output, "plots.scale_along")
    ax = new_axes(ax)
    for feature in range(len(fitted.varying_names)) if features is None else features:
        along = slices.slice_along(fitted, out, feature, 100)
        ax.plot(np.linspace(0, 1, 100), along.scale, label=plain_text(along.name))
    ax.set(xlabel="position in the feature's training range", ylabel="local scale")
    ax.legend(fontsize=8)
    return ax


def shares(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Draw the share of each feature in the variation of the local scale, with its spread."""
    ax = new_axes(ax)
    order = np.argsort(-explanation.shares, kind="stable")[:_MOST_BARS][::-1]
    spread = None if explanation.share_spread is None else explanation.share_spread[order]
    ax.barh([plain_text(explanation.names[i]) for i in order], explanation.shares[order],
            xerr=spread, color=ORANGE, ecolor=GREY)
    left_out = len(explanation.names) - len(order)
    ax.set(xlabel="share of the variation of the local scale", xlim=(0, 1.05),
           title=f"{left_out} smaller shares are not shown" if left_out else "")
    return ax


def residuals(diagnostics: Diagnostics, ax: Axes | None = None) -> Axes:
    """Draw standardised leave-one-out residuals against the prediction."""
    ax = new_axes(ax)
    ax.axhspan(-1.96, 1.96, color=BLUE, alpha=0.1, lw=0)
    ax.axhline(0, color=GREY, lw=1)
    ax.plot(diagnostics.mean, diagnostics.standardised, ".", color=BLUE)
    ax.set(xlabel="leave-one-out prediction", ylabel="residual / predicted deviation")
    return ax


def qq(diagnostics: Diagnostics, ax: Axes | None = None) -> Axes:
    """Draw sorted standardised residuals against normal quantiles."""
    ax, quantiles = new_axes(ax), diagnostics.normal_quantiles
    ax.plot(quantiles, quantiles, color=GREY, lw=1)
    ax.plot(quantiles, np.sort(diagnostics.standardised), ".", color=BLUE)
    ax.set(xlabel="normal quantile", ylabel="standardised residual")
    return ax


def pit(diagnostics: Diagnostics, ax: Axes | None = None, bins: int = 10) -> Axes:
    """Draw the probability integral transform: its histogram is flat if the model is right."""
    ax = new_axes(ax)
    ax.hist(diagnostics.pit, bins=bins, range=(0, 1), color=BLUE, edgecolor="white")
    ax.axhline(len(diagnostics.y) / bins, color=GREY, lw=1)
    ax.set(xlabel="probability of a smaller value", ylabel="targets")
    return ax


def calibration(diagnostics: Diagnostics, ax: Axes | None = None) -> Axes:
    """Draw the share of targets inside intervals against their nominal level."""
    ax, levels = new_axes(ax), tuple(np.linspace(0.05, 0.99, 48))
    ax.plot([0, 1], [0, 1], color=GREY, lw=1)
    ax.plot(levels, list(diagnostics.coverage(levels).values()), color=BLUE)
    ax.set(xlabel="nominal level", ylabel="share inside", xlim=(0, 1), ylim=(0, 1))
    return ax


def history(model: PCEGPRegressor, ax: Axes | None = None, output: int = 0) -> Axes:
    """Draw leave-one-out RMSE and NLL over the training steps."""
    _, out = fitted_output(model, output, "plots.history")
    ax = new_axes(ax)
    ax.plot(out.history["loo_rmse"], color=BLUE, label="RMSE")
    ax.set(xlabel="step", ylabel="leave-one-out RMSE")
    twin = ax.twinx()
    twin.plot(out.history["loo_nll"], color=ORANGE, label="NLL")
    twin.set_ylabel("leave-one-out NLL")
    ax.legend(handles=[*ax.lines, *twin.lines])
    return ax


def bases(name: str = "legendre", degree: int = 5, ax: Axes | None = None) -> Axes:
    """Draw the orthonormal polynomials of a family (paper, its figure of the four bases)."""
    ax = new_axes(ax)
    (family,) = validation.check_parts("basis", name, FAMILIES, Polynomials)
    low, high = family.support
    x = np.linspace(max(low, -3.0), min(high, 6.0 if low == 0.0 else 3.0), 300)
    inside = np.clip(x, low + 1e-9 * np.isfinite(low), high)
    for k, values in enumerate(family.values(inside, degree).T):
        ax.plot(x, values, label=f"degree {k}")
    ax.set(title=name, xlabel="x")
    ax.legend(fontsize=8)
    return ax


def transformations(ax: Axes | None = None) -> Axes:
    """Draw the transforms of a field (paper, its figure of the transforms)."""
    ax, u = new_axes(ax), np.linspace(-3, 3, 200)
    for name, transform in TRANSFORMS.items():
        ax.plot(u, transform.value(u), label=name)
    ax.set(xlabel="u", ylabel="T(u)", ylim=(-3.2, 8))
    ax.legend()
    return ax


def prior_draws(
    covariance: str = "squared_exponential", stationary: bool = False, n_draws: int = 3,
    ax: Axes | None = None, random_state: int = 0,
) -> Axes:
    """Draw functions of a process before data; non-stationary, the scale grows from 2 to 30."""
    ax, x = new_axes(ax), np.linspace(0, 1, 300)
    function = validation.check_choice("covariance", covariance, COVARIANCES)
    warped = (10.0 if stationary else 2.0 + 28.0 * x) * x
    correlation, *_ = function.evaluate(np.subtract.outer(warped, warped) ** 2)
    # By eigenvalues: the correlation is singular to rounding.
    draws = np.random.default_rng(random_state).multivariate_normal(
        np.zeros(300), correlation, n_draws, method="eigh"
    )
    ax.plot(x, draws.T, lw=1)
    kind = "stationary" if stationary else "non-stationary"
    ax.set(title=f"{covariance}, {kind}", xlabel="x")
    return ax
