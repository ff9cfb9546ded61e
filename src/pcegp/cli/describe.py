"""What `pcegp info` and `pcegp explain` print and write about a model file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pcegp import __version__
from pcegp.estimators.mixture import PCEGPMixture, load
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inspection import slices as views
from pcegp.inspection.diagnostics import diagnose
from pcegp.inspection.explanation import explain, names_of
from pcegp.inspection.report_page import report
from pcegp.io.files import check_writable, write_figures

Echo = Callable[[str], None]


def contents(model: PCEGPRegressor) -> dict[str, Any]:
    """A model as plain data: features with their ranges, settings and scores."""
    X = views.training_inputs(model)[:, model.active_columns_]
    features = {
        name: {"smallest": float(column.min()), "largest": float(column.max())}
        for name, column in zip(names_of(model), X.T, strict=False)
    }
    default = PCEGPRegressor().get_params(deep=False)
    changed = {name: str(value) for name, value in model.get_params(deep=False).items()
               if value != default[name]}
    return {
        "pcegp": __version__,
        "rows": len(X),
        "outputs": len(model.posteriors_),
        "features": features,
        "settings": changed,
        "steps": int(model.n_iter_),
        "leave_one_out": [diagnose(model, k).scores() for k in range(len(model.posteriors_))],
    }


def _best_of(path: Path, echo: Echo) -> PCEGPRegressor:
    """The model of a file; of a mixture, its first member, which was the best in the search."""
    model = load(path)
    if not isinstance(model, PCEGPMixture):
        return model
    echo(f"{path} is a mixture of {len(model.estimators_)} models; this is the best of them.\n")
    return model.estimators_[0]


def info(path: Path, json_path: Path | None, echo: Echo) -> None:
    """Print what a model file holds."""
    if json_path is not None:
        check_writable(json_path)
    found = contents(_best_of(path, echo))
    echo(f"{path}: {found['rows']} rows, {len(found['features'])} features, "
         f"{found['outputs']} output{'s' if found['outputs'] > 1 else ''}, {found['steps']} steps")
    echo("\nFeatures and their training range")
    width = max(map(len, found["features"]), default=0)
    for name, span in found["features"].items():
        echo(f"  {name:{width}s} {span['smallest']:12.5g} {span['largest']:12.5g}")
    echo("\nSettings other than the defaults")
    for name, value in found["settings"].items() or [("none", "")]:
        echo(f"  {name:20s} {value}".rstrip())
    for scores in found["leave_one_out"]:
        echo("\nEach row predicted from all others")
        echo("  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items()))
    write_figures(json_path, found, echo)


def explain_file(path: Path, html: Path | None, json_path: Path | None, echo: Echo) -> None:
    """Print the explanation of a model file, and write the report."""
    for file in (html, json_path):
        if file is not None:
            check_writable(file)
    model = _best_of(path, echo)
    found = explain(model)
    echo(str(found))
    write_figures(json_path, found.as_dict(), echo)
    if html is not None:
        report(model, html, title=path.stem)
        echo(f"\nReport written to {html}")

