"""`report(model, path)`: one HTML file that explains a fitted model and opens from disk."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pcegp import __version__
from pcegp._kinds import Kind
from pcegp._progress import bar
from pcegp.errors import SettingError, needed, shown
from pcegp.estimators import FittedModel, Output, PCEGPRegressor, fitted_output
from pcegp.inspection import report_figures
from pcegp.inspection.diagnostics import Diagnostics, diagnose
from pcegp.inspection.explanation import NEARLY_CONSTANT, Explanation, explain
from pcegp.inspection.slices import slice_along
from pcegp.io import output_path, write_text

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
    explanation: Explanation | None = None,
    verbose: bool = False,
    force: bool = False,
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
    explanation : Explanation, optional
        What `explain` has made of the model already; None makes one, with `n_refits`.
    verbose : bool
        Show progress bars.
    force : bool
        Replace an existing file also if it is no HTML file.

    Returns
    -------
    path : Path
    """
    plotly, environment = _tools()
    target = str(target)
    fitted, out = fitted_output(model, output, "report")
    if not (explanation is None or explanation.is_of(out)):
        raise SettingError("explanation is of another model or output: pass what explain made of "
                           "this one, or leave it out")
    path = output_path(path, Kind.HTML, force)
    if (n_features := len(fitted.varying_names)) > _MOST_INPUTS:
        raise SettingError(
            f"a report shows at most {_MOST_INPUTS} features, this model has {n_features}: use "
            "explain and plots"
        )
    diagnostics = diagnose(model, output)  # refused at once where the engine cannot
    if explanation is None:
        explanation = explain(model, n_refits=n_refits, output=output, verbose=verbose)
    with bar(verbose, None, "writing the report"):
        html = environment.from_string(_template()).render(
            title=str(title), target=target, version=__version__, plotly=plotly,
            figures=_script_json(_figures(fitted, out, explanation, diagnostics, target)),
            explanation=explanation, nearly_constant=NEARLY_CONSTANT,
            summary=_summary(fitted, diagnostics),
            names=explanation.names, order=np.argsort(-explanation.shares, kind="stable").tolist(),
            scores=diagnostics.scores(), coverage=diagnostics.coverage(),
            worst=_worst(diagnostics),
            fields=sorted(explanation.fields, key=lambda part: -part.variation)[:_MOST_FORMULAS],
            settings=model.get_params(deep=False), members=out.info.get("members", []),
            fit={"steps": fitted.n_iter} | {name: value for name, value in out.info.items()
                                            if name not in ("members", "compared")},
        )
        # A title may hold half a surrogate pair, which UTF-8 cannot: its code is shown.
        write_text(path, html.encode("utf-8", "backslashreplace").decode())
    return path


def _tools() -> tuple[str, Any]:
    """Load plotly's code and make a template environment that escapes everything."""
    jinja2, plotly = (needed(name, "a report", "report") for name in ("jinja2", "plotly.offline"))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined,
                                     finalize=_printable)
    return plotly.get_plotlyjs(), environment


def _printable(value: Any) -> Any:
    """Make a text of the user's safe to show; code that the page holds stays as it is."""
    return shown(value, len(value)) if type(value) is str else value


def _template() -> str:
    return (Path(__file__).parent / "report_page.html.j2").read_text(encoding="utf-8")


def _script_json(value: Any) -> str:
    """Write JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _figures(
    fitted: FittedModel, out: Output, explanation: Explanation, diagnostics: Diagnostics,
    target: str,
) -> dict[str, Any]:
    """Make the pictures, by the name of their place in the page."""
    rows = report_figures.sampled_rows(len(diagnostics.y))
    slices = [slice_along(fitted, out, i, 80) for i in range(len(explanation.names))]
    return {
        "shares": report_figures.shares(explanation),
        "scale": report_figures.lines_along(slices, "scale", "local scale"),
        "fast": report_figures.fast_regions(fitted, out, explanation, rows),
        "noise": report_figures.lines_along(slices, "noise", "noise deviation"),
        "observed": report_figures.observed(diagnostics, rows, target),
        "residuals": report_figures.residuals(diagnostics, rows),
        "qq": report_figures.qq(diagnostics, rows),
        "pit": report_figures.pit(diagnostics),
        "calibration": report_figures.calibration(diagnostics),
        "history": report_figures.history(out.history),
        **{f"slice{i}": report_figures.prediction_along(along, target)
           for i, along in enumerate(slices)},
    }


def _summary(
    fitted: FittedModel, diagnostics: Diagnostics
) -> list[tuple[str, float, float, float]]:
    """List name, smallest, median and largest value of every feature and of the target."""
    X = fitted.training_inputs()[:, fitted.inputs.active]
    columns = [*zip(fitted.varying_names, X.T, strict=False), ("target", diagnostics.y)]
    return [(name, float(v.min()), float(np.median(v)), float(v.max())) for name, v in columns]


def _worst(diagnostics: Diagnostics) -> list[dict[str, float]]:
    return [
        {"row": int(i), "y": float(diagnostics.y[i]), "mean": float(diagnostics.mean[i]),
         "z": float(diagnostics.standardised[i])}
        for i in diagnostics.worst(8)
    ]
