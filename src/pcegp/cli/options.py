"""What all commands have in common: how their words are read, and options that many have."""

from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pcegp import __version__
from pcegp._kinds import Kind
from pcegp.cli.paths import Output
from pcegp.cli.running import begin_process


class _Command(TyperCommand):
    """A command that refuses empty words, as `--out "$OUT"` gives without that variable."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        takes = {name for param in self.get_params(ctx) for name in param.opts
                 if name.startswith("--") and not getattr(param, "is_flag", False)}
        named = _empty(args, takes)
        if named:
            raise typer.BadParameter("it is empty: give a value, or leave it out", ctx,
                                     param_hint=named)
        return super().parse_args(ctx, args)


def _empty(words: Sequence[str], takes: Container[str]) -> str:
    """Name the first option or argument whose value is empty, if there is one.

    Parameters
    ----------
    words : what was typed behind the command
    takes : options that take a value; those that take none are not to blame
    """
    before = ""  # the option whose value comes next
    for word in words:
        if not word:
            return before or "an argument"
        option, equals, value = word.partition("=")
        is_option = not before and option in takes
        if is_option and equals and not value:
            return option
        before = option if is_option and not equals else ""
    return ""


class App(typer.Typer):
    """Several commands; `pcegp` itself knows whether it is the whole process or run by a test."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        begin_process()
        return super().__call__(*args, **kwargs)

    def command(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Add a command of our kind."""
        return super().command(*args, cls=_Command, **kwargs)


app = App(
    name="pcegp",
    help="Non-stationary Gaussian-process regression with a polynomial local scale.",
    epilog="Example: pcegp fit plant.csv --target yield, then pcegp predict model.pcegp new.csv",
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


Json = Annotated[Path | None, typer.Option(help="Also write all figures to this file.")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace existing files of another kind, too.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the code an error arose.")]


def figures(path: Path | None) -> Output:
    """Declare the file of figures."""
    return Output("--json", path, Kind.JSON)
