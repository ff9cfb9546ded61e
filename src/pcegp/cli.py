"""The `pcegp` command. Heavy modules are imported inside the commands, so help is quick."""

from __future__ import annotations

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


@app.command(epilog="Example: pcegp demo --out demo --json demo/figures.json")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
    json: Annotated[Path | None, typer.Option(help="Also write all figures to this file.")] = None,
) -> None:
    """Fit the paper's toy examples with four models and compare with its tables."""
    from pcegp.errors import PCEGPError
    from pcegp.experiments import demo as experiment

    try:
        experiment.main(out, json, echo=typer.echo)
    except (PCEGPError, OSError) as error:
        typer.echo(f"pcegp demo: {error}", err=True)
        raise typer.Exit(1) from None
