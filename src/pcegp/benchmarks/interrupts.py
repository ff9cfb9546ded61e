"""Commands that are interrupted or killed, as real processes, at random moments.

Each has outputs of an earlier run. After Ctrl-C they must be as they were, unless the command
ended with 0, and nothing half written may stay. After a kill each is old or new, and whole; a
partial file may stay until the same command has run again.

Each trial has random numbers of its own, so a run can be stopped at any moment and carried on.
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
from shutil import copyfile, rmtree
from time import perf_counter, sleep
from typing import Any

import numpy as np

from pcegp import __version__
from pcegp._progress import Update, bar
from pcegp.benchmarks.verdict import conclude
from pcegp.errors import ModelFileError, TrainingError, shown
from pcegp.estimators import load
from pcegp.io import write_figures, write_text

_SECONDS = 120  # for one command
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

Row = dict[str, Any]


def write_inputs(folder: Path) -> None:
    """Write tables and a model."""
    rng = np.random.default_rng(0)
    table = rng.uniform(size=(_NEW_ROWS, 3)).round(5).astype(str)
    lines = [",".join(row) for row in table]
    write_text(folder / "table.csv", "\n".join(["a,b,y", *lines[:_ROWS]]) + "\n")
    write_text(folder / "new.csv", "\n".join(["a,b,y", *lines]) + "\n")
    code, said = _ended(_started("fit", {"--out": "model.pcegp"}, folder))
    if code:
        raise TrainingError(f"the model to start from could not be made: {said}")


def _started(command: str, outputs: dict[str, str], folder: Path) -> "subprocess.Popen[bytes]":
    words = [*_COMMANDS[command][0], *(word for pair in outputs.items() for word in pair)]
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "pcegp", command, *words, "--force"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


def _ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Wait for a command; give its exit code and what it said. One that hangs is killed."""
    try:
        _, said = process.communicate(timeout=_SECONDS)
        return process.returncode, said.decode()
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, f"hung for {_SECONDS} s"
    finally:  # also where we are interrupted ourselves
        if process.poll() is None:
            process.kill()
            process.communicate()


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
        return _ended(_started(self.command, self.outputs, self.folder))[0]

    def stop(self, number: signal.Signals, after: float, when_writing: bool) -> tuple[int, str]:
        """Send a signal `after` seconds from the start, or from the first partial file."""
        process = _started(self.command, self.outputs, self.folder)
        end = perf_counter() + (_SECONDS if when_writing else after)
        try:
            while process.poll() is None and perf_counter() < end:
                if when_writing and self.partials():
                    sleep(after)
                    break
                sleep(0.001)
            process.send_signal(number)
        except BaseException:  # our own interrupt must not leave a process behind
            process.kill()
            raise
        return _ended(process)

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


# What each signal does, and its number among the random numbers.
_SENT = {"SIGINT": (interrupt, 0), "SIGKILL": (kill, 1)}


def planned(interrupts: int, kills: int, commands: Sequence[str]) -> list[Row]:
    """List the trials: signals to each command in turn."""
    return [{"signal": what, "number": number, "command": commands[number % len(commands)],
             # Every other round waits for a file that is being written.
             "when_writing": number // len(commands) % 2 == 1}
            for what, count in (("SIGINT", interrupts), ("SIGKILL", kills))
            for number in range(count)]


def _key(row: Row) -> tuple[Any, ...]:
    return row["signal"], row["number"], row["command"]


class Results:
    """The trials that were made, in a file of figures that is written anew after each.

    A file of the same seed and version is carried on; another one is replaced.
    """

    def __init__(self, path: Path | None, seed: int) -> None:
        self.path, self._head = path, {"version": __version__, "seed": seed}
        self.rows: list[Row] = []
        self._seconds = 0.0
        if path is not None and path.exists():
            self._carry_on(path)

    def _carry_on(self, path: Path) -> None:
        try:
            found = json.loads(path.read_bytes())
            if all(found[name] == value for name, value in self._head.items()):
                self.rows, self._seconds = list(found["trials"]), float(found["seconds"])
                self.figures()
        except (ValueError, KeyError, TypeError, AttributeError):
            self.rows, self._seconds = [], 0.0

    def add(self, row: Row, seconds: float) -> None:
        """Add a trial that took so long; it is on the disk when this returns."""
        self.rows.append(row)
        self._seconds += seconds
        write_figures(self.path, self.figures(), lambda _: None)

    def missing(self, plan: Sequence[Row]) -> list[Row]:
        """List the trials of a plan that were not made yet."""
        known = set(map(_key, self.rows))
        return [row for row in plan if _key(row) not in known]

    def faults(self) -> list[Row]:
        """List all faults with their trials."""
        return [{**{name: row[name] for name in ("signal", "number", "command")}, "fault": fault}
                for row in self.rows for fault in row["faults"]]

    def figures(self) -> dict[str, Any]:
        """Count how the trials ended."""
        outcomes = {what: Counter(f"{row['command']}: {row['outcome']}" for row in self.rows
                                  if row["signal"] == what) for what in _SENT}
        return {**self._head, "seconds": self._seconds, "faults": self.faults(),
                "outcomes": {what: dict(sorted(found.items()))
                             for what, found in outcomes.items()},
                "trials": self.rows}


def run(plan: Sequence[Row], seed: int, results: Results, progress: Update | None = None) -> None:
    """Make the trials of a plan."""
    with tempfile.TemporaryDirectory() as name, _interruptible():
        place = Path(name)
        write_inputs(place)
        took = {command: _whole_run(command, place)
                for command in dict.fromkeys(row["command"] for row in plan)}
        for done, row in enumerate(plan, 1):
            begin = perf_counter()
            send, kind = _SENT[row["signal"]]
            rng = np.random.default_rng([seed, kind, row["number"]])
            after = rng.uniform(0, 0.02 if row["when_writing"] else took[row["command"]])
            trial = Trial(row["command"], place, place / f"{row['signal']}-{row['number']}")
            outcome, faults = send(trial, after, row["when_writing"])
            rmtree(trial.folder)
            results.add({**row, "after": after, "outcome": outcome, "faults": faults},
                        perf_counter() - begin)
            if progress is not None:
                progress(done)


def _whole_run(command: str, place: Path) -> float:
    """Run a command without any signal; tell how long it takes."""
    begin, trial = perf_counter(), Trial(command, place, place / f"{command}-whole")
    if trial.run() != 0 or trial.are_old() or trial.faults(old=False):
        raise TrainingError(f"{command} fails without any signal")
    return perf_counter() - begin


def main(
    interrupts: int, kills: int, seed: int, json_path: Path | None, show: bool,
    echo: Callable[[str], None], commands: Sequence[str] = tuple(_COMMANDS),
) -> None:
    """Make what is missing, print all outcomes, and write them; a fault is an error at the end."""
    results, plan = Results(json_path, seed), planned(interrupts, kills, commands)
    missing = results.missing(plan)
    if json_path is not None:
        echo(f"{len(plan) - len(missing)} of {len(plan)} signals are in {shown(json_path, 1000)}, "
             f"{len(missing)} to go; stop at any time, the same command goes on")
    if missing:
        with bar(show, len(missing), "signals") as progress:
            run(missing, seed, results, progress)
    figures, faults = results.figures(), results.faults()
    echo(f"{len(results.rows)} signals in {figures['seconds']:.0f} s")
    for what, found in figures["outcomes"].items():
        for outcome, count in found.items():
            echo(f"  {count:4d}  {what}  {outcome}")
    told = [f"{fault['signal']} {fault['number']}, {fault['command']}: {fault['fault']}"
            for fault in faults]
    conclude(told, "Every file is old or new, and whole.", figures, json_path, echo)
