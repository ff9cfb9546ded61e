"""`pcegp bench speed`: what it measures, prints and writes."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from pcegp.benchmarks import speed
from pcegp.cli import app

# GPyTorch's own calls of deprecated parts of torch
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.*:DeprecationWarning")

NAMES = {"n", "lapack_ms", "pcegp1_ms", "pcegp5_ms", "sklearn_ms", "pcegp_120_ms",
         "pcegp_1001_ms", "pcegp_11440_ms", "predict_pcegp_ms", "peak_mb"}
PEERS = {"gpytorch64_ms", "gpytorch32_ms", "predict_gpytorch_ms", "deep_ms"}


def test_the_command_writes_its_figures_and_its_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "_REST", 0.0)
    monkeypatch.setattr(speed, "peak_mb", float)  # which has a test of its own
    path = tmp_path / "speed.json"
    done = CliRunner().invoke(
        app, ["bench", "speed", "--n", "40", "--rounds", "1", "--json", str(path),
              "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    (row,) = json.loads(path.read_text(encoding="utf-8"))
    assert row["n"] == 40
    assert row.keys() >= NAMES | (PEERS if speed.has_gpytorch() else set())
    assert all(value > 0 for name, value in row.items() if name.endswith("_ms"))
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert "5/LAPACK" in done.output


def test_a_useless_size_is_a_usage_error():
    assert CliRunner().invoke(app, ["bench", "speed", "--n", "1"]).exit_code == 2


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = CliRunner().invoke(
        app, ["bench", "speed", "--n", "20", "--rounds", "1", "--out", str(file / "inside")]
    )
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].startswith("pcegp bench speed:")


@pytest.mark.parametrize("n_terms", speed.PAPER)
def test_the_papers_sizes_have_the_papers_numbers_of_terms(n_terms):
    from math import comb

    d, degree = speed.PAPER[n_terms]
    assert comb(d + degree, degree) == n_terms


def test_memory_of_a_fit_is_a_few_matrices():
    """Only Linux tells the peak; elsewhere the figure is NaN, not a guess."""
    n = 1000
    peak = speed.peak_mb(n)
    assert np.isnan(peak) == (sys.platform != "linux")
    assert np.isnan(peak) or 0 < peak * 2**20 <= 5 * 8 * n**2
