"""`pcegp tune` as a user types it, and the pictures of its search."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.integrate import trapezoid
from typer.testing import CliRunner

import pcegp
from pcegp import PCEGPMixture, PCEGPSearchCV
from pcegp.cli.app import app
from pcegp.cli.tune import seconds
from pcegp.errors import SettingError
from pcegp.inspection import search_plots

RNG = np.random.default_rng(1)
X = RNG.uniform(0, 1, (30, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1]


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    colours = np.where(X[:, 1] > 0.5, "red", "blue")
    lines = ["a,b,colour,batch,y", *(
        f"{a},{b},{c},{k // 2},{y}"
        for k, ((a, b), c, y) in enumerate(zip(X, colours, Y, strict=True))
    )]
    path = tmp_path / "plant.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_becomes_a_model_that_can_be_carried_on(table):
    arguments = ("tune", table, "--target", "y", "--trials", 2, "--group", "batch",
                 "--categorical", "colour", "--json", "tuned.json", "--objective", "rmse")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "2 trials" in result.output
    assert "optimistic" in result.output
    assert "Cholesky" in result.output
    assert result.stderr == ""
    figures = json.loads(table.with_name("tuned.json").read_text())
    assert sum(figures["trials"].values()) == 2
    model = pcegp.load(table.with_name("model.pcegp"))
    assert list(model.feature_names_in_) == ["a", "b", "colour=blue", "colour=red"]
    assert isinstance(model, PCEGPMixture) == (len(figures["ensemble"]) > 1)
    assert table.with_name("plant-y.journal").exists()

    again = run(*arguments[:5], 3, *arguments[6:])
    assert "3 trials" in again.output
    assert run("info", "model.pcegp").exit_code == 0
    assert run("explain", "model.pcegp").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--target", "z"], 1, "'z'"),
        (["--target", "y"], 1, "--categorical"),
        (["--target", "y", "--features", "a,c"], 1, "'c'"),
        (["--target", "y", "--features", "a", "--time", "soon"], 2, "--time 'soon'"),
        (["--target", "y", "--features", "a", "--group", "g"], 1, "--group"),
        (["--target", "y", "--features", "a", "--objective", "mse"], 2,
         "--objective 'mse' is not known: choose from rmse, nll, crps"),
        (["--target", "y", "--features", "a", "--space", "all"], 2, "auto, paper"),
        (["--target", "y", "--features", "a", "--jobs", "0"], 2, "--jobs 0 must be a whole number"),
        (["--target", "y", "--features", "a", "--storage", "postgresql://127.0.0.1:1/x"], 1,
         "cannot be used"),
        (["--target", "y", "--features", "a", "--out", "/dev/null/m"], 1, "/dev/null"),
        (["--target", "y", "--trials", "0"], 2, "trials"),
        ([], 2, "target"),
    ],
)
def test_what_cannot_work_is_one_line(table, arguments, code, text):
    result = run("tune", table, *arguments)
    assert result.exit_code == code, result.output
    assert text in result.output
    if code == 1 or "--features" in arguments:
        assert result.stderr.startswith("pcegp tune: ")
        assert result.stderr.count("\n") == 1
    assert sorted(p.name for p in table.parent.iterdir()) == ["plant.csv"]


def test_a_study_in_a_database_is_shared_by_its_name(table):
    arguments = ("tune", table, "--target", "y", "--features", "a,b", "--storage",
                 "sqlite:///plant.db", "--study", "plant", "--trials")
    assert "1 trials" in run(*arguments, 1).output
    again = run(*arguments, 2)
    assert "2 trials" in again.output
    assert "'plant' is in sqlite:///plant.db" in again.output
    assert not list(table.parent.glob("*.journal"))


@pytest.mark.parametrize("place", ["postgresql:/u:hunter2@localhost:1/d", "u:hunter2@localhost/d",
                                   "postgres:u:hunter2@h"])
def test_an_address_that_is_no_url_is_refused_without_its_password(table, place):
    done = run("tune", table, "--target", "y", "--features", "a", "--storage", place)
    assert done.exit_code == 1
    assert "is no URL of a database: write postgresql://" in done.output
    assert "hunter2" not in done.output


def test_a_target_named_like_a_path_is_a_target(table):
    table.write_text(table.read_text().replace(",y\n", ",flow (m3/h)\n", 1))
    result = run("tune", table, "--target", "flow (m3/h)", "--features", "a", "--trials", 1)
    assert result.exit_code == 0, result.output
    assert table.with_name("plant-flow (m3_h).journal").exists()


def test_durations():
    assert [seconds(t) for t in ("90", "45s", "30m", "1.5h", "1d")] == [90, 45, 1800, 5400, 86400]
    for text in ("0m", "9" * 305 + "d"):
        with pytest.raises(SettingError, match="30m"):
            seconds(text)


@pytest.fixture(scope="module")
def search():
    def space(trial):
        return {"degree": trial.suggest_int("degree", 0, 2),
                "scale": trial.suggest_categorical("scale", ["shared", "per_input"]),
                "penalty": trial.suggest_float("penalty", 0.01, 10, log=True), "max_iter": 5}

    return PCEGPSearchCV(space, n_trials=12, cv=5, refit=False).fit(X, Y)


def test_pictures(search, tmp_path):
    for draw in (search_plots.history, search_plots.importance, search_plots.parallel):
        draw(search).figure.savefig(tmp_path / "picture.png")
    search_plots.tpe(search, "penalty").savefig(tmp_path / "tpe.png")
    assert (tmp_path / "tpe.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SettingError, match="degree, penalty"):
        search_plots.tpe(search, "scale")


def test_trials_that_are_all_alike_have_a_picture():
    def flat(trial):
        return {"penalty": trial.suggest_float("penalty", 1.0, 2.0), "degree": 0,
                "noise": "constant", "max_iter": 2}

    search = PCEGPSearchCV(flat, n_trials=4, cv=2, refit=False).fit(X, Y)
    assert search_plots.tpe(search, "penalty").axes


def test_the_history_ends_at_the_best_score(search):
    best = search_plots.history(search).lines[-1].get_ydata()[-1]
    assert best == search.best_score_


def test_parzen_densities_are_densities():
    grid = np.linspace(-2.0, 3.0, 4001)
    for points in ([], [0.0], [-2.0, 3.0], RNG.uniform(-2, 3, 20)):
        density = search_plots.parzen(grid, np.array(points), -2.0, 3.0)
        assert trapezoid(density, grid) == pytest.approx(1.0, abs=1e-5)
        assert (density > 0).all()
