"""`pcegp info` and `pcegp explain` on model files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pcegp import PCEGPMixture, PCEGPRegressor
from pcegp.cli.app import app
from pcegp.inspection import nonstationarity

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"flow": RNG.uniform(size=40), "load": RNG.uniform(5, 9, 40)})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    model = PCEGPRegressor(max_iter=20, penalty=2.0).fit(FRAME, np.sin(9 * FRAME["flow"]))
    return model.save(tmp_path_factory.mktemp("models") / "plant.pcegp")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_info_shows_features_settings_and_scores(path, tmp_path):
    done = run("info", path, "--json", tmp_path / "info.json")
    assert done.exit_code == 0, done.output
    for word in ("40 rows", "flow", "load", "penalty", "RMSE"):
        assert word in done.output
    found = json.loads((tmp_path / "info.json").read_text(encoding="utf-8"))
    assert found["features"]["load"]["largest"] == pytest.approx(FRAME["load"].max())
    assert found["settings"] == {"max_iter": "20", "penalty": "2.0"}


def test_explain_prints_shares_and_writes_the_report(path, tmp_path):
    html, figures = tmp_path / "report.html", tmp_path / "figures.json"
    done = run("explain", path, "--html", html, "--json", figures)
    assert done.exit_code == 0, done.output
    assert "flow" in done.output
    assert "<title>plant</title>" in html.read_text(encoding="utf-8")
    assert set(json.loads(figures.read_text(encoding="utf-8"))["shares"]) == set(FRAME)


def test_a_report_shows_the_explanation_that_was_printed(path, tmp_path, monkeypatch):
    calls, share_spread = [], nonstationarity.share_spread
    monkeypatch.setattr(nonstationarity, "share_spread",
                        lambda *args: (calls.append(1), share_spread(*args))[1])
    done = run("explain", path, "--html", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert len(calls) == 1


def test_a_name_does_not_steer_the_terminal(tmp_path):
    frame = FRAME.rename(columns={"flow": "flow\x1b[2J\nforged"})
    model = PCEGPRegressor(max_iter=2, penalty=1.0).fit(frame, FRAME["load"])
    path = model.save(tmp_path / "m")
    for command in ("info", "explain"):
        done = run(command, path)
        assert done.exit_code == 0, done.output
        assert done.output.replace("\n", "").isprintable()
        assert r"  flow\x1b[2J\nforged " in done.output


def test_of_a_mixture_the_best_model_is_shown(tmp_path):
    members = [PCEGPRegressor(max_iter=2, degree=q) for q in (1, 0)]
    path = tmp_path / "two.pcegp"
    PCEGPMixture(members).fit(FRAME, FRAME["flow"]).save(path)
    done = run("info", path)
    assert "is a mixture of 2 models" in done.output
    assert "degree               1" in done.output


@pytest.mark.parametrize("command", ["info", "explain"])
def test_a_file_that_is_no_model_is_one_sentence(command, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    for file in (other, tmp_path / "missing.pcegp"):
        done = run(command, file)
        assert done.exit_code == 1
        assert done.output.startswith(f"pcegp {command}: ")
        assert done.output.count("\n") == 1
    assert run(command).exit_code == 2


def test_a_report_that_cannot_be_written_is_refused_first(path, tmp_path):
    done = run("explain", path, "--html", tmp_path)
    assert done.exit_code == 1
    assert "is a folder" in done.output
