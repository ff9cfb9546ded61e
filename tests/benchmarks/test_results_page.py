"""What is shown of a run: ranks, the paper's figures beside ours, and what must be said of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pcegp.benchmarks import protocols, reproduce, results_page, summary
from pcegp.benchmarks.results_file import ResultsFile
from pcegp.io import write_figures
from small_benchmark import ROW, plan_of, rows_of_folds


def test_infinite_scores_are_kept_as_such(tmp_path):
    results = ResultsFile(tmp_path / "results.jsonl")
    key = next(protocols.tasks(plan_of(tmp_path)))
    for method, odd in (("forest", {}), ("gp", {"NLL": np.inf, "R2": -np.inf, "RMSE": np.inf})):
        results.append({**key, **ROW, "method": method, **odd})
    again = ResultsFile(tmp_path / "results.jsonl")
    assert again.rows == results.rows
    assert again.rows[1]["R2"] == -np.inf
    by_name = {line.method: line for line in summary.lines(again.rows, "slump")}
    assert results_page.number(by_name["gp"].means["NLL"]) == "∞"
    assert by_name["gp"].worst_nll == np.inf
    assert by_name["gp"].ranks["R2"] == by_name["gp"].ranks["NLL"] == 2
    results_page.write(tmp_path, again.rows, ["slump"], {}, [], [], {}, [], echo=lambda _: None)
    assert "∞" in (tmp_path / "index.html").read_text()
    write_figures(tmp_path / "figures.json", reproduce._figures(again.rows, ["slump"]), print)
    figures = json.loads((tmp_path / "figures.json").read_text(), parse_constant=pytest.fail)
    assert figures["slump"]["gp"]["NLL"] is None  # JSON has no number for it
    assert figures["slump"]["forest"]["NLL"] == 0.5


def test_ranks_compare_what_all_methods_have():
    rows = rows_of_folds(pcegp=(10, 10), hhk=(10, 1), forest=(3,))
    assert summary.common_folds(rows, "slump") == [(1, 0), (1, 1), (1, 2)]
    rows = rows_of_folds(pcegp=(10, 10), hhk=(10, 1))
    assert len(summary.common_folds(rows, "slump")) == 11
    for line in summary.lines(rows, "slump", summary.common_folds(rows, "slump")):
        assert line.n_folds == 11
    # On the easy folds alone a method looks better than on all; that must not rank it first.
    rows = rows_of_folds(pcegp=(10,), hhk=(3,))
    for row in rows:
        row["RMSE"] += row["method"] == "hhk"
    by_name = {line.method: line for line in summary.lines(rows, "slump")}
    assert by_name["hhk"].means["RMSE"] < by_name["pcegp"].means["RMSE"]
    assert by_name["pcegp"].ranks["RMSE"] == 1
    assert by_name["hhk"].ranks == {}
    # As many folds, but others.
    shifted = [{**row, "fold": row["fold"] + 1} for row in rows_of_folds(hhk=(3,))]
    other = rows_of_folds(pcegp=(3,)) + shifted
    assert all(line.ranks == {} for line in summary.lines(other, "slump"))
    assert summary.is_uneven(other, "slump")
    assert not summary.is_uneven(rows_of_folds(pcegp=(3,), hhk=(3,)), "slump")
    common = summary.lines(rows, "slump", summary.common_folds(rows, "slump"))
    assert {line.method: line.ranks["RMSE"] for line in common} == {"pcegp": 1, "hhk": 2}


def test_equal_scores_have_equal_ranks():
    assert summary._ranks("RMSE", {"a": 2.0, "b": 1.0, "c": 1.0}) == {"a": 3, "b": 1, "c": 1}


def test_where_the_paper_failed_the_tables_say_so_and_where_ours_failed_its_figure_stays():
    rows = [{**row, "data": "wine_red"} for row in rows_of_folds(pcegp=(3,), gpboost=(3,), gp=(3,))]
    for row in rows:
        if row["method"] == "gp":
            row["error"] = "RuntimeError: singular"
    text = results_page.text_table(rows, ["wine_red"])
    table = results_page.markdown(rows, ["wine_red"], {}, [], ["Cut."])
    gp = next(line for line in table.splitlines() if line.startswith("| GP |"))  # its RMSE
    assert gp.endswith("singular (0.619) |")
    for shown in (text, table):
        assert "(failed)" in shown  # GPBoost, in the paper
        assert "(0.619)" in shown
    assert "Cut." in table
    assert summary.paper_best("wine_red", "RMSE") == 0.578


def test_the_page_has_toys_violins_and_a_star_for_fewer_folds(tmp_path):
    rows = rows_of_folds(pcegp=(10,), dgp=(3,), forest=(1,))
    toys = {"A toy": [{"model": "ours", "RMSE": 0.125}, {"model": "theirs", "RMSE": 0.25}]}
    results_page.write(tmp_path, rows, ["slump"], {"budget": "short"}, ["We win."], ["Cut."], toys,
                       [("speed.png", "How fast")], echo=lambda _: None)
    page = (tmp_path / "index.html").read_text()
    for text in ("A toy", "0.125", "We win.", "Cut.", "speed.png", "that they have in common"):
        assert text in page
    text = results_page.markdown(rows, ["slump"], {}, [], [])
    assert "| DGP | 3.000* (5.603) |" in text
    assert "| PCEGP, default | **6.500** (6.748) |" in text
    assert "| best of the paper's six | (5.603) |" in text
    glance = page[page.index("RMSE at a glance"):page.index("NLL at a glance")]
    assert "3.000*" in glance
    assert "6.500*" not in glance
    assert "(5.603)" in glance[glance.index("best of the paper"):]
    figure = results_page.violins(rows, "slump")
    (ax,) = figure.axes
    assert len(ax.collections) == 2  # violins of those with more than one fold
    assert "10 of" not in results_page.verdict(rows, "pcegp")


def test_a_verdict_tells_of_data_with_fewer_folds():
    rows = rows_of_folds(pcegp=(10,))
    rows += [{**row, "data": "yacht"} for row in rows_of_folds(pcegp=(4,))]
    assert "yacht: 4 of 10 folds" in results_page.verdict(rows, "pcegp")


def test_a_verdict_tells_that_the_honest_task_is_harder():
    rows = rows_of_folds(pcegp=(10,))
    easy, honest = (reproduce._verdicts(rows, name, "short") for name in protocols.PROTOCOLS)
    assert honest[:-1] == easy
    assert "an easier task" in honest[-1]


def test_a_part_of_the_rows_is_said_to_be_one(tmp_path):
    rows = [{**row, "data": "wine_white", "n_known": 4898} for row in rows_of_folds(pcegp=(3,))]
    said = "103 of 4,898 rows, drawn at random"
    assert said in results_page.title(rows, "wine_white")
    assert said in results_page.verdict(rows, "pcegp")
    assert "103 of 4,898 rows" in results_page.markdown(rows, ["wine_white"], {}, [], [])
    assert reproduce._figures(rows, ["wine_white"])["wine_white"]["pcegp"]["rows"] == said


def test_the_page_tells_when_and_where_rows_were_computed():
    rows = rows_of_folds(pcegp=(2,))
    rows[1]["date"], rows[1]["version"] = "2026-02-03", "0.2"
    facts = reproduce._facts(rows)
    assert facts["date"] == "2026-01-01 to 2026-02-03"
    assert facts["version"] == "0.1, 0.2"
    assert facts["machine"] == "2 cores"


def test_ranks_and_the_papers_best():
    assert summary.paper_best("slump", "RMSE") == 5.603
    assert summary.paper_best("yacht", "NLL") == -0.643
    assert summary._ranks("R2", {"a": 0.9, "b": 0.99}) == {"b": 1, "a": 2}
    assert summary._ranks("coverage95", {"a": 1.0, "b": 0.94}) == {"b": 1, "a": 2}
    assert results_page.shade(1, 6) == "rgb(55,150,70)"
    assert results_page.shade(6, 6) == "rgb(234,230,147)"


def test_variances_that_are_none_give_no_scores_of_intervals():
    rows = rows_of_folds(gpboost=[2], forest=[2])
    rows[0] |= {"n_bad_variances": 11, "NLL": 4e6}
    lines = {line.method: line for line in summary.lines(rows, "slump")}
    assert set(lines["gpboost"].means) == set(summary.METRICS) - {"NLL", "CRPS", "coverage95"}
    assert lines["gpboost"].reason == ("no NLL: 11 of 22 variances, on 1 of 2 folds, were not "
                                       "positive")
    assert np.isnan(lines["gpboost"].worst_nll)
    assert "NLL" not in lines["gpboost"].ranks
    assert lines["forest"].ranks["NLL"] == 1
    assert "4000000" not in results_page.text_table(rows, ["slump"])
