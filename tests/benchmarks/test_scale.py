"""`pcegp bench scale` on a few rows: each method in a process of its own, results that resume."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pcegp.benchmarks import scale
from pcegp.cli import app
from pcegp.errors import DataError, SettingError


def run(*words):
    return CliRunner().invoke(app, ["bench", "scale", *words])


def test_it_measures_draws_and_goes_on_where_it_was_stopped(tmp_path):
    words = ["--n", "120", "--methods", "exact", "--out", str(tmp_path), "--json",
             str(tmp_path / "figures.json")]
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert "1 of 1: generated 120 exact" in first.output
    (row,) = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert row["n_train"] == 120
    assert 0.0 < row["error_of_truth"] < 1.0
    assert row["peak_gb"] > 0.0
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
    again = run(*words)
    assert again.exit_code == 0, again.output
    assert "1 of 1" not in again.output
    assert "exact" in again.output


def test_a_time_cap_ends_a_method(tmp_path):
    result = run("--n", "5000", "--methods", "neighbours", "--cap", "2", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "above the cap of 2 s" in result.output


def test_tables_of_a_collection_are_split_as_their_masks_say(tmp_path):
    rng = np.random.default_rng(0)
    rows, mask = rng.normal(size=(40, 3)), np.zeros((40, 10))
    mask[::10] = 1.0
    for name, values in (("plant.data", rows), ("plant.test_mask", mask)):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as file:
            np.savetxt(file, values, delimiter=",")
    (task,) = scale.tasks(["exact"], [], ["plant"], [3], 0.9, tmp_path)
    X, y, X_test, y_test, truth = task.rows()
    np.testing.assert_allclose(X_test, rows[::10, :-1])
    np.testing.assert_allclose(y_test, rows[::10, -1])
    assert (len(X), len(y), truth) == (36, 36, None)
    (less,) = scale.tasks(["exact"], [], ["plant"], [3], 4 / 9, tmp_path)
    assert len(less.rows()[0]) == 18


def test_what_is_not_known_is_refused(tmp_path):
    with pytest.raises(SettingError, match="choose from exact, neighbours"):
        scale.tasks(["magic"], [10], [], [], 0.9, None)
    with pytest.raises(DataError, match="'plant' is not in the collection"):
        scale.tasks(["exact"], [], ["plant"], [0], 0.9, tmp_path)
