"""Ctrl-C and kills: an output is replaced by a command that ends well, or not at all."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pcegp
from pcegp import PCEGPRegressor, PCEGPSearchCV
from pcegp.benchmarks import interrupts
from pcegp.cli import app
from pcegp.cli import describe as describe_command
from pcegp.cli import fit as fit_command
from pcegp.cli import tune as tune_command
from pcegp.errors import FileError, NumericalWarning
from pcegp.io import files
from pcegp.search import loop
from pcegp.search.coordinator import Coordinator
from pcegp.training import optimiser
from pcegp.training.latent import LatentObjective

# What trains a model by the evidence, and by Nadam, with the call that evaluates a likelihood.
TRAININGS = [("fast", LatentObjective, "__call__"), ("paper", optimiser.Descent, "_step")]
FIT = ("fit", "table.csv", "--target", "y", "--preset", "fast", "--out", "good.pcegp")
TUNE = ("tune", "table.csv", "--target", "y", "--trials", "2", "--out", "good.pcegp")


def run(*words):
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    table = rng.uniform(size=(25, 2))
    lines = [f"{a},{b},{np.sin(5 * a) + 0.1 * b}" for a, b in table]
    Path("table.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    PCEGPRegressor(max_iter=2).fit(table, table[:, 0]).save("good.pcegp")
    return tmp_path


def interrupted_at(monkeypatch, owner, name, call):
    """Let a function be interrupted at its so-manieth call, which counts from 1."""
    original, calls = getattr(owner, name), iter(range(1, 10**9))

    def counted(*args, **kwargs):
        if next(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)


@pytest.mark.parametrize(("preset", "owner", "name"), TRAININGS)
def test_an_interrupted_fit_keeps_the_good_model_and_puts_its_own_beside(
    folder, monkeypatch, preset, owner, name
):
    good = Path("good.pcegp").read_bytes()
    for kept in ("good.interrupted.pcegp", "good.interrupted-2.pcegp"):
        with monkeypatch.context() as patch:
            interrupted_at(patch, owner, name, 20)
            done = run(*FIT, "--preset", preset, "--json", "fit.json")
        assert (done.exit_code, done.stdout) == (130, "")
        assert done.stderr.splitlines()[-1] == (
            f"pcegp fit: interrupted: the model so far is in {kept}, good.pcegp was not touched; "
            "use that file, or run the same command again")
        assert pcegp.load(kept).was_interrupted()
        assert run("predict", kept, "table.csv").exit_code == 0
    assert Path("good.pcegp").read_bytes() == good
    assert not Path("fit.json").exists()


def test_a_fit_interrupted_after_its_training_keeps_the_whole_model_beside(folder, monkeypatch):
    good = Path("good.pcegp").read_bytes()
    interrupted_at(monkeypatch, fit_command, "explain", 1)
    done = run(*FIT)
    assert done.exit_code == 130
    assert Path("good.pcegp").read_bytes() == good
    assert not pcegp.load("good.interrupted.pcegp").was_interrupted()


@pytest.mark.parametrize(("preset", "owner", "name"), [
    TRAININGS[0], ("paper", optimiser.Descent, "_see"),
])
def test_an_interrupt_before_anything_is_trained_leaves_no_file(
    folder, monkeypatch, preset, owner, name
):
    before = sorted(folder.iterdir())
    interrupted_at(monkeypatch, owner, name, 1)
    done = run(*FIT, "--preset", preset)
    assert (done.exit_code, done.stderr) == (
        130, "pcegp fit: interrupted: nothing was trained yet, so nothing is kept, and no file was "
        "changed; run the same command again\n")
    assert sorted(folder.iterdir()) == before


def test_what_cannot_be_kept_is_said(folder, monkeypatch):
    interrupted_at(monkeypatch, fit_command, "explain", 1)
    monkeypatch.setattr(PCEGPRegressor, "save", fails_beside(PCEGPRegressor.save))
    done = run(*FIT)
    assert done.exit_code == 130
    assert "could not be kept (no room), good.pcegp was not touched" in done.stderr


def fails_beside(save):
    def saved(self, path, **more):
        if "interrupted" in str(path):
            raise FileError("no room")
        return save(self, path, **more)

    return saved


def test_an_interrupted_search_keeps_the_good_model_and_goes_on(folder, monkeypatch):
    good = Path("good.pcegp").read_bytes()
    with monkeypatch.context() as patch:
        interrupted_at(patch, Coordinator, "end_trials", 1)  # the trials themselves are complete
        done = run(*TUNE)
    assert done.exit_code == 130
    assert "note: the search was interrupted" in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "pcegp tune: interrupted: the model so far is in good.interrupted.pcegp, good.pcegp was "
        "not touched; run the same command again, and the study 'table-y' goes on")
    assert Path("good.pcegp").read_bytes() == good
    pcegp.load("good.interrupted.pcegp")
    done = run(*TUNE)
    assert done.exit_code == 0, done.output
    assert "2 trials" in done.stdout
    assert Path("good.pcegp").read_bytes() != good


def test_a_search_interrupted_before_a_trial_is_complete_says_how_to_go_on(folder, monkeypatch):
    interrupted_at(monkeypatch, loop, "_add_batch", 1)
    done = run(*TUNE)
    assert (done.exit_code, done.stderr) == (
        130, "pcegp tune: interrupted: run the same command again, and the study 'table-y' goes "
        "on\n")
    assert not list(folder.glob("*.interrupted*"))


def test_a_search_tells_whether_it_was_interrupted(monkeypatch):
    X = np.random.default_rng(0).uniform(size=(20, 1))
    search = PCEGPSearchCV(lambda trial: {"degree": trial.suggest_int("degree", 0, 1),
                                          "max_iter": 2}, n_trials=2, cv=2, refit=False)
    with monkeypatch.context() as patch:
        interrupted_at(patch, Coordinator, "end_trials", 1)
        with pytest.warns(NumericalWarning, match="search was interrupted"):
            search.fit(X, X[:, 0])
    assert search.interrupted_
    assert not search.fit(X, X[:, 0]).interrupted_


def test_an_interrupt_after_the_files_took_their_places_comes_too_late(folder, monkeypatch):
    original = files.Together.commit

    def commit(self):
        original(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(files.Together, "commit", commit)
    before = signal.getsignal(signal.SIGINT)
    done = run("info", "good.pcegp", "--json", "info.json")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("info.json").read_text())["rows"] == 25
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("interruptible")
def test_signals_at_random_moments_leave_files_old_or_new_and_whole(tmp_path):
    said, file = [], tmp_path / "i.json"

    def main(count, **changes):
        settings = {"interrupts": count, "kills": count, "seed": 1, **changes}
        interrupts.main(json_path=file, show=False, echo=said.append, commands=("predict",),
                        **settings)
        return json.loads(file.read_text())

    assert len(main(1)["trials"]) == 2
    figures = main(2)
    assert any("2 of 4 signals are in" in line for line in said)
    assert "Every file is old or new, and whole." in said
    assert figures["faults"] == []
    assert {what: sum(found.values()) for what, found in figures["outcomes"].items()} == {
        "SIGINT": 2, "SIGKILL": 2}
    assert main(2) == figures  # nothing was left to do


def test_the_bench_sees_what_it_looks_for(folder, tmp_path):
    for name in ("new.csv", "model.pcegp"):
        Path(name).write_bytes(b"")
    trial = interrupts.Trial("fit", folder, tmp_path / "trial")
    assert trial.faults(old=True) == []
    (trial.folder / "fit.json").write_text("{}")
    assert trial.faults(old=True) == ["an output changed"]
    (trial.folder / "fitted.pcegp").write_bytes(b"PK half")
    (trial.folder / "table.csv").unlink()
    (trial.folder / "table.csv").touch()
    assert trial.faults(old=False) == ["an input changed", "fitted.pcegp is not whole"]


def trial_row(number, faults=()):
    return {"signal": "SIGINT", "number": number, "command": "fit", "outcome": "interrupted",
            "faults": list(faults), "when_writing": False, "after": 0.1}


def test_a_file_of_another_seed_or_of_anything_else_is_not_carried_on(tmp_path):
    file = tmp_path / "i.json"
    results = interrupts.Results(file, seed=1)
    results.add(trial_row(0), 2.0)
    plan = interrupts.planned(2, 0, ("fit",))
    assert [row["number"] for row in interrupts.Results(file, 1).missing(plan)] == [1]
    assert len(interrupts.Results(file, 2).missing(plan)) == 2
    for text in ("{}", "[1]", "half", '{"version": 1, "trials": 3}'):
        file.write_text(text)
        assert len(interrupts.Results(file, 1).missing(plan)) == 2


def test_a_fault_of_any_run_ends_the_bench_with_1(tmp_path):
    file = tmp_path / "i.json"
    interrupts.Results(file, seed=0).add(trial_row(0, ["an output changed"]), 1.0)
    done = run("bench", "interrupts", "--interrupts", "1", "--kills", "0", "--json", str(file))
    assert done.exit_code == 1
    assert "SIGINT 0, fit: an output changed" in done.stdout
    assert "1 fault was seen" in done.stderr
    assert json.loads(file.read_text())["faults"][0]["fault"] == "an output changed"


def test_a_command_that_hangs_is_a_fault_and_is_ended(monkeypatch):
    monkeypatch.setattr(interrupts, "_SECONDS", 0.2)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code, said = interrupts._ended(process)
    assert (code, process.poll()) == (-signal.SIGKILL, -signal.SIGKILL)
    assert "hung" in said


IMPATIENT = """
import os, signal, sys, time
from pcegp import PCEGPRegressor
from pcegp.cli import app
from pcegp.cli import fit as command
from pcegp.training import latent

def press(owner, name, at=1):
    calls, original = [], getattr(owner, name)
    def pressed(*args, **kwargs):
        calls.append(1)
        if len(calls) == at:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
        return original(*args, **kwargs)
    setattr(owner, name, pressed)

press(PCEGPRegressor, "save")
press(command, "keep_encoding")
press(latent.LatentObjective, "__call__", 20) if sys.argv.pop(1) == "training" else None
try:
    app()
finally:
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("when", ["training", "after"])
def test_ctrl_c_pressed_again_is_no_other_interrupt(folder, when):
    done = subprocess.run([sys.executable, "-c", IMPATIENT, when, *FIT], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert "interrupted: the model so far is in good.interrupted.pcegp" in done.stderr
    kept = pcegp.load("good.interrupted.pcegp")
    assert kept.was_interrupted() == (when == "training")


BECOMES_ANOTHER_ERROR = """
import os, signal, sys, time
from pcegp.cli import app

module = sys.argv.pop(1)

class Extensions:
    def find_spec(self, name, *_):
        if name == module:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1.0)
            except KeyboardInterrupt:
                raise ImportError("initialization failed") from None

sys.meta_path.insert(0, Extensions())
if module == "extension":
    from pcegp.cli import fit as command
    command.explain = lambda *_, **__: __import__("extension")
app()
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("module", "words", "said"), [
    ("pcegp.cli.describe", ("explain", "good.pcegp", "--debug"), "no file was changed"),
    ("pcegp.cli.output", ("predict", "good.pcegp", "table.csv"), "no file was changed"),
    ("pcegp.cli.tune", TUNE, "nothing was trained yet, so nothing is kept, and no file was "
                             "changed; run the same command again"),
    ("extension", FIT, "the model so far is in good.interrupted.pcegp, good.pcegp was not "
                       "touched; use that file, or run the same command again"),
])
def test_ctrl_c_that_surfaces_as_another_error_is_an_interrupt(folder, module, words, said):
    """As where it arrives while a compiled extension is imported."""
    done = subprocess.run([sys.executable, "-c", BECOMES_ANOTHER_ERROR, module, *words],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == f"pcegp {words[0]}: interrupted: {said}"


def test_ctrl_c_before_the_training_says_that_nothing_is_kept(folder, monkeypatch):
    before = sorted(folder.iterdir())
    for words, owner, name in ((FIT, fit_command, "read_training"),
                               (TUNE, tune_command, "read_training")):
        with monkeypatch.context() as patch:
            interrupted_at(patch, owner, name, 1)
            done = run(*words)
        assert done.exit_code == 130
        assert "nothing was trained yet, so nothing is kept" in done.stderr
    with monkeypatch.context() as patch:
        interrupted_at(patch, describe_command, "load", 1)
        assert run("info", "good.pcegp").stderr == "pcegp info: interrupted: no file was changed\n"
    assert sorted(folder.iterdir()) == before
