"""What was typed: exit codes, names of options, help; and what is shown meanwhile."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from pcegp.cli import app, running, terminal
from pcegp.errors import MissingPackageError, SettingError

FRAME = pd.DataFrame({"flow": [k / 20 for k in range(20)],
                      "load": [(7 * k) % 20 for k in range(20)]})
FIT = ("fit", "plant.csv", "--target", "yield")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(**{"yield": FRAME["flow"] ** 2}).to_csv("plant.csv", index=False)
    return tmp_path


@pytest.fixture
def model(folder):
    done = run(*FIT, "--preset", "fast")
    assert done.exit_code == 0, done.output
    return folder / "model.pcegp"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((*FIT, "--preset", "quick"),
         "--preset 'quick' is not known: choose from auto, fast, paper"),
        ((*FIT, "--jobs", "-3"), "--jobs -3 must be a whole number of 1 or more"),
        ((*FIT, "--jobs", "0"), "--jobs 0 must be"),
        ((*FIT, "--features", ","), "--features names nothing: name a column, or leave"),
        ((*FIT, "--categorical", ", ,"), "--categorical names nothing"),
        (("tune", *FIT[1:], "--jobs", "0"), "--jobs 0 must be a whole number of 1 to 10000, or "
         "below 0 as joblib counts: -1 for all cores, -2 for all but one"),
        (("reproduce", "--jobs", "0"), "--jobs 0 must be a whole number of 1 to 10000"),
        (("tune", *FIT[1:], "--seed", "-1"), "--seed -1 must be a whole number from 0"),
        (("tune", *FIT[1:], "--space", "all"), "--space 'all' is not known"),
        (("tune", *FIT[1:], "--objective", "mse"), "--objective 'mse' is not known"),
        (("reproduce", "--methods", "magic"), "--methods 'magic' is not known"),
        (("reproduce", "--protocol", "mine"), "--protocol 'mine' is not known"),
        (("tune", *FIT[1:], "--time", "soon"), "--time 'soon' is not a duration"),
        (("predict", "model.pcegp", "plant.csv", "--interval", "95"), "--interval 95 must lie"),
        (("predict", "model.pcegp", "plant.csv", "--out", "a.txt"), "--out a.txt ends in none of"),
        (("reproduce", "--budget", "long"), "--budget 'long' is not known"),
        (("reproduce", "--only", ","), "--only names nothing"),
    ],
)
def test_a_wrong_value_of_an_option_is_named_as_it_was_typed(folder, words, text):
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert "n_jobs" not in done.stderr
    assert [path.name for path in folder.iterdir()] == ["plant.csv"]


@pytest.mark.parametrize(
    "words",
    [(*FIT, "--out", ""), (*FIT, "--json="), (*FIT, "--features", ""),
     ("tune", *FIT[1:], "--storage", ""), ("bench", "stress", "--json", "")],
)
def test_an_empty_word_is_typed_wrongly(folder, words):
    done = run(*words)
    assert done.exit_code == 2
    option = next(word for word in reversed(words) if word).rstrip("=")
    assert f"Invalid value for {option}: it is empty" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["plant.csv"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((*FIT, "--force", ""), "Invalid value for an argument: it is empty"),
        (("fit", ""), "Invalid value for an argument: it is empty"),
        ((*FIT, "--out=a", ""), "Invalid value for an argument: it is empty"),
        (("fit", "--target", "--out", ""), "Invalid value for an argument: it is empty"),
        ((*FIT, "--force="), "'--force' does not take a value"),
        ((*FIT, "--frce="), "No such option: --frce"),
    ],
)
def test_only_an_option_that_takes_a_value_can_lack_it(folder, words, text):
    done = run(*words)
    assert done.exit_code == 2
    assert text in " ".join(done.stderr.replace("│", " ").split())


def test_settings_that_were_not_typed_are_no_usage_errors():
    for error in (SettingError("noise_floor=-1 must be 0 or more"),
                  SettingError("predict_interval is for one output"),
                  SettingError("--dask tcp://x: no scheduler answers there"),
                  MissingPackageError("--out a.parquet needs pyarrow")):
        assert running._explained(error) == (str(error), 1)


def test_wrong_values_are_known_before_the_table_is_read(folder, monkeypatch):
    for command, jobs in (("fit", -3), ("tune", 0)):
        monkeypatch.setattr(f"pcegp.cli.{command}.read_training",
                            lambda *_: pytest.fail("too late"))
        assert run(command, *FIT[1:], "--jobs", jobs).exit_code == 2


@pytest.mark.parametrize("command", ["info", "explain", "predict", "evaluate"])
def test_what_is_no_model_is_called_what_it_is(folder, command):
    FRAME.to_excel("n.xlsx", index=False)
    Path("other.zip").write_bytes(b"PK\x03\x04" + bytes(60))
    table = ("plant.csv",) if command in ("predict", "evaluate") else ()
    for name, text in (("n.xlsx", "n.xlsx is an Excel workbook, not a model file: give one"),
                       ("other.zip", "other.zip is a zip archive, not a model file"),
                       ("plant.csv", "is not a model file"),
                       ("-", "a model cannot come from the standard input (-)")):
        done = run(command, name, *table)
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
        assert text in done.stderr


def test_a_misspelt_column_of_a_new_table_is_answered_with_the_nearest_name(model):
    table = pd.read_csv("plant.csv").rename(columns={"flow": "Flwo", "yield": "yeild"})
    table.to_csv("new.csv", index=False)
    for command in ("predict", "evaluate"):
        done = run(command, model, "new.csv")
        assert done.exit_code == 1
        assert "did you mean 'Flwo'?" in done.stderr
        assert done.stderr.count("\n") == 1
    table.rename(columns={"Flwo": "flow"}).to_csv("new.csv", index=False)
    assert "did you mean 'yeild'?" in run("evaluate", model, "new.csv").stderr
    table.rename(columns={"Flwo": "abc"}).to_csv("new.csv", index=False)
    assert "did you mean" not in run("predict", model, "new.csv").stderr
    assert "--json" in run("evaluate", model, "new.csv", "--jsn", "x").stderr


def test_a_model_that_is_loaded_is_named_on_a_terminal_and_the_line_goes(model, monkeypatch):
    def stages(*words):
        text = run(*words).stderr
        shown = [part for part in text.split("\r\x1b[K") if part.endswith(" ...")]
        assert text.endswith("\r\x1b[K")
        return shown

    assert run("info", model).stderr == ""
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    for words in (("info", "model.pcegp"), ("evaluate", "model.pcegp", "plant.csv"),
                  ("predict", "model.pcegp", "plant.csv"), ("explain", "model.pcegp")):
        assert "loading model.pcegp ..." in stages(*words)
    assert stages(*FIT, "--preset", "fast")[-3:] == [
        "reading plant.csv ...", "writing model.pcegp ...", "explaining and scoring the model ..."]


def test_a_note_stands_on_a_line_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    with terminal.stage("loading \x1b[2J" + 200 * "x"):
        terminal.say("info", "note: mind\nthis")
    shown = capsys.readouterr().err.split("\r\x1b[K")
    assert shown[1].startswith("pcegp info: note: mind this\nloading \\x1b[2J")
    assert shown[0] == shown[1].partition("\n")[2]
    assert len(shown[0]) < 80


def test_a_stage_inside_another_gives_the_line_back(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    with terminal.stage("outer"), terminal.stage("inner"):
        pass
    with terminal.stage("outer"):
        with terminal.stage("inner"):
            pass
        terminal.say("info", "note: mind")
    clear = "\r\x1b[K"
    one = f"outer ...{clear}inner ...{clear}outer ...{clear}"
    assert capsys.readouterr().err == one + one + f"pcegp info: note: mind\nouter ...{clear}"


def commands():
    """Every command of `pcegp`, with the words that call it."""
    for name, command in get_command(app).commands.items():
        yield (name,), command
        for inner, part in getattr(command, "commands", {}).items():
            yield (name, inner), part


@pytest.mark.parametrize("words", [(), *(words for words, _ in commands())])
def test_every_help_has_an_example(words):
    text = run(*words, "--help").output
    assert f"Example: pcegp {' '.join(words)}".rstrip() in " ".join(text.split())


def test_the_help_of_bench_gives_each_command_one_line():
    text = run("bench", "--help").output
    for words, command in commands():
        if words[0] == "bench" and len(words) == 2:
            line = next(line for line in text.splitlines() if f"│ {words[1]} " in line)
            assert command.help.splitlines()[0] in line
