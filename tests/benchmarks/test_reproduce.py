"""`pcegp reproduce`: every fold once, whatever happens, and a page of what was found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pcegp import PCEGPMixture, PCEGPRegressor, PCEGPSearchCV, metrics
from pcegp.benchmarks import protocols, reproduce, results_page, summary
from pcegp.benchmarks.baselines import CatBoostGaussian, GPBoost
from pcegp.benchmarks.methods import BUDGETS, METHODS
from pcegp.benchmarks.results_file import KEYS, ResultsFile, key_of
from pcegp.cli import app
from pcegp.errors import DataError
from pcegp.training import Descent
from small_benchmark import ROW, plan_of

SMOKE = ["reproduce", "--budget", "smoke", "--jobs", "1"]
SLUMP = [*SMOKE, "--only", "slump", "--methods", "pcegp,forest,gp_ard"]


def invoke(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == code, result.output
    return result.output


def rows_in(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    text = invoke(*SLUMP, "--out", str(folder), "--json", str(folder / "figures.json"))
    return folder, text


def test_a_run_writes_rows_tables_a_picture_and_a_page(run):
    folder, text = run
    assert "Concrete Slump Test Slump (103 rows)" in text
    assert "(5.603)" not in text  # the deep GP was not asked for
    assert "(6.612)" in text  # what the paper has for GP ARD
    rows = rows_in(folder)
    assert {row["method"] for row in rows} == {"pcegp", "forest", "gp_ard"}
    for row in rows:
        assert {"method", "data", "seed", "fold", "seconds", "version", "RMSE", "NLL", "MAE",
                "MedAE", "MSE", "R2", "CRPS", "coverage95"} <= row.keys()
    page = (folder / "index.html").read_text()
    assert "random forest" in page
    assert "rmse_slump.png" in page
    assert "<small>(6.612)</small>" in page
    glance, whole = page.split('<h2 id="slump">')
    for part, names in ((glance, ("RMSE", "NLL")), (whole, summary.METRICS)):
        best = sum(line.ranks[metric] == 1 for line in summary.lines(rows, "slump")
                   for metric in names)
        assert part.count("background: rgb(55,150,70)") == best >= len(names)
    assert "2% of their steps" in page  # what the budget took away
    assert (folder / "rmse_slump.png").read_bytes().startswith(b"\x89PNG")
    assert "| GP ARD |" in (folder / "results.md").read_text()
    figures = json.loads((folder / "figures.json").read_text())
    assert figures["results"]["slump"]["gp_ard"]["paper"]["RMSE"] == 6.612


def test_a_second_run_computes_nothing(run):
    folder, _ = run
    before = (folder / "results.jsonl").read_bytes()
    assert "3 of 3 folds are in" in invoke(*SLUMP, "--out", str(folder))
    assert (folder / "results.jsonl").read_bytes() == before


def test_a_run_that_is_killed_goes_on_and_no_row_is_lost_or_doubled(tmp_path):
    """Killed after the first rows, with half a line at the end as a crash may leave it."""
    command = [*SMOKE, "--only", "slump,yacht,boston", "--methods", "forest,ard5", "--out",
               str(tmp_path)]
    file = tmp_path / "results.jsonl"
    process = subprocess.Popen([sys.executable, "-m", "pcegp", *command],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = rows_in(tmp_path)
    with file.open("a") as out:
        out.write('{"protocol": "paper", "bud')
    invoke(*command)
    rows = rows_in(tmp_path)
    assert rows[: len(kept)] == kept
    assert len({key_of(row) for row in rows}) == len(rows) == 6


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C reaches a whole group on POSIX systems")
def test_ctrl_c_in_a_training_stops_and_keeps_no_half_trained_fold(tmp_path, jobs):
    """Every row is of a whole training, and the next run goes on."""
    command = [*SMOKE[:-1], "1", "--methods", "pcegp,pcegp_mixture", "--out", str(tmp_path)]
    file = tmp_path / "results.jsonl"
    # More data than can be done before the interrupt comes.
    process = subprocess.Popen(
        [sys.executable, "-m", "pcegp", *command, "--jobs", jobs, "--only",
         "slump,yacht,boston,concrete,airfoil,wine_red"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )
    end = time.monotonic() + 120
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    interrupted = rows_in(tmp_path)
    assert len(interrupted) < 12
    invoke(*command, "--only", "slump,yacht")
    rows = rows_in(tmp_path)
    assert rows[: len(interrupted)] == interrupted
    assert len({key_of(row) for row in rows}) == len(rows)
    assert sum(row["data"] in ("slump", "yacht") for row in rows) == 4
    for row in rows:
        key = {name: row[name] for name in KEYS}
        found = protocols.fold_row(plan_of(tmp_path), protocols.Call(key))
        assert found["RMSE"] == row["RMSE"]


def test_a_row_is_kept_whole_or_not_at_all(tmp_path, monkeypatch):
    """A disk that is full after half a line."""
    results = ResultsFile(tmp_path / "results.jsonl")
    tasks = ({**task, **ROW} for task in protocols.tasks(
        plan_of(tmp_path, data=["slump", "yacht"])))
    results.append(next(tasks))
    whole, write, calls = results.path.read_bytes(), os.write, []

    def full(handle, content):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(handle, content[:10])

    second = next(tasks)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="space"):
            results.append(second)
    assert results.path.read_bytes() == whole
    assert results.get(key_of(second)) is None
    results.append(second)
    assert len(ResultsFile(results.path).rows) == 2


def test_a_second_run_is_refused_before_it_times_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce.speed_report, "main", lambda *_: pytest.fail("it was timed"))
    with ResultsFile(tmp_path / "results.jsonl").alone():
        text = invoke(*SMOKE, "--only", "runtime", "--out", str(tmp_path), code=1)
    assert "another run writes" in text


def test_two_runs_do_not_write_to_one_file(tmp_path):
    results = ResultsFile(tmp_path / "results.jsonl")
    with results.alone():
        text = invoke(*SMOKE, "--only", "slump", "--methods", "forest,forest", "--out",
                      str(tmp_path), code=1)
    assert "another run writes" in text
    assert "1 of 1 folds" not in text
    invoke(*SMOKE, "--only", "slump", "--methods", "forest,forest", "--out", str(tmp_path))
    assert len(rows_in(tmp_path)) == 1


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_text("hello\n")
    with pytest.raises(DataError, match="line 1"):
        ResultsFile(file)
    assert file.read_text() == "hello\n"


def test_a_method_that_fails_is_a_row_with_its_reason(tmp_path, monkeypatch):
    class Failing:
        def get_params(self, deep=True):
            return {}

        def fit(self, X, y):
            raise RuntimeError("did not\nconverge")

    monkeypatch.setitem(METHODS, "forest", replace(METHODS["forest"], make=lambda *_: Failing()))
    results = ResultsFile(tmp_path / "results.jsonl")
    protocols.run(plan_of(tmp_path), results, jobs=1)
    assert results.rows[0]["error"] == "RuntimeError: did not converge"
    (line,) = summary.lines(results.rows, "slump")
    assert line.means == {}
    assert "1 of 1 folds failed" in (line.reason or "")
    assert "failed" in results_page.text_table(results.rows, ["slump"])


@pytest.mark.parametrize("error", [MemoryError("16 GiB"), RuntimeError("can't allocate memory")])
def test_what_a_machine_cannot_do_is_no_result_of_a_method(tmp_path, monkeypatch, error):
    class Failing:
        def fit(self, X, y):
            raise error

    monkeypatch.setitem(METHODS, "forest", replace(METHODS["forest"], make=lambda *_: Failing()))
    results = ResultsFile(tmp_path / "results.jsonl")
    with pytest.raises(MemoryError):
        protocols.run(plan_of(tmp_path), results, jobs=1)
    assert results.rows == []


def test_ctrl_c_in_a_toy_example_stops_the_run(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Descent, "_step", interrupted)  # the estimator would keep what it has
    text = invoke(*SMOKE, "--only", "higdon", "--out", str(tmp_path), code=130)
    assert "interrupted" in text
    assert not (tmp_path / "higdon.json").exists()


def test_the_help_names_all_methods_and_parts():
    text = invoke("reproduce", "--help")
    for name in (*METHODS, *reproduce.PARTS):
        assert name in text
    assert "PCEGP_DATA" in text


@pytest.mark.parametrize("option", ["--only", "--methods"])
def test_an_empty_choice_is_refused(tmp_path, option):
    text = invoke(*SMOKE, option, ",", "--out", str(tmp_path / "new"), code=2)
    assert f"{option} names nothing" in text
    assert not (tmp_path / "new").exists()


def test_each_budget_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    invoke(*SMOKE, "--only", "slump", "--methods", "forest", "--protocol", "honest")
    assert (tmp_path / "reproduce" / "smoke-honest" / "index.html").exists()


def test_a_runtime_figure_of_a_smaller_budget_is_made_anew(tmp_path, monkeypatch):
    sizes = []

    def measure(out, path, chosen, *_):
        sizes.append(chosen)
        path.write_text(json.dumps([{"n": n} for n in chosen]))
        (out / "speed.png").touch()

    monkeypatch.setattr(reproduce.speed_report, "main", measure)
    for name in ("smoke", "smoke", "short", "short", "smoke"):
        plan = plan_of(tmp_path, budget=BUDGETS[name])
        reproduce._pictures(plan, ["runtime"], echo=lambda _: None)
    assert sizes == [BUDGETS["smoke"].speed_sizes, BUDGETS["short"].speed_sizes]


def test_data_that_cannot_be_had_are_left_out_unless_asked_for(tmp_path, monkeypatch):
    def load(name, folder=None):
        if name == "heating":
            raise DataError("heating cannot be had")

    said = []
    monkeypatch.setattr(reproduce.datasets, "load", load)
    assert reproduce._available(["yacht", "heating"], None, False, said.append) == ["yacht"]
    assert said == ["Without heating: heating cannot be had"]
    with pytest.raises(DataError, match="heating"):
        reproduce._available(["yacht", "heating"], None, True, said.append)
    with pytest.raises(DataError, match="none of the data"):
        reproduce._available(["heating"], None, False, said.append)


def test_the_honest_protocol_keeps_equal_rows_together(tmp_path):
    X, _, groups = protocols.rows_of("wine_red", plan_of(tmp_path, budget=BUDGETS["full"]))
    for train, test in protocols.splits("honest", X, groups, seed=0):
        assert not set(groups[train]) & set(groups[test])
    train, test = protocols.splits("paper", X, groups, seed=0)[0]
    assert set(groups[train]) & set(groups[test])  # why there is an honest one


@pytest.mark.filterwarnings("ignore::pcegp.errors.PCEGPWarning")  # of 27 rows
@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
def test_the_papers_setup_is_tuned_where_the_budget_allows(tmp_path, protocol):
    budget = replace(BUDGETS["smoke"], n_trials=2, n_rows=30)
    plan = plan_of(tmp_path, protocol=protocol, budget=budget, methods=["pcegp_paper"])
    results = ResultsFile(tmp_path / "results.jsonl")
    protocols.run(plan, results, jobs=1)
    X, y, groups = protocols.rows_of("slump", plan)
    train, test = protocols.splits(protocol, X, groups, 1)[0]  # seed 0 is for tuning
    # The paper tunes on all rows, then scores folds of them; the honest way sees no test row.
    search = PCEGPSearchCV("paper", n_trials=2)
    if protocol == "paper":
        search.set_params(refit=False).fit(X, y)
        model = PCEGPRegressor(**search.best_params_).fit(X[train], y[train])
    else:
        model = search.fit(X[train], y[train], groups[train])
    scores = metrics.scores(y[test], *model.predict(X[test], return_std=True))
    assert results.rows[0]["RMSE"] == pytest.approx(scores["RMSE"], rel=1e-9)
    assert len(list(tmp_path.glob("search-*.journal"))) == 1  # a stopped run goes on there


@pytest.mark.parametrize("name", ["pcegp_paper", "gpboost", "catboost"])
def test_the_honest_protocol_keeps_equal_rows_together_inside_too(tmp_path, monkeypatch, name):
    seen = []

    def remember(self, X, y, groups=None):
        seen.append(groups)
        raise RuntimeError("enough")

    for model in (PCEGPSearchCV, GPBoost, CatBoostGaussian):
        monkeypatch.setattr(model, "fit", remember)
    for protocol in protocols.PROTOCOLS:
        plan = plan_of(tmp_path, protocol=protocol, methods=[name], data=["wine_red"])
        task = next(protocols.tasks(plan))
        tuned = PCEGPSearchCV() if name == "pcegp_paper" else None
        protocols.fold_row(plan, protocols.Call(task, tuned))
    assert seen[0] is None
    assert len(seen[1]) == 135


def test_a_mixture_and_its_first_member_are_trained_once_for_both(tmp_path, monkeypatch):
    trained = []
    fit = PCEGPRegressor.fit

    def counted(self, X, y, *rest):
        trained.append(self.degree)
        return fit(self, X, y, *rest)

    monkeypatch.setattr(PCEGPRegressor, "fit", counted)
    plan = plan_of(tmp_path, methods=["pcegp", "pcegp_mixture", "ard5"])
    results = ResultsFile(tmp_path / "results.jsonl")
    protocols.run(plan, results, jobs=1)
    assert len(trained) == 2 + 1
    rows = {row["method"]: row for row in results.rows}
    assert rows["pcegp_mixture"]["seconds"] > rows["pcegp"]["seconds"]
    assert rows["pcegp_mixture"]["shared_seconds"] == rows["pcegp"]["seconds"]
    assert reproduce._own_seconds(rows["pcegp_mixture"]) < rows["pcegp_mixture"]["seconds"]
    # What was stored before is not computed again, and each alone gives the same.
    for name in ("pcegp", "pcegp_mixture"):
        trained.clear()
        alone = ResultsFile(tmp_path / f"{name}.jsonl")
        for row in results.rows:
            if row["method"] != name:
                alone.append(row)
        protocols.run(plan, alone, jobs=1)
        assert len(trained) == (1 if name == "pcegp" else 2)
        assert alone.rows[-1]["method"] == name
        assert alone.rows[-1]["NLL"] == rows[name]["NLL"]


def test_a_model_is_not_trained_again_for_the_mixture_of_a_later_run(tmp_path, monkeypatch):
    """Its row is there before the mixture begins, and its file until the mixture has a row."""
    plan = plan_of(tmp_path, methods=["pcegp", "pcegp_mixture"])
    results = ResultsFile(tmp_path / "results.jsonl")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PCEGPMixture, "fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            protocols.run(plan, results, jobs=1)
    assert [row["method"] for row in results.rows] == ["pcegp"]
    assert len(list(tmp_path.glob("first-*.pcegp"))) == 1
    trained, fit = [], PCEGPRegressor.fit
    monkeypatch.setattr(PCEGPRegressor, "fit", lambda *args: trained.append(1) or fit(*args))
    protocols.run(plan, results, jobs=1)
    assert len(trained) == 1
    assert results.rows[1]["shared_seconds"] == results.rows[0]["seconds"]
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_a_library_that_cannot_be_loaded_is_one_sentence(tmp_path, monkeypatch):
    def broken(*_):
        raise ImportError("built for another NumPy")

    monkeypatch.setitem(METHODS, "forest", replace(METHODS["forest"], make=broken))
    text = invoke(*SMOKE, "--only", "slump", "--methods", "forest", "--out", str(tmp_path), code=1)
    assert "random forest cannot run here: built for another NumPy; install" in text


def test_budgets_are_what_they_say(tmp_path):
    plan = plan_of(tmp_path, budget=BUDGETS["short"], methods=list(METHODS), data=protocols.DATA)
    tasks = list(protocols.tasks(plan))
    assert sum(task["method"] == "pcegp" for task in tasks) == 90
    assert sum(task["method"] == "hhk" for task in tasks) == 27
    assert {task["seed"] for task in tasks} == {0}
    assert len(protocols.rows_of("wine_white", plan)[1]) == 1500
    for name, seeds in (("full", set(range(1, 11))), ("once", {1})):
        plan = plan_of(tmp_path, budget=BUDGETS[name], methods=["dgp"])
        tasks = list(protocols.tasks(plan))
        assert len(tasks) == 10 * len(seeds)
        assert {task["seed"] for task in tasks} == seeds
        assert len(protocols.rows_of("wine_white", plan)[1]) == 4898


def test_methods_have_the_settings_that_are_documented():
    def settings(name, budget="full"):
        return METHODS[name].make(BUDGETS[budget], 7).get_params()

    for budget in ("short", "full"):
        gp = settings("gp", budget)
        assert (gp["ard"], gp["learning_rate"], gp["max_iter"]) == (False, 0.1, 100)
        assert settings("gp_ard", budget) == {**gp, "ard": True}
        deep = settings("dgp", budget)
        assert (deep["n_inducing"], deep["learning_rate"], deep["max_iter"]) == (50, 0.001, 5000)
    assert settings("gpboost") == {"n_candidates": None, "max_rounds": 1000, "n_folds": 4,
                                   "random_state": 7}
    assert settings("gpboost", "short") == {"n_candidates": 4, "max_rounds": 200, "n_folds": 4,
                                            "random_state": 7}
    for budget, starts, iterations in (("full", 10, 15_000), ("short", 3, 1000)):
        hhk = settings("hhk", budget)
        assert (hhk["n_leaves"], hhk["n_starts"], hhk["max_iter"]) == (4, starts, iterations)
    ours = PCEGPRegressor().get_params()
    assert settings("pcegp") == {**ours, "n_jobs": 1, "random_state": 7}


@pytest.mark.parametrize(("option", "value", "known"), [
    ("--only", "yahct", "yacht"), ("--methods", "gpp", "gp_ard"), ("--budget", "long", "short"),
    ("--protocol", "mine", "honest"), ("--jobs", "0", "1 to 10000"),
    ("--data", "no/such/place", "not a folder"),
])
def test_unknown_choices_are_refused_before_any_work(tmp_path, option, value, known):
    code = 1 if option == "--data" else 2  # that is no folder; the others are typed wrongly
    text = invoke("reproduce", "--out", str(tmp_path / "new"), option, value, code=code)
    assert known in text
    assert text.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path):
    if os.name == "posix":
        assert "cannot write" in invoke(*SLUMP, "--out", "/dev/null/x", code=1)
