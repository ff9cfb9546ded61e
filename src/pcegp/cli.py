"""The `pcegp` command. Heavy modules are imported inside the commands, so help is quick."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from pcegp import __version__

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


def _run(name: str, work: Callable[[], None]) -> None:
    """Do the work; an expected error becomes one sentence and exit code 1."""
    from pcegp.errors import PCEGPError

    try:
        work()
    except BrokenPipeError:
        raise  # the reader has enough, as in `| head`: typer ends quietly
    except (PCEGPError, OSError) as error:
        typer.echo(f"pcegp {name}: {error}", err=True)
        raise typer.Exit(1) from None


@app.command(epilog="Example: pcegp demo --out demo --json demo/figures.json")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    json: Json = None,
) -> None:
    """Fit the paper's toy examples with four models and compare with its tables."""
    from pcegp.experiments import demo as experiment

    _run("demo", lambda: experiment.main(out, json, echo=typer.echo))


ModelFile = Annotated[Path, typer.Argument(help="A file that model.save(...) made.")]


@app.command(epilog="Example: pcegp explain plant.pcegp --html report.html")
def explain(
    model: ModelFile,
    html: Annotated[Path | None, typer.Option(help="Also write a report to this file.")] = None,
    json: Json = None,
) -> None:
    """Say which input makes the process change its character, with formulas."""
    from pcegp import model_commands

    _run("explain", lambda: model_commands.explain_file(model, html, json, echo=typer.echo))


@app.command(epilog="Example: pcegp info plant.pcegp")
def info(model: ModelFile, json: Json = None) -> None:
    """Show what a model file holds: features, settings and leave-one-out scores."""
    from pcegp import model_commands

    _run("info", lambda: model_commands.info(model, json, echo=typer.echo))


@bench_app.command(epilog="Example: pcegp bench speed --n 500 --n 1000 --json speed.json")
def speed(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("bench"),
    json: Json = None,
    n: Annotated[
        list[int] | None, typer.Option(min=2, help="Points; may be given several times. "
                                       "[default: 100, 500, 1000, 2000, 4400]")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of three steps each. [default: by size]")
    ] = None,
) -> None:
    """Time one training iteration and predictions beside LAPACK, GPyTorch and scikit-learn."""
    from pcegp.experiments import speed as experiment
    from pcegp.experiments import speed_report

    sizes = n or experiment.SIZES
    _run("bench speed", lambda: speed_report.main(out, json, sizes, rounds, echo=typer.echo))
