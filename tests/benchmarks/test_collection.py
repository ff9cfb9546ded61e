"""The comparison on a collection of tables."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
N_ROWS = 40


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return import_module("collection")


@pytest.fixture
def command(tmp_path):
    """Two tables in a folder, and what asks for quick methods on two of their splits."""
    rng = np.random.default_rng(0)
    for name in ("first", "yacht"):  # the latter is also one of the nine targets
        X = rng.uniform(size=(N_ROWS, 2))
        values = np.c_[X, np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=N_ROWS)]
        masks = np.array([rng.permutation(N_ROWS) < 10 for _ in range(10)]).T
        np.savetxt(tmp_path / f"{name}.data.csv.gz", values, delimiter=",")
        np.savetxt(tmp_path / f"{name}.test_mask.csv.gz", masks, delimiter=",", fmt="%d")
    return ["--collection", str(tmp_path), "--only", "first,yacht_collection", "--splits", "8-9",
            "--methods", "pcegp,extra_trees", "--rows", "20", "--set", "max_iter=5",
            "--set", "n_draws=0", "--jobs", "1", "--out", str(tmp_path / "rows.jsonl")]


def test_results_come_once_and_settings_stand_beside_peers(script, command, tmp_path, capsys):
    script.main(command)
    rows = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert len(rows) == 2 * 2 * 2
    for row in map(json.loads, rows):
        assert "error" not in row
        assert (row["n_train"], row["n_test"], row["n_known"]) == (20, 10, N_ROWS)
        assert ("n_factorisations" in row) == (row["method"] == "pcegp")
    script.main([*command, "--splits", "9", "--set", "degree=1", "--label", "lines",
                 "--json", str(tmp_path / "figures.json")])
    after = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert after[:len(rows)] == rows
    assert len(after) == len(rows) + 2
    assert "lines over the best of extra_trees (tables: 2):" in capsys.readouterr().out
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["summaries"].keys() == {"pcegp", "lines"}
    first = {name: found["mean"] for name, found in figures["tables"]["first"].items()}
    ratio = figures["summaries"]["lines"]["tables"]["first"]
    assert ratio["RMSE"] == pytest.approx(first["lines"]["RMSE"] / first["extra_trees"]["RMSE"])
    with pytest.raises(SystemExit, match="other settings"):
        script.main([*command, "--set", "degree=1"])


def test_a_method_counts_only_with_all_splits_and_failures_are_told(script):
    def folds(*values):
        return {split: {"RMSE": value, "NLL": value, "CRPS": value, "coverage95": 1.0,
                        "seconds": 1.0} for split, value in enumerate(values)}

    found = {"table": {"pcegp": folds(2.0, 2.0) | {2: {"error": "reason"}},
                       "catboost": folds(1.0, 3.0, 9.0), "ard5": folds(0.1)}}
    told = script.summary("pcegp", found)
    assert told["tables"]["table"] == {"RMSE": 1.0, "CRPS": 1.0, "NLL": 0.0}
    assert told["absent"] == ["ard5 on table"]
    assert told["n_failed"] == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a useless input
def test_matern_knows_noise(script):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2)) * [1.0, 1000.0]
    y = 50.0 + 10.0 * np.sin(6.0 * X[:, 0]) + rng.normal(size=60)
    mean, std = script.MaternGP().fit(X, y).predict(X, return_std=True)
    assert np.corrcoef(mean, y)[0, 1] > 0.98
    assert 0.5 < np.median(std) < 2.0


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--methods", "forest"], "methods='forest' is not known"),
     (["--only", "other"], "only='other' is not known"),
     (["--label", "ard5"], "the name of a peer"),
     (["--set", "colour=1"], "no such parameter")],
)
def test_what_cannot_be_is_refused_in_a_sentence(script, command, words, message):
    with pytest.raises(SystemExit, match=message):
        script.main([*command, *words])


def test_a_package_that_is_missing_is_named(script, command, monkeypatch):
    monkeypatch.setitem(script.sys.modules, "catboost", None)
    with pytest.raises(SystemExit, match="catboost needs catboost: pip install"):
        script.main([*command, "--methods", "pcegp,catboost"])
