"""The report's pictures, as plain data for plotly: {"data": [...], "layout": {...}}.

Names of the user's columns are escaped, because plotly reads markup in its labels.
"""

from html import escape
from math import isfinite
from typing import Any

import numpy as np

from pcegp._typing import FloatArray, IntArray
from pcegp.errors import shown
from pcegp.estimators import FittedModel, Output
from pcegp.inspection.diagnostics import Diagnostics
from pcegp.inspection.explanation import Explanation
from pcegp.inspection.nonstationarity import relevance
from pcegp.inspection.plots import BLUE, GREY, ORANGE
from pcegp.inspection.slices import Slice, varying_columns

Figure = dict[str, Any]

_PALETTE = (BLUE, ORANGE, "#2e8b57", "#b03a3a", "#8a5fb0", "#7a6a55", "#c2557f", "#5a5a5a",
            "#b5a52a", "#2aa5b5")
_MOST_POINTS = 2000


def _label(text: str) -> str:
    """Make a text of the user's safe to show; plotly reads markup."""
    return escape(shown(text, len(text)))


def _numbers(values: FloatArray) -> list[float | None]:
    """Round to six significant digits: enough for a picture, and the file stays small.

    JSON has no NaN; plotly leaves a gap at null.
    """
    return [float(f"{value:.6g}") if isfinite(value) else None for value in values]


def _figure(data: list[dict[str, Any]], x: str, y: str, **layout: Any) -> Figure:
    return {
        "data": data,
        "layout": {
            "xaxis": {"title": {"text": _label(x)}, "automargin": True},
            "yaxis": {"title": {"text": _label(y)}, "automargin": True},
            "margin": {"l": 50, "r": 15, "t": 32, "b": 45}, "height": 320,
            "showlegend": False, "hovermode": "closest", **layout,
        },
    }


def _line(x: FloatArray, y: FloatArray, colour: str = BLUE, **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "x": _numbers(x), "y": _numbers(y),
            "line": {"color": colour}, **more}


def _dots(x: FloatArray, y: FloatArray, text: list[str] | None = None) -> dict[str, Any]:
    return {"type": "scatter", "mode": "markers", "x": _numbers(x), "y": _numbers(y),
            "marker": {"color": BLUE, "size": 5, "opacity": 0.7},
            **({} if text is None else {"text": text})}


def shares(explanation: Explanation) -> Figure:
    """Draw bars with their spread, the largest on top."""
    order = np.argsort(explanation.shares, kind="stable")
    bar: dict[str, Any] = {
        "type": "bar", "orientation": "h", "marker": {"color": ORANGE},
        "y": [_label(explanation.names[i]) for i in order],
        "x": _numbers(explanation.shares[order]),
    }
    if explanation.share_spread is not None:
        bar["error_x"] = {"type": "data", "array": _numbers(explanation.share_spread[order])}
    figure = _figure([bar], "share of the variation of the local scale", "",
                     height=120 + 28 * len(order))
    figure["layout"]["xaxis"]["rangemode"] = "tozero"  # also where all shares are 0
    return figure


def prediction_along(along: Slice, target: str) -> Figure:
    """Draw mean and 95 % band."""
    lower, upper = along.mean - 1.96 * along.std, along.mean + 1.96 * along.std
    hidden = {"line": {"width": 0}, "hoverinfo": "skip"}
    return _figure(
        [_line(along.x, lower) | hidden,
         _line(along.x, upper) | hidden | {"fill": "tonexty", "fillcolor": "rgba(31,95,168,0.2)"},
         _line(along.x, along.mean)],
        along.name, target,
    )


def lines_along(slices: list[Slice], what: str, label: str) -> Figure:
    """Draw the scale or the noise along every input's training range, from 0 to 1."""
    data = [
        _line(np.linspace(0, 1, len(along.x)), getattr(along, what), _PALETTE[k % len(_PALETTE)],
              name=_label(along.name))
        for k, along in enumerate(slices)
    ]
    return _figure(data, "position in the training range", label, showlegend=True, height=380,
                   legend={"orientation": "h", "y": -0.25})


def observed(diagnostics: Diagnostics, rows: IntArray, target: str) -> Figure:
    """Draw the leave-one-out prediction against the observed value."""
    y, mean = diagnostics.y[rows], diagnostics.mean[rows]
    ends = np.array([min(y.min(), mean.min()), max(y.max(), mean.max())])
    return _figure([_line(ends, ends, GREY), _dots(y, mean, [f"row {i}" for i in rows])],
                   f"observed {target}", "predicted from the other rows")


def residuals(diagnostics: Diagnostics, rows: IntArray) -> Figure:
    """Draw standardised residuals against the prediction."""
    labels = [f"row {i}" for i in rows]
    return _figure([_dots(diagnostics.mean[rows], diagnostics.standardised[rows], labels)],
                   "prediction", "residual / deviation")


def qq(diagnostics: Diagnostics, rows: IntArray) -> Figure:
    """Draw sorted standardised residuals against normal quantiles, thinned."""
    keep = np.linspace(0, len(diagnostics.y) - 1, len(rows)).astype(int)
    quantiles = diagnostics.normal_quantiles[keep]
    return _figure([_line(quantiles, quantiles, GREY),
                    _dots(quantiles, np.sort(diagnostics.standardised)[keep])],
                   "normal quantile", "standardised residual")


def pit(diagnostics: Diagnostics) -> Figure:
    """Draw a histogram of the probability integral transform."""
    counts, edges = np.histogram(diagnostics.pit, bins=10, range=(0, 1))
    bars = {"type": "bar", "x": _numbers(edges[:-1] + 0.05), "y": counts.tolist(), "width": 0.095,
            "marker": {"color": BLUE}}
    level = np.full(2, len(diagnostics.y) / 10)
    return _figure([bars, _line(np.array([0.0, 1.0]), level, GREY)],
                   "probability of a smaller value", "targets")


def calibration(diagnostics: Diagnostics) -> Figure:
    """Draw the share of targets inside intervals against their level."""
    levels = tuple(np.linspace(0.05, 0.99, 48))
    inside = np.array(list(diagnostics.coverage(levels).values()))
    ends = np.array([0.0, 1.0])
    return _figure([_line(ends, ends, GREY), _line(np.array(levels), inside)],
                   "nominal level", "share inside")


def history(by_step: dict[str, FloatArray]) -> Figure:
    """Draw leave-one-out scores over the training steps."""
    steps = np.arange(len(by_step["loo_rmse"]), dtype=float)
    return _figure(
        [_line(steps, by_step["loo_rmse"], name="RMSE"),
         _line(steps, by_step["loo_nll"], ORANGE, name="NLL", yaxis="y2")],
        "step", "RMSE", showlegend=True, legend={"orientation": "h", "y": -0.25},
        yaxis2={"overlaying": "y", "side": "right", "title": {"text": "NLL"}},
        margin={"l": 50, "r": 60, "t": 32, "b": 45},
    )


def fast_regions(
    fitted: FittedModel, out: Output, explanation: Explanation, rows: IntArray
) -> Figure:
    """Draw training rows over the two features that matter most, coloured by how fast it varies."""
    matters = relevance(out.base, out.base.data.X[rows])
    speed = np.linalg.norm(matters, axis=1)
    first, *rest = np.argsort(-matters.mean(axis=0), kind="stable")
    X = varying_columns(fitted, fitted.training_inputs()[rows])
    y, label = (X[:, rest[0]], explanation.names[rest[0]]) if rest else (speed, "relevance")
    dots = _dots(X[:, first], y)
    dots["marker"] = {"color": _numbers(speed), "colorscale": "Viridis", "size": 6,
                      "colorbar": {"title": {"text": "varies"}, "thickness": 12}}
    return _figure([dots], explanation.names[first], label)


def sampled_rows(n: int) -> IntArray:
    """Choose the rows that are shown: all, or some two thousand of them."""
    if n <= _MOST_POINTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _MOST_POINTS, replace=False))
