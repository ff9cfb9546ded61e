"""The `pcegp` command. Heavy modules are imported inside the commands, so help is quick."""

import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcegp import __version__

if TYPE_CHECKING:
    from pcegp.cli.output import Echo


class Imputation(StrEnum):
    """Ways to fill in missing values."""

    MEDIAN = "median"


class _App(typer.Typer):
    """The command, which knows whether it is the whole process or run by a test."""

    is_process = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.is_process = True
        return super().__call__(*args, **kwargs)


app = _App(
    name="pcegp",
    help="Non-stationary Gaussian-process regression with a polynomial local scale.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
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
Force = Annotated[
    bool, typer.Option("--force", help="Replace existing files of another kind, too.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the code an error arose.")]


_LONGEST = 10_000  # characters of a message


@contextmanager
def _work(
    name: str, debug: bool, *, inputs: Mapping[str, Path] | None = None,
    outputs: Sequence[tuple[str, Path | None, str]] = (), force: bool = False,
    at_the_end: bool = False,
) -> Iterator["Echo"]:
    """Run the block of a command; yield the function by which it prints.

    An error becomes one sentence and exit code 1, a warning a note. Outputs that would destroy
    something are refused before the block.

    Parameters
    ----------
    inputs, outputs, force : see `pcegp.cli.output.check_files`
    at_the_end : whether all files take their places, and all is printed, when the work is done;
        an interrupt before that changes no file, and one after it comes too late
    """
    from pcegp.errors import PCEGPError, PCEGPWarning, shown

    def say(text: object) -> None:
        # In one line, and nothing that a path or a name holds may steer the terminal.
        typer.echo(f"pcegp {name}: {shown(' '.join(str(text).split()), _LONGEST)}", err=True)

    def note(message: Warning | str, *_: object, **__: object) -> None:
        say(f"note: {message}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", PCEGPWarning)
            warnings.showwarning = note
            from pcegp.cli.output import check_files

            check_files(inputs or {}, outputs, force)
            if at_the_end:
                yield from _finished()
            else:
                yield typer.echo
    except BrokenPipeError:
        raise  # the reader has enough, as in `| head`: typer ends quietly
    except KeyboardInterrupt as reason:
        say(f"interrupted: {reason}" if str(reason) else "interrupted")
        raise typer.Exit(130) from None
    except Exception as error:  # the user gets one sentence, whatever went wrong
        if debug:
            raise
        text = str(error) or ("out of memory" if isinstance(error, MemoryError) else "no text")
        if not isinstance(error, (PCEGPError, OSError, MemoryError)):
            text = (f"an error of pcegp itself ({type(error).__name__}: {text}): please report it "
                    "with what --debug shows")
        say(text)
        raise typer.Exit(1) from None


def _finished() -> Iterator["Echo"]:
    """Yield a function that keeps lines, and print them when the files are in their places."""
    from pcegp.io import Together

    lines: list[str] = []
    with Together() as files:
        yield lines.append
        with _uninterrupted():
            files.commit()
            for line in lines:
                typer.echo(line)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C in the block; if the command is the whole process, up to its end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no signal arrives in this thread
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if not app.is_process:
            signal.signal(signal.SIGINT, before)


def _names(text: str | list[str] | None) -> list[str] | None:
    """Split a text at commas; a list is left to the table, whose names may have commas."""
    if isinstance(text, str):
        return [name.strip() for name in text.split(",") if name.strip()]
    return text or None


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
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Train a model on a table; prints leave-one-out scores and what makes it change."""
    outputs = [("--out", out, "model"), ("--json", json, "JSON")]
    with _work("fit", debug, inputs={"table": data}, outputs=outputs, force=force,
               at_the_end=True) as echo:
        from pcegp.cli import fit as fit_command
        from pcegp.io import Columns

        columns = Columns(target, _names(features), tuple(_names(categorical) or ()), bool(impute))
        fit_command.fit(data, columns, preset, out, json, jobs, sys.stderr.isatty(), echo)


@app.command(epilog="Example: pcegp predict plant.pcegp new.csv --out predictions.csv")
def predict(
    model: ModelFile,
    data: Table,
    out: Annotated[
        Path, typer.Option(help="The table to write: .csv, .csv.gz, .parquet or .xlsx.")
    ] = Path("predictions.csv"),
    interval: Annotated[float, typer.Option(help="Share of new values inside.")] = 0.95,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Predict a table: mean, std, lower and upper beside its columns, block by block."""
    outputs = [("--out", out, "table"), ("--json", json, "JSON")]
    with _work("predict", debug, inputs={"model": model, "table": data}, outputs=outputs,
               force=force, at_the_end=True) as echo:
        from pcegp.cli import predict as predict_command

        predict_command.predict(model, data, out, interval, json, sys.stderr.isatty(), echo)


@app.command(epilog="Example: pcegp evaluate plant.pcegp test.csv --json scores.json")
def evaluate(
    model: ModelFile, data: Table, json: Json = None, force: Force = False, debug: Debug = False
) -> None:
    """Score a model on a table that has the target."""
    with _work("evaluate", debug, inputs={"model": model, "table": data},
               outputs=[("--json", json, "JSON")], force=force, at_the_end=True) as echo:
        from pcegp.cli import predict as predict_command

        predict_command.evaluate(model, data, json, sys.stderr.isatty(), echo)


@app.command(epilog="Example: pcegp demo --out demo --json demo/figures.json")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Fit the paper's toy examples with five models and compare with its tables."""
    outputs = [("--out", out / "higdon.png", "PNG"), ("--json", json, "JSON")]
    with _work("demo", debug, outputs=outputs, force=force) as echo:
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
    with _work("explain", debug, inputs={"model": model},
               outputs=[("--html", html, "HTML"), ("--json", json, "JSON")], force=force,
               at_the_end=True) as echo:
        from pcegp.cli import describe

        describe.explain_file(model, html, json, echo)


@app.command(epilog="Example: pcegp info plant.pcegp")
def info(
    model: ModelFile, json: Json = None, force: Force = False, debug: Debug = False
) -> None:
    """Show what a model file holds: features, settings and leave-one-out scores."""
    with _work("info", debug, inputs={"model": model}, outputs=[("--json", json, "JSON")],
               force=force, at_the_end=True) as echo:
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
    outputs = [("--storage", choices.file(data, target), "any"), ("--out", out, "model"),
               ("--json", json, "JSON")]
    with _work("tune", debug, inputs={"table": data}, outputs=outputs, force=force,
               at_the_end=True) as echo:
        from pcegp.cli import tune as tune_command
        from pcegp.io import Columns

        columns = Columns(target, _names(features), tuple(_names(categorical) or ()),
                          bool(impute), group)
        tune_command.tune(data, columns, choices, out, json, sys.stderr.isatty(), echo)


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
    outputs = [(f"{name} of --out", folder / name, "any") for name in _REPRODUCED]
    with _work("reproduce", debug, inputs=_files_in(data),
               outputs=[*outputs, ("--json", json, "JSON")], force=force) as echo:
        from pcegp.benchmarks import reproduce as experiment

        experiment.main(folder, budget, protocol, _names(only), _names(methods), data, jobs, dask,
                        json, sys.stderr.isatty(), echo)


_REPRODUCED = ("results.jsonl", "index.html", "results.md", "higdon.json", "higdon.png",
               "speed.json", "speed.png")


def _files_in(folder: Path | None) -> dict[str, Path]:
    """List the files of a folder; none if there is no such folder."""
    if folder is None or not folder.is_dir():
        return {}
    return {f"data file {path.name}": path for path in folder.iterdir() if path.is_file()}


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
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Time one training iteration and predictions beside LAPACK, GPyTorch and scikit-learn."""
    outputs = [("--out", out / "speed.png", "PNG"), ("--json", json, "JSON")]
    with _work("bench speed", debug, outputs=outputs, force=force) as echo:
        from pcegp.benchmarks import speed as experiment
        from pcegp.benchmarks import speed_report

        speed_report.main(out, json, n or experiment.SIZES, rounds, echo)


@bench_app.command(epilog="Example: pcegp bench files --damaged 10000 --cut 1000 --kills 200")
def files(
    damaged: Annotated[int, typer.Option(min=0, help="Damaged and forged files.")] = 10_000,
    cut: Annotated[int, typer.Option(min=0, help="Files that are cut off.")] = 1_000,
    kills: Annotated[int, typer.Option(min=0, help="Saves that are killed.")] = 200,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Load model files that were damaged, forged or cut off; kill processes that save."""
    with _work("bench files", debug, outputs=[("--json", json, "JSON")], force=force) as echo:
        from pcegp.benchmarks import file_faults

        file_faults.main(damaged, cut, kills, json, echo)


@bench_app.command(epilog="Example: pcegp bench outputs --combinations 300 --json outputs.json")
def outputs(
    combinations: Annotated[int, typer.Option(min=1, help="Random command lines.")] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Run commands with outputs that are inputs, links, devices or folders; nothing may be lost."""
    with _work("bench outputs", debug, outputs=[("--json", json, "JSON")], force=force) as echo:
        from pcegp.benchmarks import output_faults

        output_faults.main(app, combinations, seed, json, echo)


@bench_app.command(epilog="Example: pcegp bench interrupts --interrupts 20 --kills 20")
def interrupts(
    interrupts: Annotated[int, typer.Option(min=0, help="Commands that get Ctrl-C.")] = 100,
    kills: Annotated[int, typer.Option(min=0, help="Commands that are killed.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Interrupt and kill commands at random moments; their files must stay whole."""
    with _work("bench interrupts", debug, outputs=[("--json", json, "JSON")],
               force=force) as echo:
        from pcegp.benchmarks import interrupts as experiment

        experiment.main(interrupts, kills, seed, json, echo)


@bench_app.command(epilog="Example: pcegp bench stress --fits 10000 --json stress.json")
def stress(
    fits: Annotated[int, typer.Option(min=1, help="Random tables with random settings.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    peers: Annotated[
        int, typer.Option(min=0, help="Give that many of the tables to other libraries too.")
    ] = 0,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Fit odd tables with random settings; every fit must end well or be refused."""
    with _work("bench stress", debug, outputs=[("--json", json, "JSON")], force=force) as echo:
        from pcegp.benchmarks import stress_report

        stress_report.main(fits, seed, peers, json, sys.stderr.isatty(), echo)
