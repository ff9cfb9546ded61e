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

import numpy as np
import pytest
from typer.testing import CliRunner

from pcegp.cli import app
from pcegp.errors import DataError
from pcegp.experiments import benchmark, results_page, summary
from pcegp.experiments.methods import BUDGETS, METHODS
from pcegp.experiments.results_file import ResultsFile, key_of

SMOKE = ["reproduce", "--budget", "smoke", "--jobs", "1"]
SLUMP = [*SMOKE, "--only", "slump", "--methods", "pcegp,forest,gp_ard"]


def invoke(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == code, result.output
    return result.output


def rows_in(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def plan_of(folder: Path, **changes) -> benchmark.Plan:
    settings = {"protocol": "paper", "budget_name": "smoke", "budget": BUDGETS["smoke"],
                "methods": ["forest"], "data": ["slump"], "folder": None, "out": folder}
    return benchmark.Plan(**{**settings, **changes})


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
    command = [sys.executable, "-m", "pcegp", *SMOKE, "--only", "slump,yacht,boston",
               "--methods", "forest,catboost,gp", "--out", str(tmp_path)]
    file = tmp_path / "results.jsonl"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not (file.exists() and file.stat().st_size):
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = rows_in(tmp_path)
    with file.open("a") as out:
        out.write('{"protocol": "paper", "bud')
    subprocess.run(command, check=True, capture_output=True)
    rows = rows_in(tmp_path)
    assert rows[: len(kept)] == kept
    assert len({key_of(row) for row in rows}) == len(rows) == 9


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
    benchmark.run(plan_of(tmp_path), results, jobs=1)
    assert results.rows[0]["error"] == "RuntimeError: did not converge"
    (line,) = summary.lines(results.rows, "slump")
    assert line.means == {}
    assert "1 of 1 folds failed" in (line.reason or "")
    assert "failed" in results_page.text_table(results.rows, ["slump"])


def test_infinite_scores_are_kept_as_such(tmp_path):
    results = ResultsFile(tmp_path / "results.jsonl")
    key = next(benchmark.tasks(plan_of(tmp_path)))
    results.append({**key, "seconds": 1.0, **dict.fromkeys(summary.METRICS, 0.5), "NLL": np.inf})
    again = ResultsFile(tmp_path / "results.jsonl")
    assert again.rows[0]["NLL"] is None
    (line,) = summary.lines(again.rows, "slump")
    assert results_page.number(line.means["NLL"]) == "∞"


def test_the_honest_protocol_keeps_equal_rows_together(tmp_path):
    X, _, groups = benchmark.rows_of("wine_red", plan_of(tmp_path, budget=BUDGETS["full"]))
    for train, test in benchmark.splits("honest", X, groups, seed=0):
        assert not set(groups[train]) & set(groups[test])
    train, test = benchmark.splits("paper", X, groups, seed=0)[0]
    assert set(groups[train]) & set(groups[test])  # why there is an honest one


@pytest.mark.parametrize("protocol", benchmark.PROTOCOLS)
def test_the_papers_setup_is_tuned_where_the_budget_allows(tmp_path, protocol):
    budget = replace(BUDGETS["smoke"], n_trials=2, n_rows=30)
    plan = plan_of(tmp_path, protocol=protocol, budget=budget, methods=["pcegp_paper"])
    results = ResultsFile(tmp_path / "results.jsonl")
    benchmark.run(plan, results, jobs=1)
    assert results.rows[0]["RMSE"] > 0
    # Outside the folds the search is kept, so that a stopped run goes on; inside, it is not.
    assert bool(list(tmp_path.glob("search-*.journal"))) == (protocol == "paper")


@pytest.mark.filterwarnings("ignore")  # of Dask's own set-up
def test_folds_run_on_a_dask_cluster(tmp_path):
    from distributed import LocalCluster

    results = ResultsFile(tmp_path / "results.jsonl")
    alone = ResultsFile(tmp_path / "alone.jsonl")
    plan = plan_of(tmp_path, data=["slump", "yacht"])
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        benchmark.run(plan, results, jobs=2, dask=cluster.scheduler_address)
    benchmark.run(plan, alone, jobs=1)
    found = {key_of(row): row["RMSE"] for row in results.rows}
    assert found == {key_of(row): row["RMSE"] for row in alone.rows}


def test_budgets_are_what_they_say(tmp_path):
    plan = plan_of(tmp_path, budget=BUDGETS["short"], methods=list(METHODS), data=benchmark.DATA)
    tasks = list(benchmark.tasks(plan))
    assert sum(task["method"] == "pcegp" for task in tasks) == 90
    assert sum(task["method"] == "hhk" for task in tasks) == 27
    assert {task["seed"] for task in tasks} == {0}
    assert len(benchmark.rows_of("wine_white", plan)[1]) == 1500
    full = plan_of(tmp_path, budget=BUDGETS["full"], methods=["dgp"])
    assert len(list(benchmark.tasks(full))) == 100


def test_ranks_and_the_papers_best():
    assert summary.paper_best("slump", "RMSE") == 5.603
    assert summary.paper_best("yacht", "NLL") == -0.643
    assert summary._ranks("R2", {"a": 0.9, "b": 0.99}) == {"b": 1, "a": 2}
    assert summary._ranks("coverage95", {"a": 1.0, "b": 0.94}) == {"b": 1, "a": 2}
    assert results_page.shade(1, 6) == "rgb(55,150,70)"
    assert results_page.shade(6, 6) == "rgb(234,230,147)"


@pytest.mark.parametrize(("option", "value", "known"), [
    ("--only", "yahct", "yacht"), ("--methods", "gpp", "gp_ard"), ("--budget", "long", "short"),
    ("--protocol", "mine", "honest"), ("--jobs", "0", "1 or more"),
])
def test_unknown_choices_are_refused_before_any_work(tmp_path, option, value, known):
    text = invoke("reproduce", "--out", str(tmp_path / "new"), option, value, code=1)
    assert known in text
    assert text.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path):
    if os.name == "posix":
        assert "cannot write" in invoke(*SLUMP, "--out", "/dev/null/x", code=1)
