"""The report's pictures, as plain data for plotly: {"data": [...], "layout": {...}}.

Names of the user's columns are escaped, because plotly reads markup in its labels.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inspection import nonstationarity
from pcegp.inspection import slices as views
from pcegp.inspection.diagnostics import Diagnostics
from pcegp.inspection.explanation import Explanation, posterior_of

FloatArray = NDArray[np.float64]
Figure = dict[str, Any]

_BLUE, _ORANGE, _GREY = "#1f5fa8", "#d9730d", "#8a8a8a"
_MOST_POINTS = 2000


def _numbers(values: FloatArray) -> list[float]:
    """Six significant digits are enough for a picture and keep the file small."""
    return [float(f"{value:.6g}") for value in values]


def _figure(data: list[dict[str, Any]], x: str, y: str, **layout: Any) -> Figure:
    return {
        "data": data,
        "layout": {
            "xaxis": {"title": {"text": escape(x)}, "automargin": True},
            "yaxis": {"title": {"text": escape(y)}, "automargin": True},
            "margin": {"l": 50, "r": 15, "t": 32, "b": 45}, "height": 320,
            "showlegend": False, "hovermode": "closest", **layout,
        },
    }


def _line(x: FloatArray, y: FloatArray, colour: str = _BLUE, **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "x": _numbers(x), "y": _numbers(y),
            "line": {"color": colour}, **more}


def _dots(x: FloatArray, y: FloatArray, text: list[str] | None = None) -> dict[str, Any]:
    return {"type": "scatter", "mode": "markers", "x": _numbers(x), "y": _numbers(y),
            "marker": {"color": _BLUE, "size": 5, "opacity": 0.7},
            **({} if text is None else {"text": text})}


def shares(explanation: Explanation) -> Figure:
    """Bars with their spread, the largest on top."""
    order = np.argsort(explanation.shares, kind="stable")
    bar: dict[str, Any] = {
        "type": "bar", "orientation": "h", "marker": {"color": _ORANGE},
        "y": [escape(explanation.names[i]) for i in order],
        "x": _numbers(explanation.shares[order]),
    }
    if explanation.share_spread is not None:
        bar["error_x"] = {"type": "data", "array": _numbers(explanation.share_spread[order])}
    return _figure([bar], "share of the variation of the local scale", "",
                   height=120 + 28 * len(order))


def prediction_along(along: views.Slice, target: str) -> Figure:
    """Mean and 95 % band."""
    lower, upper = along.mean - 1.96 * along.std, along.mean + 1.96 * along.std
    hidden = {"line": {"width": 0}, "hoverinfo": "skip"}
    return _figure(
        [_line(along.x, lower) | hidden,
         _line(along.x, upper) | hidden | {"fill": "tonexty", "fillcolor": "rgba(31,95,168,0.2)"},
         _line(along.x, along.mean)],
        along.name, target,
    )


def lines_along(slices: list[views.Slice], what: str, label: str) -> Figure:
    """The scale or the noise along every input's training range, from 0 to 1."""
    palette = ["#1f5fa8", "#d9730d", "#2e8b57", "#b03a3a", "#8a5fb0", "#7a6a55", "#c2557f",
               "#5a5a5a", "#b5a52a", "#2aa5b5"]
    data = [
        _line(np.linspace(0, 1, len(along.x)), getattr(along, what), palette[k % len(palette)],
              name=escape(along.name))
        for k, along in enumerate(slices)
    ]
    return _figure(data, "position in the training range", label, showlegend=True, height=380,
                   legend={"orientation": "h", "y": -0.25})


def observed(diagnostics: Diagnostics, rows: NDArray[np.intp], target: str) -> Figure:
    """Leave-one-out prediction against the observed value."""
    y, mean = diagnostics.y[rows], diagnostics.mean[rows]
    ends = np.array([min(y.min(), mean.min()), max(y.max(), mean.max())])
    return _figure([_line(ends, ends, _GREY), _dots(y, mean, [f"row {i}" for i in rows])],
                   f"observed {target}", "predicted from the other rows")


def residuals(diagnostics: Diagnostics, rows: NDArray[np.intp]) -> Figure:
    """Standardised residuals against the prediction."""
    labels = [f"row {i}" for i in rows]
    return _figure([_dots(diagnostics.mean[rows], diagnostics.standardised[rows], labels)],
                   "prediction", "residual / deviation")


def qq(diagnostics: Diagnostics, rows: NDArray[np.intp]) -> Figure:
    """Sorted standardised residuals against normal quantiles, thinned."""
    keep = np.linspace(0, len(diagnostics.y) - 1, len(rows)).astype(int)
    quantiles = diagnostics.normal_quantiles[keep]
    return _figure([_line(quantiles, quantiles, _GREY),
                    _dots(quantiles, np.sort(diagnostics.standardised)[keep])],
                   "normal quantile", "standardised residual")


def pit(diagnostics: Diagnostics) -> Figure:
    """Histogram of the probability integral transform."""
    counts, edges = np.histogram(diagnostics.pit, bins=10, range=(0, 1))
    bars = {"type": "bar", "x": _numbers(edges[:-1] + 0.05), "y": counts.tolist(), "width": 0.095,
            "marker": {"color": _BLUE}}
    level = np.full(2, len(diagnostics.y) / 10)
    return _figure([bars, _line(np.array([0.0, 1.0]), level, _GREY)],
                   "probability of a smaller value", "targets")


def calibration(diagnostics: Diagnostics) -> Figure:
    """Share of targets inside intervals against their level."""
    levels = tuple(np.linspace(0.05, 0.99, 48))
    inside = np.array(list(diagnostics.coverage(levels).values()))
    ends = np.array([0.0, 1.0])
    return _figure([_line(ends, ends, _GREY), _line(np.array(levels), inside)],
                   "nominal level", "share inside")


def history(kept: dict[str, FloatArray]) -> Figure:
    """Leave-one-out scores over the training steps."""
    steps = np.arange(len(kept["loo_rmse"]), dtype=float)
    return _figure(
        [_line(steps, kept["loo_rmse"], name="RMSE"),
         _line(steps, kept["loo_nll"], _ORANGE, name="NLL", yaxis="y2")],
        "step", "RMSE", showlegend=True, legend={"orientation": "h", "y": -0.25},
        yaxis2={"overlaying": "y", "side": "right", "title": {"text": "NLL"}},
        margin={"l": 50, "r": 60, "t": 32, "b": 45},
    )


def fast_regions(
    model: PCEGPRegressor, explanation: Explanation, rows: NDArray[np.intp], output: int
) -> Figure:
    """Training rows over the two features that matter most, coloured by how fast it varies."""
    X = views.training_inputs(model, output)[rows]
    posterior = posterior_of(model, output)
    relevance = nonstationarity.relevance(posterior, posterior.X[rows])
    speed = np.linalg.norm(relevance, axis=1)
    first, *rest = np.argsort(-relevance.mean(axis=0), kind="stable")
    columns = X[:, np.flatnonzero(model.active_columns_)] if model.active_columns_.any() else X
    y, label = (columns[:, rest[0]], explanation.names[rest[0]]) if rest else (speed, "relevance")
    dots = _dots(columns[:, first], y)
    dots["marker"] = {"color": _numbers(speed), "colorscale": "Viridis", "size": 6,
                      "colorbar": {"title": {"text": "varies"}, "thickness": 12}}
    return _figure([dots], explanation.names[first], label)


def sampled_rows(n: int) -> NDArray[np.intp]:
    """The rows that are shown: all, or some two thousand of them."""
    if n <= _MOST_POINTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _MOST_POINTS, replace=False))
