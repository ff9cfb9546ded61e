"""Command lines whose outputs are inputs, links, devices, folders or places that take no file.

Each runs in a folder of its own, in this process. Inputs never change, and links and devices are
never replaced. A command that ends with 0 has written its outputs; one that is refused leaves no
trace, not even a folder, and says why in one sentence.
"""

import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from shutil import copyfile
from time import perf_counter
from typing import Any

import numpy as np
import typer
from typer.testing import CliRunner

from pcegp._progress import Update, bar
from pcegp.benchmarks.stress import bounded
from pcegp.benchmarks.verdict import conclude
from pcegp.errors import TrainingError
from pcegp.estimators import load
from pcegp.io import write_text

_SECONDS = 60  # for one command
_REFUSED = (1, 2)  # exit codes: a file cannot be used; the command was typed wrongly
_INPUTS = ("table.csv", "new.csv", "model.pcegp")
_FIT = ("fit", "table.csv", "--target", "y", "--preset", "fast")
_TUNE = ("tune", "table.csv", "--target", "y", "--trials", "1", "--space", "paper")

# Each command with its outputs. Those of the second list take long, so one of their outputs
# always is a path that takes no file, and they are refused.
_QUICK: list[tuple[Sequence[str], Sequence[str]]] = [
    (_FIT, ("--out", "--json")),
    (("predict", "model.pcegp", "new.csv"), ("--out", "--json")),
    (("evaluate", "model.pcegp", "table.csv"), ("--json",)),
    (("explain", "model.pcegp"), ("--html", "--json")),
    (("info", "model.pcegp"), ("--json",)),
]
_SLOW: list[tuple[Sequence[str], Sequence[str]]] = [
    (_TUNE, ("--out", "--json", "--storage")),
    (("demo",), ("--out", "--json")),
    (("reproduce", "--budget", "smoke"), ("--out", "--json")),
    *((("bench", name), ("--json",)) for name in
      ("speed", "files", "stress", "outputs", "interrupts")),
]
_FINE = ("a.csv", "a.json", "a.html", "a.pcegp", "deep/a.json", "old.csv", "old.json",
         "old.html", "old.pcegp", "to-old.csv", "to-old.pcegp", "to-nothing.json")
_ODD = ("table.csv", "new.csv", "model.pcegp", "./table.csv", "deep/../new.csv", "here/model.pcegp",
        "link.csv", "link.pcegp", "hard.csv", "hard.pcegp", "notes.md", "protected.json",
        "deep/er/a.json", "mistyped/a.csv")
_ENDINGS = {"--json": ".json", "--html": ".html"}
_NEVER = ("pipe", "device", "circle", "pipe-link", "table.csv/a.json", "/proc/a.json")

Look = dict[str, tuple[Any, ...]]


def lay_out(folder: Path, template: Path) -> None:
    """Fill a folder with inputs, older outputs, links and things that are no files."""
    for name in _INPUTS:
        copyfile(template / name, folder / name)
    copyfile(template / "model.pcegp", folder / "old.pcegp")
    for name, text in (("old.csv", "a,mean\n1,2\n"), ("old.json", "{}"), ("notes.md", "mine"),
                       ("old.html", "<!doctype html>"), ("protected.json", "{}")):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "protected.json").chmod(0o444)
    (folder / "deep").mkdir()
    for name, leads_to in (("link.csv", "table.csv"), ("link.pcegp", "model.pcegp"),
                           ("here", "."), ("circle", "circle"), ("pipe-link", "pipe"),
                           ("to-old.csv", "old.csv"), ("to-old.pcegp", "old.pcegp"),
                           ("to-nothing.json", "nothing.json")):
        (folder / name).symlink_to(leads_to)
    os.link(folder / "new.csv", folder / "hard.csv")
    os.link(folder / "model.pcegp", folder / "hard.pcegp")
    os.mkfifo(folder / "pipe")
    try:  # A device of our own: a fault must not cost the machine its /dev/null.
        os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        (folder / "device").symlink_to("/dev/null")


def look_at(folder: Path) -> Look:
    """Note what is in a folder: kinds, permissions, contents, and where links lead."""
    found: Look = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content: Any = None
        if stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (status.st_mode, content)
    return found


def command_line(rng: np.random.Generator) -> tuple[list[str], dict[str, str]]:
    """Choose a command and its outputs; give what is typed, and the path of each option."""
    slow = rng.random() < 0.3
    words, options = _choice(rng, _SLOW if slow else _QUICK)
    chosen: dict[str, str] = {}
    never = _choice(rng, options) if slow else None
    for option in options:
        if option == never:
            chosen[option] = _choice(rng, _NEVER)
        elif option == "--out" or rng.random() < 0.7:
            ending = _ENDINGS.get(option, ".csv" if words[0] == "predict" else ".pcegp")
            fine = [name for name in _FINE if name.endswith(ending)]
            chosen[option] = _choice(rng, _choice(rng, (fine, fine, _FINE, _ODD, _ODD, _NEVER)))
    typed = [*words, *(word for pair in chosen.items() for word in pair)]
    return [*typed, *(["--force"] if rng.random() < 0.2 else [])], chosen


def _choice(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


def faults_of(
    app: typer.Typer, typed: Sequence[str], chosen: dict[str, str], folder: Path
) -> tuple[str, list[str]]:
    """Run a command in a folder; tell how it ended, and what was wrong with that."""
    before = look_at(folder)
    with chdir(folder):
        try:
            with bounded(_SECONDS):
                done = CliRunner().invoke(app, list(typed))
        except TimeoutError:
            return "hung", ["hung"]
        after = look_at(folder)
        faults = []
        if done.exit_code == 0:
            written = {os.path.relpath(os.path.realpath(path)) for path in chosen.values()}
            faults += [f"{path} is missing" for option, path in chosen.items()
                       if not _is_good(option, path)]
        else:
            written = set()
            last = done.stderr.splitlines()[-1:] or [""]
            if done.exit_code not in _REFUSED or not last[0].startswith("pcegp "):
                faults.append(f"exit code {done.exit_code}, {last[0] or done.exception!r}")
            elif "error of pcegp itself" in last[0] or not done.stderr.endswith(f"{last[0]}\n"):
                faults.append(last[0])
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name) and name not in written:
                faults.append(f"{name} changed")
        inputs = written.intersection(_INPUTS).intersection(typed[:3])
        faults += [f"the input {name} changed" for name in sorted(inputs)]
    return "done" if done.exit_code == 0 else "refused", faults


def _is_good(option: str, path: str) -> bool:
    """Tell whether an output is there and of the right kind."""
    with suppress(ValueError, OSError):
        if option == "--json":
            return isinstance(json.loads(Path(path).read_bytes()), dict)
        if option == "--html":
            return Path(path).read_bytes().lower().startswith(b"<!doctype html")
        if Path(path).read_bytes().startswith(b"PK"):
            return load(path) is not None
        return b"mean" in Path(path).read_bytes()
    return False


def run(
    app: typer.Typer, combinations: int, seed: int, progress: Update | None = None
) -> dict[str, Any]:
    """Run random command lines, and count how they ended."""
    rng, begin = np.random.default_rng(seed), perf_counter()
    outcomes, faults = Counter[str](), []
    with tempfile.TemporaryDirectory() as name:
        template = Path(name) / "template"
        write_template(app, template)
        for number in range(combinations):
            folder = Path(name) / str(number)
            folder.mkdir()
            lay_out(folder, template)
            typed, chosen = command_line(rng)
            outcome, wrong = faults_of(app, typed, chosen, folder)
            outcomes[f"{' '.join(typed[: 1 + (typed[0] == 'bench')])} {outcome}"] += 1
            faults += [{"command": " ".join(typed), "fault": fault} for fault in wrong]
            if progress is not None:
                progress(number + 1)
    return {"combinations": combinations, "outcomes": dict(sorted(outcomes.items())),
            "faults": faults, "seconds": perf_counter() - begin}


def write_template(app: typer.Typer, folder: Path, rows: int = 14) -> None:
    """Write the inputs: two tables and the model of one."""
    rng = np.random.default_rng(0)
    table = rng.uniform(size=(rows, 3))
    lines = [",".join(f"{value:.5f}" for value in row) for row in table]
    write_text(folder / "table.csv", "\n".join(["a,b,y", *lines]) + "\n")
    write_text(folder / "new.csv", "\n".join(["a,b,y", *lines[:5]]) + "\n")
    with chdir(folder):
        done = CliRunner().invoke(app, [*_FIT, "--out", "model.pcegp"])
    if done.exit_code:
        raise TrainingError(f"the model to start from could not be made: {done.output}")


def main(
    app: typer.Typer, combinations: int, seed: int, json_path: Path | None, show: bool,
    echo: Callable[[str], None],
) -> None:
    """Run, print the outcomes, and write them; a fault is an error at the end."""
    with bar(show, combinations, "command lines") as progress:
        figures = run(app, combinations, seed, progress)
    echo(f"{combinations} command lines in {figures['seconds']:.0f} s")
    for outcome, count in figures["outcomes"].items():
        echo(f"  {count:6d}  {outcome}")
    told = [f"pcegp {fault['command']}: {fault['fault']}" for fault in figures["faults"]]
    conclude(told, "No input changed, and no output is missing.", figures, json_path, echo)
