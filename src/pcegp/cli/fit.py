"""The command `pcegp fit`: a table, one training, a model file."""

from pathlib import Path
from time import perf_counter

from pcegp.cli.output import keeping, print_scores, print_structure
from pcegp.cli.table_models import keep_encoding
from pcegp.cli.terminal import Echo, stage
from pcegp.errors import shown
from pcegp.estimators import PRESETS, PCEGPRegressor, fit_named
from pcegp.estimators.settings import resolve
from pcegp.inspection import diagnose, explain
from pcegp.io import Columns, TrainingData, read_training, write_figures
from pcegp.preprocessing import validation


def fit(
    data: Path, columns: Columns, preset: str, out: Path, force: bool, json_path: Path | None,
    jobs: int | None, show_bar: bool, echo: Echo,
) -> None:
    """Train a model on a table and keep it in a file, one of another kind only by `force`."""
    settings = validation.check_choice("preset", preset, PRESETS)
    model = PCEGPRegressor(**settings, verbose=show_bar, n_jobs=jobs)
    resolve(model.get_params(deep=False))  # refuses what cannot work, before the table is read
    with stage(f"reading {data}"):
        table = read_training(data, columns)
    begin = perf_counter()
    with keeping(model, out, "use that file, or run the same command again"):
        fit_named(model, table.X, table.y, table.encoding.names)
        keep_encoding(model, table.encoding)
        took = perf_counter() - begin
        model.set_params(verbose=False)
        if model.was_interrupted():
            raise KeyboardInterrupt
        with stage(f"writing {out}"):
            model.save(out, force=force)
        _report(model, table, columns, preset, took, json_path, echo)
        echo(f"\nModel written to {shown(out, 1000)}")


def _report(
    model: PCEGPRegressor, table: TrainingData, columns: Columns, preset: str, took: float,
    json_path: Path | None, echo: Echo,
) -> None:
    """Print scores and what makes the process change, and write them."""
    with stage("explaining and scoring the model"):
        explanation = explain(model, n_refits=0)
        scores = diagnose(model).scores()
    echo(f"{len(table.y)} rows, {len(table.encoding.names)} inputs, trained in {took:.1f} s")
    print_structure(explanation.structure, echo)
    echo("\nEach row predicted from all others (somewhat optimistic)")
    print_scores(scores, echo)
    echo("\nWhat makes the process change its character")
    echo(explanation.shares_text())
    write_figures(json_path, {
        "rows": len(table.y), "features": table.encoding.names, "target": columns.target,
        "preset": preset, "seconds": took, "leave_one_out": scores,
        "structures": model.fit_info_.get("members", []),
        "shares": explanation.as_dict()["shares"], "imputed": table.encoding.medians,
        "categories": table.encoding.as_dict()["categories"],
    }, echo)
