"""The `pcegp` command. Heavy modules are imported inside the commands, so help is quick."""

import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pcegp import __version__


class Imputation(StrEnum):
    """Ways to fill in missing values."""

    MEDIAN = "median"


app = typer.Typer(
    name="pcegp",
    help="Non-stationary Gaussian-process regression with a polynomial local scale.",
    no_args_is_help=True,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pcegp {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Non-stationary Gaussian-process regression with a polynomial local scale."""


bench_app = typer.Typer(help="Measure on this machine.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

Json = Annotated[Path | None, typer.Option(help="Also write all figures to this file.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the code an error arose.")]


def _run(name: str, work: Callable[[], None], debug: bool = False) -> None:
    """Do the work; an expected error becomes one sentence and exit code 1, a warning a note."""
    from pcegp.errors import PCEGPError, PCEGPWarning

    def note(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"pcegp {name}: note: {message}", err=True)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", PCEGPWarning)
            warnings.showwarning = note
            work()
    except BrokenPipeError:
        raise  # the reader has enough, as in `| head`: typer ends quietly
    except KeyboardInterrupt:
        typer.echo(f"pcegp {name}: interrupted", err=True)
        raise typer.Exit(130) from None
    except (PCEGPError, OSError, MemoryError) as error:
        if debug:
            raise
        text = " ".join(str(error).split()) or "out of memory"
        typer.echo(f"pcegp {name}: {text}", err=True)
        raise typer.Exit(1) from None


def _names(text: str | None) -> list[str] | None:
    """Take apart a list with commas between."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


Table = Annotated[Path, typer.Argument(help="A table: CSV, Parquet or Excel, with a header.")]
ModelFile = Annotated[Path, typer.Argument(help="A file that fit, tune or model.save made.")]
Out = Annotated[Path, typer.Option(help="The model file to write.")]
Target = Annotated[str, typer.Option(help="The column to predict.")]
Features = Annotated[
    str | None, typer.Option(help="Columns to use, with commas between.", show_default="all others")
]
Categorical = Annotated[
    str | None, typer.Option(help="Columns of text to encode, each of at most 20 values.")
]
Impute = Annotated[
    Imputation | None, typer.Option(help="Replace missing numbers by the median of their column.")
]


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
    debug: Debug = False,
) -> None:
    """Train a model on a table; prints leave-one-out scores and what makes it change."""
    from pcegp.cli import fit as fit_command
    from pcegp.io import Columns

    columns = Columns(target, _names(features), tuple(_names(categorical) or ()), bool(impute))
    _run("fit", lambda: fit_command.fit(
        data, columns, preset, out, json, jobs, sys.stderr.isatty(), echo=typer.echo
    ), debug)


@app.command(epilog="Example: pcegp predict plant.pcegp new.csv --out predictions.csv")
def predict(
    model: ModelFile,
    data: Table,
    out: Annotated[Path, typer.Option(help="CSV file to write.")] = Path("predictions.csv"),
    interval: Annotated[float, typer.Option(help="Share of new values inside.")] = 0.95,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Predict a table: mean, std, lower and upper beside its columns, block by block."""
    from pcegp.cli import predict as predict_command

    _run("predict", lambda: predict_command.predict(
        model, data, out, interval, json, sys.stderr.isatty(), echo=typer.echo
    ), debug)


@app.command(epilog="Example: pcegp evaluate plant.pcegp test.csv --json scores.json")
def evaluate(model: ModelFile, data: Table, json: Json = None, debug: Debug = False) -> None:
    """Score a model on a table that has the target."""
    from pcegp.cli import predict as predict_command

    _run("evaluate", lambda: predict_command.evaluate(
        model, data, json, sys.stderr.isatty(), echo=typer.echo
    ), debug)


@app.command(epilog="Example: pcegp demo --out demo --json demo/figures.json")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Fit the paper's toy examples with five models and compare with its tables."""
    from pcegp.benchmarks import toy as experiment

    _run("demo", lambda: experiment.main(out, json, echo=typer.echo), debug)


@app.command(epilog="Example: pcegp explain plant.pcegp --html report.html")
def explain(
    model: ModelFile,
    html: Annotated[Path | None, typer.Option(help="Also write a report to this file.")] = None,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Say which input makes the process change its character, with formulas."""
    from pcegp.cli import describe

    _run("explain", lambda: describe.explain_file(model, html, json, echo=typer.echo), debug)


@app.command(epilog="Example: pcegp info plant.pcegp")
def info(model: ModelFile, json: Json = None, debug: Debug = False) -> None:
    """Show what a model file holds: features, settings and leave-one-out scores."""
    from pcegp.cli import describe

    _run("info", lambda: describe.info(model, json, echo=typer.echo), debug)


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
    debug: Debug = False,
) -> None:
    """Find good settings for a table by cross-validation; can be stopped and carried on."""
    from pcegp.cli import tune as tune_command
    from pcegp.io import Columns

    columns = Columns(target, _names(features), tuple(_names(categorical) or ()), bool(impute),
                      group)
    choices = tune_command.Choices(space, objective, trials, time, jobs, storage, study, ensemble,
                                   seed)
    _run("tune", lambda: tune_command.tune(
        data, columns, choices, out, json, sys.stderr.isatty(), echo=typer.echo
    ), debug)


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
    debug: Debug = False,
) -> None:
    """Run the paper's experiments with every compared method; can be stopped and carried on."""
    from pcegp.benchmarks import reproduce as experiment

    _run("reproduce", lambda: experiment.main(
        out, budget, protocol, _names(only), _names(methods), data, jobs, dask, json,
        sys.stderr.isatty(), echo=typer.echo
    ), debug)


@bench_app.command(epilog="Example: pcegp bench speed --n 500 --n 1000 --json speed.json")
def speed(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("bench"),
    json: Json = None,
    n: Annotated[
        list[int] | None, typer.Option(min=2, help="Points; may be given several times.",
                                       show_default="100, 500, 1000, 2000, 4400")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of three steps each.", show_default="by size")
    ] = None,
    debug: Debug = False,
) -> None:
    """Time one training iteration and predictions beside LAPACK, GPyTorch and scikit-learn."""
    from pcegp.benchmarks import speed as experiment
    from pcegp.benchmarks import speed_report

    sizes = n or experiment.SIZES
    _run("bench speed", lambda: speed_report.main(out, json, sizes, rounds, echo=typer.echo),
         debug)


@bench_app.command(epilog="Example: pcegp bench files --damaged 10000 --cut 1000 --kills 200")
def files(
    damaged: Annotated[int, typer.Option(min=0, help="Damaged and forged files.")] = 10_000,
    cut: Annotated[int, typer.Option(min=0, help="Files that are cut off.")] = 1_000,
    kills: Annotated[int, typer.Option(min=0, help="Saves that are killed.")] = 200,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Load model files that were damaged, forged or cut off; kill processes that save."""
    from pcegp.benchmarks import file_faults

    _run("bench files", lambda: file_faults.main(damaged, cut, kills, json, echo=typer.echo), debug)


@bench_app.command(epilog="Example: pcegp bench stress --fits 10000 --json stress.json")
def stress(
    fits: Annotated[int, typer.Option(min=1, help="Random tables with random settings.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    peers: Annotated[
        int, typer.Option(min=0, help="Give that many of the tables to other libraries too.")
    ] = 0,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Fit odd tables with random settings; every fit must end well or be refused."""
    from pcegp.benchmarks import stress_report

    _run("bench stress", lambda: stress_report.main(fits, seed, peers, json, sys.stderr.isatty(),
                                                    echo=typer.echo), debug)
