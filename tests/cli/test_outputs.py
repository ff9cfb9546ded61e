"""Whatever outputs are asked for, no input and no file of another kind is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pcegp.benchmarks import output_faults
from pcegp.cli import app, output
from pcegp.cli import describe as describe_command
from pcegp.io import places

FIT = ("fit", "table.csv", "--target", "y", "--preset", "fast")
PREDICT = ("predict", "model.pcegp", "new.csv")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    output_faults.write_template(app, folder)
    return folder


@pytest.fixture
def folder(template, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output_faults.lay_out(tmp_path, template)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((*FIT, "--out", "table.csv"), "--out table.csv is the table itself"),
        ((*FIT, "--out", "link.csv"), "is the table itself"),
        ((*FIT, "--json", "here/table.csv"), "is the table itself"),
        ((*PREDICT, "--out", "model.pcegp"), "--out model.pcegp is the model itself"),
        ((*PREDICT, "--out", "hard.pcegp"), "is the model itself"),
        ((*PREDICT, "--json", "deep/../new.csv"), "is the table itself"),
        ((*PREDICT, "--json", "predictions.csv"), "predictions.csv is also --out"),
        ((*PREDICT, "--out", "x.csv", "--json", "X.csv"), "is also --out"),
        (("evaluate", "model.pcegp", "table.csv", "--json", "table.csv"), "is the table itself"),
        (("explain", "model.pcegp", "--html", "model.pcegp"), "is the model itself"),
        (("explain", "model.pcegp", "--html", "a", "--json", "a"), "--json a is also --html"),
        (("info", "model.pcegp", "--json", "link.pcegp"), "is the model itself"),
        (("tune", *FIT[1:4], "--out", "table.csv"), "is the table itself"),
        (("tune", *FIT[1:4], "--storage", "table.csv"), "is the table itself"),
        (("tune", *FIT[1:4], "--storage", "sqlite:///table.csv"), "is the table itself"),
        (("tune", *FIT[1:4], "--out", "table-y.journal"), "is also the journal of the study"),
        (("tune", *FIT[1:4], "--study", "s", "--out", "s.journal"),
         "is also the journal of --study"),
        (("tune", *FIT[1:4], "--storage", "s", "--out", "s"), "is also --storage"),
        (("demo", "--json", "demo/higdon.png"), "is also --out"),
        (("reproduce", "--out", "r", "--json", "r/results.jsonl"), "is also results.jsonl"),
        (("bench", "speed", "--json", "bench/speed.png"), "is also --out"),
    ],
)
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_output_that_is_an_input_or_another_output_is_refused(folder, words, text, force):
    before = output_faults.look_at(folder)
    done = run(*words, *force)
    assert (done.exit_code, done.stdout) == (1, "")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert output_faults.look_at(folder) == before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((*FIT, "--out", "new.csv"), "exists and is not a model file"),
        ((*FIT, "--json", "old.csv"), "exists and is not a JSON file"),
        ((*PREDICT, "--out", "odd.csv"), "exists and is not a table file"),
        (("explain", "model.pcegp", "--html", "notes.md"), "exists and is not an HTML file"),
        (("info", "model.pcegp", "--json", "to-old.pcegp"), "exists and is not a JSON file"),
        (("demo", "--json", "old.csv"), "exists and is not a JSON file"),
        (("bench", "files", "--json", "old.csv"), "exists and is not a JSON file"),
    ],
)
def test_a_file_of_another_kind_is_replaced_only_by_force(folder, words, text):
    Path("odd.csv").write_bytes(Path("old.pcegp").read_bytes())
    before = output_faults.look_at(folder)
    done = run(*words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert text in done.stderr
    assert "--force" in done.stderr
    assert output_faults.look_at(folder) == before
    if words[0] in ("predict", "info", "fit", "explain"):
        assert run(*words, "--force").exit_code == 0
        assert output_faults.look_at(folder) != before


def test_a_file_that_cannot_be_read_is_replaced_only_by_force(folder, monkeypatch):
    def may_replace(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(places, "may_replace", may_replace)
    done = run("info", "model.pcegp", "--json", "old.json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "pcegp info: --json old.json exists and cannot be read (Permission denied), so nobody "
        "knows whether it is a JSON file: choose another place, or replace it with --force\n")
    assert run("info", "model.pcegp", "--json", "old.json", "--force").exit_code == 0


@pytest.mark.parametrize("path", ["old.csv", "to-old.csv", "a.csv"])
def test_a_file_of_the_same_kind_is_replaced_and_a_link_stays(folder, path):
    done = run(*PREDICT, "--out", path, "--json", "old.json")
    assert done.exit_code == 0, done.output
    assert "mean" in Path(path).read_text()
    assert Path("to-old.csv").is_symlink()
    assert json.loads(Path("old.json").read_text())["rows"] == 5
    # An empty file is nobody's loss, and an unusual ending no hindrance for JSON.
    Path("empty").touch()
    for _ in range(2):
        assert run("info", "model.pcegp", "--json", "empty").exit_code == 0


@pytest.mark.parametrize("path", ["pipe", "device", "circle", "deep", "/proc/a", "protected.json"])
def test_what_takes_no_file_is_refused_before_any_work(folder, path):
    before = output_faults.look_at(folder)
    for words in (FIT, PREDICT):
        done = run(*words, "--json", path)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert f"--json {path}" in done.stderr
    assert output_faults.look_at(folder) == before


@pytest.mark.parametrize(
    "words",
    [(*FIT, "--out", "modles/a.pcegp"), (*PREDICT, "--json", "deep/er/a.json"),
     (*PREDICT, "--out", "no/where/a.csv"), ("explain", "model.pcegp", "--html", "r/a.html"),
     ("tune", *FIT[1:4], "--storage", "studies/a.journal"),
     ("bench", "stress", "--json", "b/a.json"), ("demo", "--json", "figures/a.json")],
)
def test_a_folder_that_does_not_exist_is_not_made(folder, words):
    before = output_faults.look_at(folder)
    done = run(*words)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"{words[-2]} {words[-1]} lies in the folder {folder}" in done.stderr
    assert "which does not exist: create it" in done.stderr
    assert output_faults.look_at(folder) == before


def test_the_journal_of_a_study_is_blamed_on_the_option_that_named_it(folder):
    for words, text in (
            (("--study", "no/s"), "the journal of --study no/s.journal lies in the folder"),
            (("--study", "s", "--storage", "no/s"), "tune: --storage no/s lies in the folder")):
        done = run("tune", *FIT[1:4], *words)
        assert done.exit_code == 1
        assert text in done.stderr


def test_a_command_that_fills_a_folder_makes_it(folder, monkeypatch):
    monkeypatch.setattr("pcegp.benchmarks.toy.main", lambda out, json, echo: echo(f"{out} {json}"))
    done = run("demo", "--out", "new/demo", "--json", "new/demo/figures.json")
    assert (done.exit_code, done.stdout) == (0, "new/demo new/demo/figures.json\n")


@pytest.mark.parametrize("words", [("info",), ("explain",), ("predict", "model.pcegp"),
                                   ("fit", "--target", "y")])
def test_a_pipe_or_device_as_input_is_refused_at_once(folder, words):
    for path, what in (("pipe", "a pipe"), ("/dev/zero", "a device")):
        done = run(*words, path)
        assert done.exit_code == 1
        assert f"{path} is {what}: save the " in done.stderr


def test_an_error_after_the_training_keeps_the_model(folder, monkeypatch):
    def fail(*_):
        raise MemoryError("no room for scores")

    monkeypatch.setattr("pcegp.cli.fit.print_scores", fail)
    old = Path("old.pcegp").read_bytes()
    done = run(*FIT, "--out", "old.pcegp")
    assert done.exit_code == 1
    assert done.stderr == ("pcegp fit: no room for scores; the trained model is in "
                           "old.unfinished.pcegp\n")
    assert Path("old.pcegp").read_bytes() == old
    assert run("info", "old.unfinished.pcegp").exit_code == 0


def test_an_error_of_our_own_after_the_training_stays_one_and_keeps_the_model(folder, monkeypatch):
    def fail(*_):
        raise TypeError("not foreseen")

    monkeypatch.setattr("pcegp.cli.fit.print_scores", fail)
    done = run(*FIT, "--out", "new.pcegp")
    assert done.exit_code == 1
    assert done.stderr == ("pcegp fit: an error of pcegp itself (TypeError: not foreseen): please "
                           "report it with what --debug shows; the trained model is in "
                           "new.unfinished.pcegp\n")
    assert not Path("new.pcegp").exists()
    done = run(*FIT, "--out", "new.pcegp", "--debug")
    assert isinstance(done.exception, TypeError)
    assert done.exception.__notes__ == ["the trained model is in new.unfinished-2.pcegp"]


def test_an_error_of_our_own_is_one_sentence(folder, monkeypatch):
    def fail(*_):
        raise TypeError("not\nforeseen")

    monkeypatch.setattr(describe_command, "info", fail)
    done = run("info", "model.pcegp")
    assert done.exit_code == 1
    assert done.stderr == ("pcegp info: an error of pcegp itself (TypeError: not foreseen): "
                           "please report it with what --debug shows\n")
    assert isinstance(run("info", "model.pcegp", "--debug").exception, TypeError)


def test_names_that_differ_in_case_or_in_the_form_of_letters_may_be_one_file(tmp_path):
    assert output._is_same(tmp_path / "ü.csv", tmp_path / "U\N{COMBINING DIAERESIS}.CSV")
    assert not output._is_same(tmp_path / "a.csv", tmp_path / "b.csv")


def test_no_random_command_line_loses_anything(tmp_path):
    figures = tmp_path / "outputs.json"
    done = run("bench", "outputs", "--combinations", 25, "--json", figures)
    assert done.exit_code == 0, done.output
    assert "No input changed" in done.output
    assert json.loads(figures.read_text())["faults"] == []


def test_the_fuzz_sees_what_it_looks_for(folder, monkeypatch):
    typed, chosen = ["info", "model.pcegp", "--json", "a.json"], {"--json": "a.json"}

    def breaks(harm):
        monkeypatch.setattr(describe_command, "info", lambda *_: harm())
        return output_faults.faults_of(app, typed, chosen, folder)[1]

    assert breaks(lambda: None) == ["a.json is missing"]
    assert breaks(lambda: os.truncate("table.csv", 1)) == ["a.json is missing",
                                                           "table.csv changed"]
    assert breaks(lambda: Path("pipe").unlink()) == ["a.json is missing", "pipe changed"]
    assert breaks(lambda: Path("a.json").write_text("{}")) == []
