"""`report(model, path)`: one HTML file that explains a fitted model and opens from disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp import __version__
from pcegp.errors import SettingError
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inspection import report_figures
from pcegp.inspection import slices as views
from pcegp.inspection.diagnostics import Diagnostics, diagnose
from pcegp.inspection.explanation import Explanation, explain, names_of, posterior_of
from pcegp.io.files import check_writable, write_text

FloatArray = NDArray[np.float64]

_MOST_FORMULAS = 12
_MOST_INPUTS = 20


def report(
    model: PCEGPRegressor,
    path: str | Path,
    *,
    title: str = "PCEGP report",
    target: str = "target",
    n_refits: int = 8,
    output: int = 0,
) -> Path:
    """Write a self-contained HTML report on a fitted model.

    Parameters
    ----------
    model : fitted PCEGPRegressor with at most 20 features that vary
    path : str or Path
        The file; it is written whole or not at all.
    title, target : str
        Headline, and what the target is called.
    n_refits : int
        Short refits for the spread of the shares; 0 for none.
    output : int
        Which output, where the model has several.

    Returns
    -------
    path : Path
    """
    plotly, environment = _tools()
    path = Path(path)
    posterior_of(model, output)
    check_writable(path)
    if (n_features := len(names_of(model))) > _MOST_INPUTS:
        raise SettingError(
            f"a report shows at most {_MOST_INPUTS} features, this model has {n_features}: use "
            "explain and plots"
        )
    explanation = explain(model, n_refits=n_refits, output=output)
    diagnostics = diagnose(model, output)
    html = environment.from_string(_template()).render(
        title=title, target=target, version=__version__, plotly=plotly,
        figures=_script_json(_figures(model, explanation, diagnostics, target, output)),
        explanation=explanation, summary=_summary(model, diagnostics, output),
        names=explanation.names, order=np.argsort(-explanation.shares, kind="stable").tolist(),
        scores=diagnostics.scores(), coverage=diagnostics.coverage(),
        worst=_worst(diagnostics), fields=_largest_fields(explanation),
        settings=_settings(model), fit=_fit(model),
    )
    write_text(path, html)
    return path


def _tools() -> tuple[str, Any]:
    """plotly's code and a template environment that escapes everything."""
    try:
        import jinja2
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise SettingError(
            f"a report needs {error.name}: pip install 'pcegp[report]'"
        ) from None
    return get_plotlyjs(), jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)


def _template() -> str:
    return (Path(__file__).parent / "report_page.html.j2").read_text(encoding="utf-8")


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _figures(
    model: PCEGPRegressor, explanation: Explanation, diagnostics: Diagnostics, target: str,
    output: int,
) -> dict[str, Any]:
    rows = report_figures.sampled_rows(len(diagnostics.y))
    slices = [views.slice_along(model, i, 80, output) for i in range(len(explanation.names))]
    return {
        "shares": report_figures.shares(explanation),
        "scale": report_figures.lines_along(slices, "scale", "local scale"),
        "fast": report_figures.fast_regions(model, explanation, rows, output),
        "noise": report_figures.lines_along(slices, "noise", "noise deviation"),
        "observed": report_figures.observed(diagnostics, rows, target),
        "residuals": report_figures.residuals(diagnostics, rows),
        "qq": report_figures.qq(diagnostics, rows),
        "pit": report_figures.pit(diagnostics),
        "calibration": report_figures.calibration(diagnostics),
        "history": report_figures.history(views.history_of(model, output)),
        **{f"slice{i}": report_figures.prediction_along(along, target)
           for i, along in enumerate(slices)},
    }


def _summary(
    model: PCEGPRegressor, diagnostics: Diagnostics, output: int
) -> list[tuple[str, float, float, float]]:
    """Name, smallest, median and largest value of every feature and of the target."""
    X = views.training_inputs(model, output)
    active = np.flatnonzero(model.active_columns_)
    columns = [(name, X[:, j]) for name, j in zip(names_of(model), active, strict=False)]
    columns.append(("target", diagnostics.y))
    return [(name, float(v.min()), float(np.median(v)), float(v.max())) for name, v in columns]


def _worst(diagnostics: Diagnostics) -> list[dict[str, float]]:
    return [
        {"row": int(i), "y": float(diagnostics.y[i]), "mean": float(diagnostics.mean[i]),
         "z": float(diagnostics.standardised[i])}
        for i in diagnostics.worst(8)
    ]


def _largest_fields(explanation: Explanation) -> list[Any]:
    """The fields that vary most, each covariance function by its variance."""
    return sorted(
        explanation.fields, key=lambda part: -part.variance_share * part.sobol.variance
    )[:_MOST_FORMULAS]


def _settings(model: PCEGPRegressor) -> dict[str, str]:
    return {name: str(value) for name, value in model.get_params(deep=False).items()}


def _fit(model: PCEGPRegressor) -> dict[str, str]:
    info = model.fit_info_ if isinstance(model.fit_info_, dict) else model.fit_info_[0]
    return {"steps": str(model.n_iter_), **{name: str(value) for name, value in info.items()}}
