"""Commands that are interrupted or killed, as real processes, at random moments.

Each has outputs of an earlier run. After Ctrl-C they must be as they were, unless the command
ended with 0, and nothing half written may stay. After a kill each is old or new, and whole; a
partial file may stay until the same command has run again.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from time import perf_counter, sleep
from typing import Any

import numpy as np

from pcegp.errors import ModelFileError, TrainingError
from pcegp.estimators import load
from pcegp.io import write_figures, write_text

_SECONDS = 120  # for one command
_SHOWN = 5  # faults printed
_ROWS, _NEW_ROWS = 40, 20_000
_PARTIAL = ".*.pcegp-partial-*"
_INTERRUPTED = 130

# Each command, with its outputs.
_COMMANDS: dict[str, tuple[Sequence[str], dict[str, str]]] = {
    "fit": (("table.csv", "--target", "y", "--preset", "fast"),
            {"--out": "fitted.pcegp", "--json": "fit.json"}),
    "tune": (("table.csv", "--target", "y", "--trials", "2"),
             {"--out": "tuned.pcegp", "--json": "tune.json"}),
    "predict": (("model.pcegp", "new.csv"), {"--out": "out.csv", "--json": "predict.json"}),
    "explain": (("model.pcegp",), {"--html": "report.html", "--json": "explain.json"}),
}
_INPUTS = ("table.csv", "new.csv", "model.pcegp")
_OLD = b"0"  # not what any command writes


def write_inputs(folder: Path) -> None:
    """Write tables and a model."""
    rng = np.random.default_rng(0)
    table = rng.uniform(size=(_NEW_ROWS, 3)).round(5).astype(str)
    lines = [",".join(row) for row in table]
    write_text(folder / "table.csv", "\n".join(["a,b,y", *lines[:_ROWS]]) + "\n")
    write_text(folder / "new.csv", "\n".join(["a,b,y", *lines]) + "\n")
    done = _started("fit", {"--out": "model.pcegp"}, folder)
    _, said = done.communicate(timeout=_SECONDS)
    if done.returncode:
        raise TrainingError(f"the model to start from could not be made: {said.decode()}")


def _started(command: str, outputs: dict[str, str], folder: Path) -> "subprocess.Popen[bytes]":
    words = [*_COMMANDS[command][0], *(word for pair in outputs.items() for word in pair)]
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "pcegp", command, *words, "--force"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let children hear Ctrl-C, which a process in the background ignores and passes on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Trial:
    """One command in a folder of its own, with outputs of an earlier run."""

    def __init__(self, command: str, template: Path, folder: Path) -> None:
        self.command, self.folder = command, folder
        self.outputs = _COMMANDS[command][1]
        folder.mkdir()
        for name in _INPUTS:
            copyfile(template / name, folder / name)
        for name in self.outputs.values():
            (folder / name).write_bytes(_OLD)
        self._inputs = [(folder / name).read_bytes() for name in _INPUTS]

    def run(self) -> int:
        """Run to the end; give the exit code."""
        process = _started(self.command, self.outputs, self.folder)
        process.communicate(timeout=_SECONDS)
        return process.returncode

    def stop(self, number: signal.Signals, after: float, when_writing: bool) -> tuple[int, str]:
        """Send a signal `after` seconds from the start, or from the first partial file."""
        process = _started(self.command, self.outputs, self.folder)
        end = perf_counter() + (_SECONDS if when_writing else after)
        while process.poll() is None and perf_counter() < end:
            if when_writing and self.partials():
                sleep(after)
                break
            sleep(0.001)
        process.send_signal(number)
        _, said = process.communicate(timeout=_SECONDS)
        return process.returncode, said.decode()

    def partials(self) -> list[Path]:
        """List files that are not finished."""
        return list(self.folder.glob(_PARTIAL))

    def are_old(self) -> bool:
        """Tell whether no output has changed."""
        return all((self.folder / name).read_bytes() == _OLD for name in self.outputs.values())

    def faults(self, *, old: bool) -> list[str]:
        """List what is wrong: inputs that changed; outputs that are not old, or not whole."""
        now = [(self.folder / name).read_bytes() for name in _INPUTS]
        faults = ["an input changed"] if now != self._inputs else []
        if old and not self.are_old():
            faults.append("an output changed")
        kept = self.folder.glob("*.interrupted*")
        faults += [f"{path.name} is not whole"
                   for path in (*map(self.folder.joinpath, self.outputs.values()), *kept)
                   if not _is_whole(path)]
        return faults


def _is_whole(path: Path) -> bool:
    content = path.read_bytes()
    if content == _OLD:
        return True
    try:
        if path.suffix == ".json":
            return isinstance(json.loads(content), dict)
        if path.suffix == ".pcegp":
            return load(path) is not None
    except (ValueError, ModelFileError):
        return False
    if path.suffix == ".csv":
        return content.count(b"\n") == _NEW_ROWS + 1
    return content.rstrip().endswith(b"</html>")


def interrupt(trial: Trial, after: float, when_writing: bool) -> tuple[str, list[str]]:
    """Send Ctrl-C; tell how the command ended, and what was wrong with that."""
    code, said = trial.stop(signal.SIGINT, after, when_writing)
    faults = trial.faults(old=code != 0)
    if trial.partials():
        faults.append("a partial file stayed")
    if code == 0:
        return "done all the same", faults
    # Until pcegp is imported, Python itself ends the process, by the signal.
    if code not in (_INTERRUPTED, -signal.SIGINT):
        faults.append(f"exit code {code}: {said[-300:]}")
    kept = any(trial.folder.glob("*.interrupted*"))
    return "interrupted, with a model beside" if kept else "interrupted", faults


def kill(trial: Trial, after: float, when_writing: bool) -> tuple[str, list[str]]:
    """Kill the command, and run it again if it left something."""
    trial.stop(signal.SIGKILL, after, when_writing)
    faults = trial.faults(old=False)
    outcome = "killed before any output changed" if trial.are_old() else "outputs whole and new"
    if trial.partials():
        outcome = "partial file left, cleaned by the next run"
        if trial.run() != 0:
            faults.append("the next run failed")
        if trial.partials():
            faults.append("the next run did not clean up")
        faults += trial.faults(old=False)
    return outcome, faults


def run(interrupts: int, kills: int, seed: int, commands: Sequence[str]) -> dict[str, Any]:
    """Send signals to each command in turn; every other round while a file is written."""
    rng, begin = np.random.default_rng(seed), perf_counter()
    outcomes: dict[str, Counter[str]] = {"SIGINT": Counter(), "SIGKILL": Counter()}
    faults = []
    with tempfile.TemporaryDirectory() as name, _interruptible():
        place = Path(name)
        write_inputs(place)
        took = {}
        for command in commands:
            started, trial = perf_counter(), Trial(command, place, place / f"{command}-whole")
            if trial.run() != 0 or trial.are_old() or trial.faults(old=False):
                raise TrainingError(f"{command} fails without any signal")
            took[command] = perf_counter() - started
        for what, count, send in (("SIGINT", interrupts, interrupt), ("SIGKILL", kills, kill)):
            for number in range(count):
                command = commands[number % len(commands)]
                when_writing = number // len(commands) % 2 == 1
                after = rng.uniform(0, 0.02 if when_writing else took[command])
                trial = Trial(command, place, place / f"{what}-{number}")
                outcome, wrong = send(trial, after, when_writing)
                outcomes[what][f"{command}: {outcome}"] += 1
                faults += [{"signal": what, "number": number, "command": command, "fault": fault}
                           for fault in wrong]
    return {"outcomes": {what: dict(sorted(found.items())) for what, found in outcomes.items()},
            "faults": faults, "seconds": perf_counter() - begin}


def main(
    interrupts: int, kills: int, seed: int, json_path: Path | None, echo: Callable[[str], None],
    commands: Sequence[str] = tuple(_COMMANDS),
) -> None:
    """Run, print the outcomes, and write them."""
    figures = run(interrupts, kills, seed, commands)
    echo(f"{interrupts} interrupts and {kills} kills in {figures['seconds']:.0f} s")
    for what, found in figures["outcomes"].items():
        for outcome, count in found.items():
            echo(f"  {count:4d}  {what}  {outcome}")
    for fault in figures["faults"][:_SHOWN]:
        echo(f"  {fault['signal']} {fault['number']}, {fault['command']}: {fault['fault']}")
    echo(f"{len(figures['faults'])} FAULTS." if figures["faults"] else
         "Every file is old or new, and whole.")
    write_figures(json_path, figures, echo)
