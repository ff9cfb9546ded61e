"""The stress run, in short, and that it would notice."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from pcegp import PCEGPRegressor
from pcegp.benchmarks import stress, stress_peers
from pcegp.cli import app


def test_two_hundred_odd_fits_without_a_fault(tmp_path):
    path = tmp_path / "stress.json"
    done = CliRunner().invoke(
        app, ["bench", "stress", "--fits", "200", "--seed", "7", "--json", str(path)]
    )
    assert done.exit_code == 0, done.output
    assert "No fault." in done.output
    figures = json.loads(path.read_text())
    assert figures["faults"] == []
    assert sum(figures["outcomes"].values()) == 200


def test_a_fault_ends_the_command_with_1(tmp_path, monkeypatch):
    monkeypatch.setattr(stress, "outcome", lambda *_: "fault: mean not finite")
    path = tmp_path / "stress.json"
    done = CliRunner().invoke(app, ["bench", "stress", "--fits", "7", "--json", str(path)])
    assert done.exit_code == 1
    assert done.stdout.count("fault: mean not finite") == 5
    assert "7 faults were seen: look at the first above, and at all with --json" in done.stderr
    assert len(json.loads(path.read_text())["faults"]) == 7


def test_the_generator_covers_what_it_lists():
    tables = [stress.problem(np.random.default_rng(k)) for k in range(800)]
    seen = {kind for table in tables for kind in table.kinds}
    assert seen == {"repeated rows", *stress._INPUTS, *stress._TARGETS}
    assert {len(table.y) for table in tables} >= {1, 2, 60}
    chosen = [stress.settings(np.random.default_rng(k)) for k in range(300)]
    for name, count in (("scale", 3), ("scale_transform", 5), ("noise_transform", 5),
                        ("noise", 2), ("degree", 5)):
        assert len({settings[name] for settings in chosen}) == count


def fitted():
    table = stress.Problem(np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20) ** 2, ())
    return PCEGPRegressor(max_iter=3).fit(table.X, table.y), table


@pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")
@pytest.mark.parametrize(
    ("part", "fault"), [("dual", "mean not finite"), ("factor", "std not positive")]
)
def test_a_broken_model_is_noticed(part, fault):
    model, table = fitted()
    assert stress.faults_of(model, table) == []
    (output,) = model.model_.outputs
    spoiled = replace(output.base, **{part: getattr(output.base, part) * np.nan})
    model.model_ = replace(model.model_, outputs=(replace(output, posterior=spoiled),))
    assert fault in stress.faults_of(model, table)


class Broken:
    """A table that raises what nobody foresaw."""

    shape = (20, 1)

    def __array__(self, *_, **__):
        raise RuntimeError("broken")


def test_an_error_of_another_kind_and_a_hang_are_faults(monkeypatch):
    _, table = fitted()
    good = {"max_iter": 2}
    assert stress.outcome(table, good, twice=True) == "well"
    assert stress.outcome(table, {"degree": -1}, twice=False) == "refused: SettingError"
    unusable = stress.Problem(Broken(), table.y, ())
    assert stress.outcome(unusable, good, twice=False) == "fault: RuntimeError: broken"
    monkeypatch.setattr(stress, "_SECONDS", 0.5)
    slow = stress.Problem(np.random.default_rng(0).uniform(size=(300, 3)), np.arange(300.0), ())
    assert stress.outcome(slow, {"max_iter": 5000}, twice=False) == "fault: more than a minute"


@pytest.mark.parametrize(("mean", "variance", "expected"), [
    (0.0, 1.0, "well"), (np.nan, 1.0, "not finite"), (0.0, np.inf, "not finite"),
    (0.0, -1.0, "variance not positive"), (0.0, 0.0, "variance not positive"),
])
def test_peers_are_judged_by_what_they_predict(mean, variance, expected):
    def predict(X, y, rows):
        return np.full(len(rows), mean), np.full(len(rows), variance)

    assert stress_peers.outcome(predict, np.zeros((3, 1)), np.zeros(3)) == expected


def test_peers_that_raise_are_counted():
    def predict(X, y, rows):
        raise RuntimeError

    assert stress_peers.outcome(predict, np.zeros((3, 1)), np.zeros(3)) == "exception"


def test_a_peer_that_crashes_is_counted_and_the_next_one_served():
    X, y = np.linspace(0, 1, 8)[:, None], np.linspace(0, 1, 8)
    with stress_peers.Child() as child:
        assert child.outcome("scikit-learn", X, y) == "well"
        child._process.kill()
        child._process.join()
        assert child.outcome("scikit-learn", X, y) == "crashes"
        assert child.outcome("scikit-learn", X, y) == "well"


@pytest.mark.filterwarnings("ignore:.*torch.*:DeprecationWarning")
@pytest.mark.parametrize("name", stress_peers.PEERS)
def test_each_peer_fits_an_easy_table(name):
    _, predict = stress_peers.PEERS[name]
    X = np.linspace(0, 1, 20)[:, None]
    assert stress_peers.outcome(predict, X, np.sin(6 * X[:, 0])) == "well"


def test_peers_stand_beside_ours(monkeypatch):
    few = {"scikit-learn": stress_peers.PEERS["scikit-learn"]}
    monkeypatch.setattr(stress_peers, "PEERS", few)
    done = CliRunner().invoke(app, ["bench", "stress", "--fits", "1", "--peers", "2"])
    assert done.exit_code == 0, done.output
    assert "  scikit-learn: " in done.output
