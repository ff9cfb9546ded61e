"""From a table to predictions without Python: fit, predict, evaluate, and odd files."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import pcegp
from pcegp import PCEGPRegressor
from pcegp.cli.app import app
from pcegp.errors import DataError
from pcegp.inspection import structure_text
from pcegp.io import Encoding

RNG = np.random.default_rng(5)
N = 60
FRAME = pd.DataFrame({
    "flow": RNG.uniform(0, 1, N).round(6),
    "load": RNG.uniform(5, 9, N).round(6),
    "colour": RNG.choice(["red", "green", "blue"], N),
})
FRAME["yield"] = (
    np.sin(5 * FRAME["flow"]) + 0.1 * FRAME["load"] + (FRAME["colour"] == "red")
    + 0.05 * RNG.normal(size=N)
).round(6)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("plant.csv", index=False)
    return tmp_path


def fitted(*more):
    done = run("fit", "plant.csv", "--target", "yield", "--preset", "fast", *more)
    assert done.exit_code == 0, done.output
    return done


def read(path):
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_fit_predict_evaluate_explain(folder):
    done = fitted("--categorical", "colour", "--json", "fit.json", "--out", "plant.pcegp")
    for word in ("60 rows", "RMSE", " s\n", "plant.pcegp"):
        assert word in done.output
    figures = json.loads(Path("fit.json").read_text())
    assert figures["categories"] == {"colour": ["blue", "green", "red"]}
    assert list(figures["shares"]) == figures["features"]

    done = run("predict", "plant.pcegp", "plant.csv", "--out", "out.csv", "--band", 0.5,
               "--json", "predict.json")
    assert done.exit_code == 0, done.output
    rows = read("out.csv")
    assert list(rows[0]) == [*FRAME.columns, "mean", "std", "lower", "upper"]
    assert [row["colour"] for row in rows] == FRAME["colour"].tolist()
    model = pcegp.load("plant.pcegp")
    X = np.column_stack([FRAME["flow"], FRAME["load"],
                         *((FRAME["colour"] == c) for c in ("blue", "green", "red"))])
    mean, std = model.predict(pd.DataFrame(X, columns=model.feature_names_in_), return_std=True)
    assert [float(row["mean"]) for row in rows] == mean.tolist()
    upper = np.array([float(row["upper"]) for row in rows])
    assert upper == pytest.approx(mean + 0.674489750196 * std)
    assert json.loads(Path("predict.json").read_text())["outside_training_range"] == 0

    done = run("evaluate", "plant.pcegp", "plant.csv", "--json", "scores.json")
    assert done.exit_code == 0, done.output
    scores = json.loads(Path("scores.json").read_text())
    assert scores["R2"] > 0.9
    assert scores["RMSE"] == pytest.approx(pcegp.metrics.rmse(FRAME["yield"].to_numpy(), mean))
    assert run("explain", "plant.pcegp", "--html", "report.html").exit_code == 0
    assert Path("report.html").exists()
    assert run("info", "plant.pcegp").exit_code == 0


def test_a_fit_says_what_was_chosen(folder):
    done = fitted("--categorical", "colour", "--json", "fit.json")
    out = pcegp.load("model.pcegp").model_.outputs[0]
    assert json.loads(Path("fit.json").read_text())["structures"] == out.info["members"]
    lines = structure_text(out).splitlines()
    assert 1 <= len(lines) <= 2
    said = "\n".join(["Structure", *(f"  {line}" for line in lines), "\n"])
    assert said in done.output
    assert said in run("info", "model.pcegp").output
    assert structure_text(out) in run("explain", "model.pcegp").output
    assert "constant scale" in lines[0]
    said = " ".join(done.output.split())
    if "linear input map" in lines[0]:
        assert "What makes the process change its character The process is about the same" in said
    assert "its local scale is constant." in said
    assert "Share of each input" not in done.output


@pytest.mark.parametrize("preset", ["auto", "paper"])
def test_a_fit_says_what_makes_the_process_change(folder, preset):
    wavy = np.sin(60 * FRAME["flow"] ** 4) + 0.02 * RNG.normal(size=N)
    FRAME.assign(**{"yield": wavy}).to_csv("plant.csv", index=False)
    done = fitted("--features", "flow,load", "--preset", preset, "--json", "fit.json")
    lines = done.output.splitlines()
    line = lines[lines.index("Structure") + 1]
    assert "scale of degree" in line
    assert ("(penalty" in line) == (preset == "auto")
    at = next(k for k, line in enumerate(lines) if "Share of each input" in line)
    assert lines[at + 1].startswith("  flow")
    shares = json.loads(Path("fit.json").read_text())["shares"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["flow"] > shares["load"]


def test_a_table_without_noise_is_called_so(folder):
    FRAME.assign(**{"yield": np.sin(5 * FRAME["flow"]) + FRAME["load"]}).to_csv("plant.csv")
    done = fitted("--features", "flow,load")
    assert "next to no noise" in done.output
    assert "Share of each input" not in done.output


def test_columns_are_matched_by_name(folder):
    fitted("--features", "flow,load")
    run("predict", "model.pcegp", "plant.csv", "--out", "a.csv")
    mixed = FRAME[["yield", "load", "colour", "flow"]].assign(extra="x")
    mixed.to_csv("mixed.csv", index=False)
    done = run("predict", "model.pcegp", "mixed.csv", "--out", "b.csv")
    assert "not used by the model: 'colour', 'extra'" in done.output
    assert [r["mean"] for r in read("a.csv")] == [r["mean"] for r in read("b.csv")]
    FRAME[["flow"]].to_csv("few.csv", index=False)
    done = run("predict", "model.pcegp", "few.csv", "--out", "c.csv")
    assert done.exit_code == 1
    assert "lacks the column 'load'" in done.stderr
    assert not Path("c.csv").exists()


def test_values_in_another_unit_are_counted(folder):
    fitted("--features", "flow,load")
    slipped = FRAME.assign(load=np.where(np.arange(N) < 7, 1000 * FRAME["load"], FRAME["load"]))
    slipped.to_csv("slipped.csv", index=False)
    done = run("predict", "model.pcegp", "slipped.csv", "--json", "notes.json")
    assert done.exit_code == 0
    assert "column 'load' is far outside its training range" in done.output
    assert "in 7 rows" in done.output
    assert "7 of 60 rows lie outside" in done.output
    figures = json.loads(Path("notes.json").read_text())
    assert figures["far_outside_training_range"] == {"load": 7}
    done = run("evaluate", "model.pcegp", "slipped.csv")
    assert "in another unit?" in done.output


def test_missing_values_are_refused_or_imputed_as_asked(folder):
    holes = FRAME.copy()
    holes.loc[[3, 4], "flow"] = np.nan
    holes.loc[9, "load"] = np.nan
    holes.to_csv("plant.csv", index=False)
    done = run("fit", "plant.csv", "--target", "yield", "--features", "flow,load")
    assert done.exit_code == 1
    assert "'flow' 2 (first in line 5); 'load' 1 (first in line 11)" in done.stderr
    fitted("--features", "flow,load", "--impute", "median", "--json", "fit.json")
    medians = json.loads(Path("fit.json").read_text())["imputed"]
    assert medians["flow"] == holes["flow"].median()
    done = run("predict", "model.pcegp", "plant.csv")
    assert done.exit_code == 0
    filled = holes.fillna(medians)
    filled.to_csv("filled.csv", index=False)
    run("predict", "model.pcegp", "filled.csv", "--out", "filled_out.csv")
    assert [r["mean"] for r in read("predictions.csv")] == [
        r["mean"] for r in read("filled_out.csv")]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a,b,y\n", "no rows"),
        (b"a,b,y\n\n\n", "no rows"),
        (b"a,b,y\n1,2,3\n1,2\n", "line 3: 2 fields, but the header has 3"),
        (b"a,b,y\n1,2,3\n\n1,2,3,4\n", "line 4: 4 fields"),
        (b"a,a,y\n1,2,3\n", "several columns named 'a'"),
        (b"a,b,y\n1,2,3\n1,two,3\n", "the column 'b' is not numbers"),
        (b"a,b,y\n1,2,three\n", "column 'y' holds 'three' in line 2"),
        (b"a,b,y\n1,2,\n3,4,5\n", "target 'y' is missing or not finite in 1 rows"),
        (b"a,b,y\n1,inf,2\n3,4,5\n", "column 'b' is infinite in line 2"),
        (b"PK\x03\x04\x00\x00", "is compressed by zip: unpack it"),
        (b",,\n1,2,3\n", "no header"),
        (b"a,b,x\n1,2,3\n", "--target names 'y'"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line(tmp_path, monkeypatch, content, text):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(content)
    done = run("fit", "t.csv", "--target", "y")
    assert done.exit_code == 1, done.output
    assert text in done.stderr
    assert done.stderr.startswith("pcegp fit: ")
    assert done.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_missing_files_folders_and_usage(folder):
    for path, text in (("no.csv", "does not exist"), (".", "is a folder")):
        done = run("fit", path, "--target", "yield")
        assert (done.exit_code, text in done.stderr) == (1, True)
    assert run("fit", "plant.csv").exit_code == 2
    assert run("fit", "plant.csv", "--target", "yield", "--impute", "mean").exit_code == 2
    done = run("fit", "plant.csv", "--target", "yield")
    assert "'colour' is not numbers ('green' in line 2): name it with --categorical" in done.stderr
    done = run("fit", "plant.csv", "--target", "yield", "--debug")
    assert isinstance(done.exception, DataError)


def test_too_many_categories_are_refused(folder):
    FRAME.assign(colour=[f"c{k}" for k in range(N)]).to_csv("plant.csv", index=False)
    done = run("fit", "plant.csv", "--target", "yield", "--categorical", "colour")
    assert "60 different values: categorical columns may have 2 to 20" in done.stderr


def test_an_unknown_category_is_refused_at_prediction(folder):
    fitted("--categorical", "colour")
    FRAME.assign(colour=["red", "pink"] * 30).to_csv("new.csv", index=False)
    done = run("predict", "model.pcegp", "new.csv")
    assert done.exit_code == 1
    assert "'colour' holds 'pink' in line 3" in done.stderr


def test_parquet_and_excel_give_the_same_model(folder):
    FRAME.to_parquet("plant.parquet")
    FRAME.to_excel("plant.xlsx", index=False)
    fitted("--features", "flow,load")
    one = pcegp.load("model.pcegp")
    for name in ("plant.parquet", "plant.xlsx"):
        done = run("fit", name, "--target", "yield", "--preset", "fast", "--features", "flow,load")
        assert done.exit_code == 0, done.output
        other = pcegp.load("model.pcegp")
        assert (one.model_.outputs[0].base.theta == other.model_.outputs[0].base.theta).all()
        done = run("predict", "model.pcegp", name, "--out", f"{name}.csv")
        assert done.exit_code == 0, done.output
    assert [r["mean"] for r in read("plant.parquet.csv")] == [
        r["mean"] for r in read("plant.xlsx.csv")]


def test_damaged_parquet_and_excel_are_refused(folder):
    for name in ("a.parquet", "a.xlsx"):
        Path(name).write_bytes(b"not what the name says")
        done = run("fit", name, "--target", "y")
        assert done.exit_code == 1
        assert "cannot be read" in done.stderr
    book = openpyxl.Workbook()
    book.save("empty.xlsx")
    assert run("fit", "empty.xlsx", "--target", "y").exit_code == 1


def test_a_model_from_python_predicts_tables_by_its_names(folder):
    model = PCEGPRegressor(max_iter=5).fit(FRAME[["flow", "load"]], FRAME["yield"])
    model.save("py.pcegp")
    assert run("predict", "py.pcegp", "plant.csv").exit_code == 0
    done = run("evaluate", "py.pcegp", "plant.csv")
    assert "does not know its target" in done.stderr
    model.fit(FRAME[["flow", "load"]].to_numpy(), FRAME["yield"]).save("py.pcegp")
    assert "names of its columns" in run("predict", "py.pcegp", "plant.csv").stderr
    both = FRAME[["yield", "flow"]].to_numpy()
    model.fit(FRAME[["flow", "load"]], both).save("py.pcegp")
    assert "several outputs" in run("predict", "py.pcegp", "plant.csv").stderr


def test_names_that_collide_and_the_table_itself(folder):
    fitted("--features", "flow,load")
    FRAME.assign(mean=1.0).to_csv("new.csv", index=False)
    run("predict", "model.pcegp", "new.csv")
    assert list(read("predictions.csv")[0])[-4:] == ["mean_predicted", "std", "lower", "upper"]
    added = ["mean", "mean_predicted", "std", "lower", "lower_predicted", "lower_predicted_2"]
    FRAME.assign(**dict.fromkeys(added, 1.0)).to_csv("often.csv", index=False)
    done = run("predict", "model.pcegp", "often.csv", "--json", "names.json")
    names = list(read("predictions.csv")[0])
    assert names[-4:] == ["mean_predicted_2", "std_predicted", "lower_predicted_3", "upper"]
    assert len(set(names)) == len(names) == len(FRAME.columns) + 10
    assert "those added are 'mean_predicted_2', 'std_predicted', 'lower_predicted_3'" in done.output
    assert json.loads(Path("names.json").read_text())["columns"]["std"] == "std_predicted"
    done = run("predict", "model.pcegp", "new.csv", "--out", "new.csv")
    assert "is the table itself" in done.stderr


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "xlsx"])
def test_predictions_are_written_in_the_format_of_the_ending(folder, ending):
    fitted("--features", "flow,load")
    done = run("predict", "model.pcegp", "plant.csv", "--out", f"out.{ending}")
    assert done.exit_code == 0, done.output
    kinds = {"parquet": pd.read_parquet, "xlsx": pd.read_excel}
    frame = kinds.get(ending, pd.read_csv)(f"out.{ending}")
    assert list(frame) == [*FRAME.columns, "mean", "std", "lower", "upper"]
    assert frame["flow"].tolist() == FRAME["flow"].tolist()
    X = FRAME[["flow", "load"]]
    assert frame["mean"].tolist() == pytest.approx(pcegp.load("model.pcegp").predict(X).tolist())
    done = run("evaluate", "model.pcegp", f"out.{ending}")
    assert done.exit_code == 0, done.output
    done = run("predict", "model.pcegp", "plant.csv", "--out", "out.txt")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "none of .csv, .csv.gz, .parquet and .xlsx" in done.stderr
    assert not Path("out.txt").exists()


def test_a_table_of_decimal_commas_goes_out_as_one(folder):
    fitted("--features", "flow,load")
    FRAME.to_csv("new.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    assert run("predict", "model.pcegp", "new.csv").exit_code == 0
    options = {"sep": ";", "decimal": ",", "encoding": "utf-8-sig"}
    frame = pd.read_csv("predictions.csv", **options)
    assert frame["load"].tolist() == FRAME["load"].tolist()
    assert frame["mean"].dtype == float
    assert Path("predictions.csv").read_bytes().startswith(b"\xef\xbb\xbfflow;")
    run("predict", "model.pcegp", "plant.csv", "--out", "plain.csv")
    assert frame["mean"].tolist() == pd.read_csv("plain.csv")["mean"].tolist()


def test_formulas_in_cells_are_not_carried_on(folder):
    fitted("--features", "flow,load")
    FRAME.assign(colour=["=1+1", "red", "-5"] * 20).to_csv("new.csv", index=False)
    done = run("predict", "model.pcegp", "new.csv", "--json", "notes.json")
    assert "Note: 20 cells that begin as formulas do were written as text" in done.output
    assert [row["colour"] for row in read("predictions.csv")[:3]] == ["'=1+1", "red", "-5"]
    assert json.loads(Path("notes.json").read_text())["written_as_text"] == 20


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "xlsx"])
def test_tables_from_the_standard_input(folder, kind):
    def piped(*words):
        done = CliRunner().invoke(app, words, input=data)
        assert done.exit_code == 0, done.output
        return done

    makers = {"parquet": FRAME.to_parquet, "xlsx": lambda p: FRAME.to_excel(p, index=False)}
    makers.get(kind, lambda p: FRAME.to_csv(p, index=False))(f"in.{kind}")
    data = Path(f"in.{kind}").read_bytes()
    options = ("--target", "yield", "--preset", "fast", "--features", "flow,load")
    piped("fit", "-", *options)
    from_pipe = pcegp.load("model.pcegp").model_.outputs[0].base.theta
    fitted("--features", "flow,load")
    assert (pcegp.load("model.pcegp").model_.outputs[0].base.theta == from_pipe).all()
    piped("predict", "model.pcegp", "-")
    assert len(read("predictions.csv")) == N
    assert "60 rows" in piped("evaluate", "model.pcegp", "-").output
    done = CliRunner().invoke(app, ["fit", "-", "--target", "y"], input=b"a,y\n1,x\n2,3\n1,2\n")
    assert "column 'y' holds 'x' in line 2" in done.stderr
    done = CliRunner().invoke(app, ["fit", "-", "--target", "y"], input=b"")
    assert "the standard input is empty" in done.stderr


def test_names_with_commas_and_repeated_options(folder):
    names = {"flow": "flow, m3/h", "colour": "colour, paint"}
    FRAME.rename(columns=names).to_csv("plant.csv", index=False)
    fitted("--features", "flow, m3/h", "--features", "load", "--features", "colour, paint",
           "--categorical", "colour, paint")
    encoding = pcegp.load("model.pcegp").encoding_
    assert encoding.features == ("flow, m3/h", "load", "colour, paint")
    assert set(encoding.categories) == {"colour, paint"}


def test_control_characters_never_reach_the_terminal(folder):
    bad = "a\x1b[2J\x9b\u202e"
    FRAME.rename(columns={"flow": bad}).to_csv("plant.csv", index=False)
    fitted("--features", f"{bad},load", "--out", "bad.pcegp")
    FRAME.assign(**{bad: 1000.0, f"{bad}{bad}": 1}).to_csv("new.csv", index=False)
    for words in (("predict", "bad.pcegp", "new.csv"), ("evaluate", "bad.pcegp", "new.csv"),
                  ("fit", "new.csv", "--target", bad + "x"), ("fit", f"{bad}.csv", "--target", "y"),
                  ("predict", f"{bad}.pcegp", "new.csv", "--out", f"{bad}.csv"),
                  ("predict", "bad.pcegp", "new.csv", "--out", f"{bad}.csv"),
                  ("predict", "bad.pcegp", "plant.csv", "--out", f"{bad}.txt")):
        done = run(*words)
        assert not set("\x1b\x9b\u202e") & set(done.output), words
    assert Path(f"{bad}.csv").exists()


def test_an_encoding_survives_the_file(folder):
    fitted("--categorical", "colour", "--impute", "median")
    encoding = pcegp.load("model.pcegp").encoding_
    assert isinstance(encoding, Encoding)
    assert encoding.categories == {"colour": ("blue", "green", "red")}
    assert encoding.medians.keys() == {"flow", "load"}
    assert encoding.target == "yield"


def test_output_to_a_pipe_is_plain(folder):
    command = [sys.executable, "-m", "pcegp", "fit", "plant.csv", "--target", "yield",
               "--features", "flow", "--preset", "fast"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""
    assert b"Model written" in done.stdout


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_with_130_and_leaves_no_half_file(folder):
    fitted("--features", "flow,load")
    with Path("big.csv").open("w", encoding="utf-8") as stream:
        stream.write("flow,load\n")
        stream.writelines("0.5,7\n" for _ in range(1_000_000))
    command = [sys.executable, "-m", "pcegp", "predict", "model.pcegp", "big.csv"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 3600
    while not list(folder.glob(".predictions.csv.*")) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 130
    assert shown == b"pcegp predict: interrupted: no file was changed\n"
    assert not list(folder.glob("*predictions.csv*"))
    assert os.path.exists("model.pcegp")


@pytest.mark.parametrize("command", ["fit", "tune"])
def test_a_constant_column_has_the_name_that_the_table_gives_it(folder, command):
    Path("t.csv").write_text("a,flow,y\n" + "".join(f"{k},7,{k % 5}\n" for k in range(12)))
    words = ("--preset", "fast") if command == "fit" else ("--trials", "1", "--space", "paper")
    done = run(command, "t.csv", "--target", "y", *words)
    assert done.exit_code == 0, done.output
    assert "constant column 'flow': ignored" in done.stderr
    assert "number" not in done.stderr


def test_one_row_gets_one_sentence_and_none_of_scikit_learns(folder):
    Path("one.csv").write_text("a,y\n1,3\n")
    done = run("fit", "one.csv", "--target", "y", "--preset", "fast")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("\n") == 1
    assert "only 1 row: the model predicts its target everywhere, and R2 is not" in done.stderr
    done = run("evaluate", "model.pcegp", "one.csv")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Note: R2 of one row is not defined" in done.stdout


def test_what_predictions_change_in_a_table_is_said(folder):
    Path("t.csv").write_text("=a,c,y\n" + "".join(
        f"{k}.5,{'uv'[k % 2] if k else ''},{k % 5}\n" for k in range(12)))
    done = run("fit", "t.csv", "--target", "y", "--categorical", "c", "--impute", "median",
               "--preset", "fast")
    missing = "1 row has no 'c': a missing value belongs to no category, and all its inputs are 0"
    assert done.exit_code == 0, done.output
    assert missing in done.stderr
    done = run("predict", "model.pcegp", "t.csv", "--out", "p.csv", "--json", "p.json")
    assert done.exit_code == 0, done.output
    assert "Note: '=a' would be a formula as the name of a column" in done.stdout
    assert missing in done.stdout
    assert json.loads(Path("p.json").read_text())["without_category"] == {"c": 1}
    assert run("predict", "model.pcegp", "p.csv", "--out", "p.parquet").exit_code == 0
    types = pyarrow.parquet.read_schema("p.parquet")
    assert [str(types.field(name).type) for name in ("=a", "c", "y")] == [
        "double", "string", "double"]


def process(*words, encoding="utf-8", **streams):
    """Run a command as a process of its own."""
    return subprocess.run([sys.executable, "-m", "pcegp", *words], check=False, text=True,
                          stderr=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": encoding},
                          **streams)


def test_a_terminal_may_lack_letters(folder):
    FRAME.rename(columns={"load": "größe"}).to_csv("plant.csv", index=False)
    done = process("fit", "plant.csv", "--target", "yield", "--features", "größe,flow", "--preset",
                   "paper", encoding="ascii", stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert r"  gr\xf6\xdfe " in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_standard_output_is_told_from_a_full_disk(folder):
    fitted("--features", "flow,load")
    for words, end in ((("predict", "model.pcegp", "plant.csv"), "; predictions.csv was written"),
                       (("info", "model.pcegp"), "make room where it goes\n")):
        with Path("/dev/full").open("w") as full:
            done = process(*words, stdout=full)
        assert done.returncode == 1
        assert f"pcegp {words[0]}: the standard output takes no more text (No space" in done.stderr
        assert end in done.stderr
        assert done.stderr.count("\n") == 1
    assert len(read("predictions.csv")) == N
