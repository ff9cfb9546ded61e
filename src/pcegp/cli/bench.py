"""The commands `pcegp bench ...`: speed, and faults that are looked for at random."""

from pathlib import Path
from typing import Annotated

import typer

from pcegp._kinds import Kind
from pcegp.benchmarks.filenames import SCALE_PICTURE, SPEED_PICTURE
from pcegp.cli.options import App, Debug, Force, Json, app, figures
from pcegp.cli.paths import Output
from pcegp.cli.running import running
from pcegp.cli.terminal import is_terminal, stage

bench_app = App(
    help="Measure speed, and look for faults, on this machine.",
    epilog="Example: pcegp bench speed --n 500 --n 1000",
    no_args_is_help=True,
)


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
    """Time a training step and predictions beside other libraries.

    The others are LAPACK, GPyTorch and scikit-learn.
    """
    outputs = [Output("--out", out / SPEED_PICTURE, Kind.PNG, makes_folder=True), figures(json)]
    with running("bench speed", debug, outputs=outputs, force=force) as echo:
        with stage("starting"):
            from pcegp.benchmarks import speed as experiment
            from pcegp.benchmarks import speed_report

        speed_report.main(out, json, n or experiment.SIZES, rounds, echo)


@bench_app.command(epilog="Example: pcegp bench scale --n 10000 --methods neighbours,lightgbm")
def scale(
    out: Annotated[Path, typer.Option(help="Folder for results and picture.")] = Path("bench"),
    json: Json = None,
    n: Annotated[
        list[int] | None, typer.Option(min=10, help="Generated rows; may be given several times.",
                                       show_default="1000, 10000, 100000, 1000000")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Some of these.")] = "exact,neighbours,lightgbm,svgp,gpboost",
    collection: Annotated[
        Path | None, typer.Option(help="Folder of NAME.data.csv.gz and NAME.test_mask.csv.gz.")
    ] = None,
    tables: Annotated[str, typer.Option(help="Names of its tables, in place of generated ones.")
                      ] = "",
    splits: Annotated[int, typer.Option(min=1, max=10, help="Splits of each.")] = 5,
    share: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Share of its rows that is trained on.")
    ] = 0.9,
    cap: Annotated[float, typer.Option(min=1.0, help="Seconds for one method at most.")] = 600.0,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Train on many rows, beside other libraries.

    The same command goes on where it was stopped; delete the results in the folder to begin anew.
    """
    outputs = [Output("--out", out / SCALE_PICTURE, Kind.PNG, makes_folder=True), figures(json)]
    with running("bench scale", debug, outputs=outputs, force=force) as echo:
        with stage("starting"):
            from pcegp.benchmarks import scale as experiment

        names = [name for name in tables.split(",") if name]
        sizes = n or ([] if names else experiment.SIZES)
        chosen = experiment.tasks(methods.split(","), sizes, names, range(splits), share,
                                  collection)
        experiment.main(chosen, cap, out, json, echo)


@bench_app.command(epilog="Example: pcegp bench files --damaged 10000 --cut 1000 --kills 200")
def files(
    damaged: Annotated[int, typer.Option(min=0, help="Damaged and forged files.")] = 10_000,
    cut: Annotated[int, typer.Option(min=0, help="Files that are cut off.")] = 1_000,
    kills: Annotated[int, typer.Option(min=0, help="Saves that are killed.")] = 200,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Load damaged and forged model files; kill processes that save.

    Every file must be refused, and every save must leave a whole file. A fault ends the command
    with 1.
    """
    with running("bench files", debug, outputs=[figures(json)], force=force) as echo:
        with stage("starting"):
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
    """Run commands whose outputs are inputs, links or devices.

    No input may change, and nothing may be lost. A fault ends the command with 1.
    """
    with running("bench outputs", debug, outputs=[figures(json)], force=force) as echo:
        with stage("starting"):
            from pcegp.benchmarks import output_faults

        output_faults.main(app, combinations, seed, json, is_terminal(), echo)


@bench_app.command(epilog="Example: pcegp bench interrupts --kills 20 --json signals.json")
def interrupts(
    interrupts: Annotated[int, typer.Option(min=0, help="Commands that get Ctrl-C.")] = 100,
    kills: Annotated[int, typer.Option(min=0, help="Commands that are killed.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    json: Json = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Interrupt and kill commands at random moments.

    Every file must stay old or new, and whole. A fault ends the command with 1.

    With --json it can be carried on by the same command; delete the file to begin anew.
    """
    with running("bench interrupts", debug, outputs=[figures(json)], force=force) as echo:
        with stage("starting"):
            from pcegp.benchmarks import interrupts as experiment

        experiment.main(interrupts, kills, seed, json, is_terminal(), echo)


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
    """Fit odd tables with random settings.

    Every fit must end well or be refused. A fault ends the command with 1.
    """
    with running("bench stress", debug, outputs=[figures(json)], force=force) as echo:
        with stage("starting"):
            from pcegp.benchmarks import stress_report

        stress_report.main(fits, seed, peers, json, is_terminal(), echo)
