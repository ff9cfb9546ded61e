"""The small measurements of the default: noise, small designs, seconds."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def figures(monkeypatch, tmp_path):
    """What a script writes for some options."""
    monkeypatch.syspath_prepend(SCRIPTS)

    def run(name, *options):
        path = tmp_path / f"{name}.json"
        monkeypatch.setattr("sys.argv", [name, *options, "--json", str(path)])
        import_module(name).main()
        return json.loads(path.read_text(encoding="utf-8"))

    return run


@pytest.fixture
def small_designs(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return import_module("small_designs")


def test_noise_is_compared_with_the_truth(figures):
    found = figures("noise", "--only", "linear", "--seeds", "2", "--set", "input_map=linear",
                    "--set", "covariance=matern52")
    assert len(found["results"]["linear"]) == 2
    for row in found["results"]["linear"]:
        assert 0.0 < row["excess"] < 0.5  # no model is better than the truth


def test_seconds_are_those_of_both_trainings(figures):
    found = figures("fit_seconds", "--sizes", "30x5", "--repeats", "1")["results"]["30x5"]
    for name, each in found["runs"].items():
        assert each[0]["factorisations"] > 0, name
    assert found["ratio"] > 0.0


def test_a_size_must_be_a_size(figures, capsys):
    with pytest.raises(SystemExit):
        figures("fit_seconds", "--sizes", "30x2")
    assert "must be rows x inputs" in capsys.readouterr().err


@pytest.mark.parametrize(("place", "least"), [
    ((0.114614, 0.555649, 0.852547), -3.86278),
    ((0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573), -3.32237),
])
def test_hartmanns_functions_have_their_known_minima(small_designs, place, least):
    assert small_designs.hartmann(np.array([place]))[0] == pytest.approx(least, abs=1e-5)


def test_water_flows_through_the_borehole_as_published(small_designs):
    # At the middle of the ranges, by the formula of Morris, Mitchell and Ylvisaker (1993).
    log_ratio = np.log(25050.0 / 0.1)
    leak = 2.0 * 1400.0 * 89335.0 / (log_ratio * 0.1**2 * 10950.0)
    flow = 2.0 * np.pi * 89335.0 * (1050.0 - 760.0) / (log_ratio * (1.0 + leak + 89335.0 / 89.55))
    assert small_designs.borehole(np.full((1, 8), 0.5))[0] == pytest.approx(flow)


def test_a_loop_counts_points_that_are_chosen_again(small_designs, monkeypatch):
    class Blind:
        """A model without an opinion: it is the same everywhere."""

        def fit(self, X, y):
            return self

        def predict(self, X, return_std):
            return np.zeros(len(X)), np.ones(len(X))

    monkeypatch.setattr(small_designs, "MODELS", {"blind": lambda d: Blind()})
    found = small_designs.loop("blind", "learn", 0)
    assert found["repeated"] == small_designs.N_MORE - 1
    assert found["least"] >= 0.397887


def test_improvement_grows_with_doubt(small_designs):
    mean = np.zeros(3)
    values = small_designs.improvement(mean, np.array([0.0, 1.0, 2.0]), 0.0)
    assert values == pytest.approx([0.0, 0.398942, 0.797885], abs=1e-6)
