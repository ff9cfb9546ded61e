"""The `pcegp` command. Heavy modules are imported inside the commands, so help is quick."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pcegp._kinds import Kind
from pcegp.benchmarks.filenames import HIGDON_PICTURE, REPRODUCED
from pcegp.cli.bench import bench_app
from pcegp.cli.ctrl_c import interrupts
from pcegp.cli.options import Debug, Force, Json, app, figures
from pcegp.cli.paths import Input, Output, files_in
from pcegp.cli.running import running
from pcegp.cli.terminal import is_terminal, stage

__all__ = ["app"]

app.add_typer(bench_app, name="bench")


class Imputation(StrEnum):
    """Ways to fill in missing values."""

    MEDIAN = "median"


def _model(path: Path) -> Input:
    return Input("model", path, Kind.MODEL)


def _table(path: Path) -> Input:
    return Input("table", path, Kind.TABLE)


def _split(text: str | None) -> list[str] | None:
    """Split a text at its commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


Table = Annotated[
    Path, typer.Argument(help="A table with a header: CSV, Parquet or Excel; - for standard input.")
]
ModelFile = Annotated[Path, typer.Argument(help="A file that fit, tune or model.save made.")]
Out = Annotated[Path, typer.Option(help="The model file to write.")]
Target = Annotated[str, typer.Option(help="The column to predict.")]
Features = Annotated[
    list[str] | None,
    typer.Option(help="Columns to use, with commas between; may be given several times.",
                 show_default="all others"),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(help="Columns of text to encode, each of at most 20 values; as --features."),
]
Impute = Annotated[
    Imputation | None,
    typer.Option(help="Replace missing numbers by the median of their column; a missing category "
                      "becomes none of its values, with a note."),
]


_NOTHING_TRAINED = ("nothing was trained yet, so nothing is kept, and no file was changed; run the "
                    "same command again")


@app.command(epilog="Example: pcegp fit plant.csv --target yield --out plant.pcegp")
def fit(
    data: Table,
    target: Target,
    features: Features = None,
    categorical: Categorical = None,
    impute: Impute = None,
    preset: Annotated[
        str, typer.Option(help="auto (the default model), fast, or paper (its benchmark setup).")
    ] = "auto",
    jobs: Annotated[int | None, typer.Option(help="Threads.", show_default="all cores")] = None,
    out: Out = Path("model.pcegp"),
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Train a model on a table; prints leave-one-out scores and what makes it change."""
    outputs = [Output("--out", out, Kind.MODEL), figures(json)]
    with running("fit", debug, inputs=[_table(data)], outputs=outputs, force=force,
                 at_the_end=True, if_interrupted=_NOTHING_TRAINED) as echo:
        with stage("starting"):
            from pcegp.cli import fit as fit_command
            from pcegp.io import Columns

        columns = Columns(target, features, tuple(categorical or ()), bool(impute))
        fit_command.fit(data, columns, preset, out, force, json, jobs, is_terminal(), echo)


@app.command(epilog="Example: pcegp predict plant.pcegp new.csv --out predictions.csv")
def predict(
    model: ModelFile,
    data: Table,
    out: Annotated[
        Path, typer.Option(help="The table to write: .csv, .csv.gz, .parquet or .xlsx.")
    ] = Path("predictions.csv"),
    interval: Annotated[
        float | None, typer.Option(
            help="lower and upper hold this share of new values, even if the model is wrong; "
                 "trains it again 5 times.")
    ] = None,
    band: Annotated[
        float | None, typer.Option(
            help="lower and upper hold this share of what the model itself believes.",
            show_default="0.95, without --interval")
    ] = None,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Predict a table: mean, std, lower and upper beside its columns, block by block."""
    outputs = [Output("--out", out, Kind.TABLE), figures(json)]
    with running("predict", debug, inputs=[_model(model), _table(data)], outputs=outputs,
                 force=force, at_the_end=True) as echo:
        with stage("starting"):
            from pcegp.cli import predict as predict_command
            from pcegp.cli.intervals import chosen

        predict_command.predict(model, data, out, chosen(interval, band), json, is_terminal(), echo)


@app.command(epilog="Example: pcegp evaluate plant.pcegp test.csv --json scores.json")
def evaluate(
    model: ModelFile, data: Table, json: Json = None, force: Force = False, debug: Debug = False
) -> None:
    """Score a model on a table that has the target."""
    with running("evaluate", debug, inputs=[_model(model), _table(data)], outputs=[figures(json)],
                 force=force, at_the_end=True) as echo:
        with stage("starting"):
            from pcegp.cli import predict as predict_command

        predict_command.evaluate(model, data, json, is_terminal(), echo)


@app.command(epilog="Example: pcegp demo --out demo --json demo/figures.json")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Fit the paper's toy examples with five models and compare with its tables."""
    outputs = [Output("--out", out / HIGDON_PICTURE, Kind.PNG, makes_folder=True), figures(json)]
    with running("demo", debug, outputs=outputs, force=force) as echo:
        with stage("starting"):
            from pcegp.benchmarks import toy

        toy.main(out, json, echo)


@app.command(epilog="Example: pcegp explain plant.pcegp --html report.html")
def explain(
    model: ModelFile,
    html: Annotated[Path | None, typer.Option(help="Also write a report to this file.")] = None,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Say which input makes the process change its character, with formulas."""
    with running("explain", debug, inputs=[_model(model)],
                 outputs=[Output("--html", html, Kind.HTML), figures(json)], force=force,
                 at_the_end=True) as echo:
        with stage("starting"):
            from pcegp.cli import describe

        describe.explain_file(model, html, force, json, echo)


@app.command(epilog="Example: pcegp info plant.pcegp")
def info(
    model: ModelFile, json: Json = None, force: Force = False, debug: Debug = False
) -> None:
    """Show what a model file holds: features, settings and leave-one-out scores."""
    with running("info", debug, inputs=[_model(model)], outputs=[figures(json)], force=force,
                 at_the_end=True) as echo:
        with stage("starting"):
            from pcegp.cli import describe

        describe.info(model, json, echo)


@app.command(epilog="Example: pcegp tune plant.csv --target yield --trials 100 --time 30m --jobs 2")
def tune(
    data: Table,
    target: Target,
    features: Features = None,
    categorical: Categorical = None,
    impute: Impute = None,
    group: Annotated[
        str | None, typer.Option(help="A column whose equal values stay in one fold.")
    ] = None,
    space: Annotated[str, typer.Option(help="auto, paper, paper_wine or general.")] = "auto",
    objective: Annotated[
        str | None, typer.Option(help="crps, rmse or nll.", show_default="by the space")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials in the study.", show_default="by the space")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Begin nothing new after this time: 90s, 30m, 2h.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Folds at the same time; -1 for all cores.")] = 1,
    storage: Annotated[
        str | None, typer.Option(help="A journal file, or a database URL that workers share.",
                                 show_default="STUDY.journal")
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Name of the study; an existing one is carried on.")
    ] = None,
    ensemble: Annotated[
        int | None, typer.Option(min=1, help="Mix up to this many of the best trials; 1 for the "
                                 "best.", show_default="5, for the paper's spaces 1")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the folds and suggestions.")] = 0,
    out: Out = Path("model.pcegp"),
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Find good settings for a table by cross-validation; can be stopped and carried on."""
    from pcegp.cli.choices import Choices

    choices = Choices(space, objective, trials, time, jobs, storage, study, ensemble, seed)
    with interrupts():  # the address of a study brings the readers of tables
        study_file = choices.output(data, target)
    outputs = [study_file, Output("--out", out, Kind.MODEL), figures(json)]
    with running("tune", debug, inputs=[_table(data)], outputs=outputs, force=force,
                 at_the_end=True, if_interrupted=_NOTHING_TRAINED) as echo:
        with stage("starting"):
            from pcegp.cli import tune as tune_command
            from pcegp.io import Columns

        columns = Columns(target, features, tuple(categorical or ()), bool(impute), group)
        tune_command.tune(data, columns, choices, out, force, json, is_terminal(), echo)


@app.command(epilog="Example: pcegp reproduce --only yacht --methods pcegp,gp --budget short")
def reproduce(
    budget: Annotated[
        str, typer.Option(help="smoke (minutes), short (hours), once (one repetition of the "
                          "paper's) or full (the paper's).")
    ] = "short",
    only: Annotated[
        str | None, typer.Option(
            help="Parts, with commas between: higdon, runtime, boston, concrete, yacht, heating, "
                 "cooling, airfoil, wine_red, wine_white, slump.", show_default="all")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(
            help="Methods, with commas between: pcegp, pcegp_mixture, pcegp_paper, gp, gp_ard, "
                 "dgp, gpboost, hhk, ard5, catboost, forest.", show_default="all")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="paper, or honest (groups of equal rows, tuning inside the folds).")
    ] = "paper",
    data: Annotated[
        Path | None, typer.Option(
            help="Folder of the CSV files.",
            show_default="PCEGP_DATA, then installed packages, then a download")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Folds at the same time; -1 for all cores.")] = -1,
    dask: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers take the folds.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results and the page.",
                                  show_default="reproduce/BUDGET-PROTOCOL")
    ] = None,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Run the paper's experiments with every compared method; can be stopped and carried on."""
    folder = out or Path("reproduce") / f"{budget}-{protocol}"
    outputs = [Output(f"{name} of --out", folder / name, Kind.ANY, makes_folder=True)
               for name in REPRODUCED]
    with running("reproduce", debug, inputs=list(files_in(data, "data file")),
                 outputs=[*outputs, figures(json)], force=force) as echo:
        with stage("starting"):
            from pcegp.benchmarks import reproduce as experiment

        experiment.main(folder, budget, protocol, _split(only), _split(methods), data, jobs, dask,
                        json, is_terminal(), echo)
