"""The commands `pcegp info` and `pcegp explain`: descriptions of a model file."""

from pathlib import Path
from typing import Any

from pcegp import __version__
from pcegp.cli.output import print_scores, print_structure
from pcegp.cli.terminal import Echo, is_terminal, stage
from pcegp.errors import shown
from pcegp.estimators import PCEGPRegressor, load, members_of
from pcegp.inference import LEAVE_ONE_OUT
from pcegp.inspection import diagnose, explain, report, structure_text
from pcegp.io import write_figures

_PATH, _NAME = 1000, 1000  # characters of a path and of a name that are printed


def contents(model: PCEGPRegressor) -> dict[str, Any]:
    """Describe a model as plain data: features with their ranges, settings and scores."""
    fitted = model.model_
    X = fitted.training_inputs()[:, fitted.inputs.active]
    default = PCEGPRegressor().get_params(deep=False)
    scored = LEAVE_ONE_OUT in fitted.options.inference.provides
    outputs = range(len(fitted.outputs))
    return {
        "pcegp": __version__,
        "rows": len(X),
        "outputs": len(outputs),
        "features": {
            name: {"smallest": float(column.min()), "largest": float(column.max())}
            for name, column in zip(fitted.varying_names, X.T, strict=False)
        },
        "settings": {name: str(value) for name, value in model.get_params(deep=False).items()
                     if value != default[name]},
        "structure": [structure_text(out) for out in fitted.outputs],
        "steps": fitted.n_iter,
        "leave_one_out": [diagnose(model, k).scores() for k in outputs if scored],
    }


def _best_of(path: Path, echo: Echo) -> PCEGPRegressor:
    """Load a model; of a mixture its first member, which was the best in the search."""
    with stage(f"loading {path}"):
        members: list[PCEGPRegressor] = members_of(load(path))
    if len(members) > 1:
        echo(f"{shown(path, _PATH)} is a mixture of {len(members)} models; this is the first of "
             "them.\n")
    return members[0]


def info(path: Path, json_path: Path | None, echo: Echo) -> None:
    """Print what a model file holds."""
    model = _best_of(path, echo)
    with stage("scoring the model"):
        found = contents(model)
    echo(f"{shown(path, _PATH)}: {found['rows']} rows, {len(found['features'])} features, "
         f"{found['outputs']} output{'s' if found['outputs'] > 1 else ''}, {found['steps']} steps")
    echo("\nFeatures and their training range")
    names = [shown(name, _NAME) for name in found["features"]]
    width = max(map(len, names), default=0)
    for name, span in zip(names, found["features"].values(), strict=True):
        echo(f"  {name:{width}s} {span['smallest']:12.5g} {span['largest']:12.5g}")
    echo("\nSettings other than the defaults")
    for name, value in found["settings"].items() or [("none", "")]:
        echo(f"  {name:20s} {value}".rstrip())
    for text in found["structure"]:
        print_structure(text, echo)
    for scores in found["leave_one_out"]:
        echo("\nEach row predicted from all others")
        print_scores(scores, echo)
    write_figures(json_path, found, echo)


def explain_file(
    path: Path, html: Path | None, force: bool, json_path: Path | None, echo: Echo
) -> None:
    """Print the explanation of a model file, and write the report."""
    model = _best_of(path, echo)
    is_shown = is_terminal()
    found = explain(model, verbose=is_shown)
    echo(str(found))
    write_figures(json_path, found.as_dict(), echo)
    if html is not None:
        report(model, html, title=path.stem, explanation=found, verbose=is_shown, force=force)
        echo(f"\nReport written to {shown(html, _PATH)}")
