"""The two kinds of ends that `pcegp predict` gives, and what it says about them."""

from __future__ import annotations

import csv
import json
import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pcegp
from pcegp import PCEGPMixture, PCEGPRegressor
from pcegp.cli import app, predict
from pcegp.errors import DataWarning
from pcegp.estimators import conformal

RNG = np.random.default_rng(2)
FRAME = pd.DataFrame({"flow": RNG.uniform(size=30), "load": RNG.uniform(5, 9, 30)})
Y = np.sin(6 * FRAME["flow"]) + 0.1 * RNG.normal(size=30)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(params=["one model", "a mixture", "constant columns"])
def folder(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models = [PCEGPRegressor(max_iter=4, degree=q, n_draws=0) for q in (1, 0)]
    model = PCEGPMixture(models) if request.param == "a mixture" else models[0]
    frame = FRAME.assign(load=7.0) if request.param == "constant columns" else FRAME
    with pytest.warns(DataWarning) if request.param == "constant columns" else nullcontext():
        model.fit(frame, Y).save("model.pcegp")
    frame.to_csv("new.csv", index=False)
    return tmp_path


def ends(path="predictions.csv"):
    with Path(path).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [[float(row[name]) for row in rows] for name in ("lower", "upper")]


def test_an_interval_is_that_of_python(folder):
    done = run("predict", "model.pcegp", "new.csv", "--interval", "0.8", "--json", "p.json")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "hold 0.8 of new values" in done.stdout
    lower, upper = pcegp.load("model.pcegp").predict_interval(pd.read_csv("new.csv"), 0.8)
    assert ends() == [lower.tolist(), upper.tolist()]
    figures = json.loads(Path("p.json").read_text())
    assert (figures["interval"], figures["band"]) == (0.8, None)


def test_a_band_is_that_of_the_model_and_the_default(folder):
    model = pcegp.load("model.pcegp")
    mean, std = model.predict(pd.read_csv("new.csv"), return_std=True)
    for words, share, reach in (((), 0.95, 1.959963984540054),
                                (("--band", "0.5"), 0.5, 0.674489750196082)):
        done = run("predict", "model.pcegp", "new.csv", *words, "--json", "p.json")
        assert done.exit_code == 0, done.output
        assert f"hold {share} of what the model itself believes" in done.stdout
        assert ends()[0] == pytest.approx((mean - reach * std).tolist())
        assert ends()[1] == pytest.approx((mean + reach * std).tolist())
        figures = json.loads(Path("p.json").read_text())
        assert (figures["interval"], figures["band"]) == (None, share)


def test_the_blocks_of_a_table_share_one_training_and_one_warning(folder, monkeypatch):
    calls, cross_fit = [], conformal.cross_fit
    monkeypatch.setattr(conformal, "cross_fit",
                        lambda *args: (calls.append(1), cross_fit(*args))[1])
    monkeypatch.setattr(predict, "_BLOCK", 7)
    assert run("predict", "model.pcegp", "new.csv", "--interval", "0.8").exit_code == 0
    assert len(calls) == 1
    lower, upper = pcegp.load("model.pcegp").predict_interval(pd.read_csv("new.csv"), 0.8)
    assert ends()[0] == pytest.approx(lower.tolist())
    assert ends()[1] == pytest.approx(upper.tolist())
    done = run("predict", "model.pcegp", "new.csv", "--interval", "0.99")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("\n") == 1
    assert "note: 30 rows allow no finite interval of coverage 0.99" in done.stderr
    assert "lower and upper are infinite: the model has too few rows" in done.stdout
    assert "trained without" not in done.stdout
    assert set(ends()[0]) == {-math.inf}
    assert set(ends()[1]) == {math.inf}


def test_a_table_with_a_fault_is_refused_before_any_training(folder, monkeypatch):
    monkeypatch.setattr(conformal, "cross_fit", lambda *_: pytest.fail("too late"))
    monkeypatch.setattr(predict, "_BLOCK", 7)
    with Path("new.csv").open("a", encoding="utf-8") as stream:
        stream.write("0.5,seven\n")
    done = run("predict", "model.pcegp", "new.csv", "--interval", "0.8")
    assert done.exit_code == 1
    assert "'seven' in line 32" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--interval", "95"), "--interval 95 must lie between 0 and 1"),
        (("--band", "0"), "--band 0 must lie between 0 and 1"),
        (("--band", "nan"), "--band nan must lie between 0 and 1"),
        (("--interval", "0.9", "--band", "0.9"), "give one of them"),
    ],
)
def test_shares_that_make_no_sense_are_typed_wrongly(tmp_path, words, text):
    done = run("predict", tmp_path / "model.pcegp", tmp_path / "new.csv", "--out",
               tmp_path / "p.csv", *words)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert text in done.stderr
