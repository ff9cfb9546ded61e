"""What `pcegp reproduce` runs: the toy examples, the runtime figure and the benchmark."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pcegp import __version__, datasets
from pcegp.errors import SettingError, unknown_name
from pcegp.experiments import benchmark, demo, methods, results_page, speed_report, summary
from pcegp.experiments.results_file import ResultsFile, key_of
from pcegp.files import check_writable, write_figures
from pcegp.progress import bar

TOYS, RUNTIME = "higdon", "runtime"
#: Everything that can be run, in this order.
PARTS = (TOYS, RUNTIME, *benchmark.DATA)


def main(
    out: Path, budget: str, protocol: str, only: list[str] | None, names: list[str] | None,
    folder: Path | None, jobs: int, dask: str | None, json_path: Path | None, show: bool,
    echo: Callable[[str], None],
) -> None:
    """Run what is missing, then write tables, pictures and the page of all there is."""
    for name in only or ():
        if name not in PARTS:
            raise unknown_name("only", name, PARTS)
    if budget not in methods.BUDGETS:
        raise unknown_name("budget", budget, methods.BUDGETS)
    if protocol not in benchmark.PROTOCOLS:
        raise unknown_name("protocol", protocol, benchmark.PROTOCOLS)
    if jobs == 0:
        raise SettingError("jobs=0 means no worker: give 1 or more, or -1 for all cores")
    parts = only or list(PARTS)
    data = [name for name in benchmark.DATA if name in parts]
    plan = benchmark.Plan(protocol, budget, methods.BUDGETS[budget], methods.chosen(names), data,
                          folder, out)
    results_page.check_tools()
    for file in (out / "index.html", json_path):
        if file is not None:
            check_writable(file)
    for name in data:
        datasets.load(name, folder)  # before anything expensive
    results = ResultsFile(out / "results.jsonl")
    _pictures(plan, parts, echo)
    _benchmark(plan, results, jobs, dask, show, echo)

    rows = [row for row in results.rows
            if row["protocol"] == protocol and row["budget"] == budget]
    echo(results_page.text_table(rows, data))
    facts = {"date": datetime.now(UTC).date().isoformat(), "version": __version__,
             "budget": budget, "protocol": protocol,
             "machine": f"{os.cpu_count()} cores, {_memory_gb():.0f} GB"}
    verdicts = _verdicts(rows, budget)
    results_page.write(out, rows, benchmark.DATA, facts, verdicts, _drawn(out), echo)
    for text in verdicts:
        echo(text)
    write_figures(json_path, {**facts, "results": _figures(rows, data)}, echo)


def _benchmark(
    plan: benchmark.Plan, results: ResultsFile, jobs: int, dask: str | None, show: bool,
    echo: Callable[[str], None],
) -> None:
    done = results.done
    missing = [task for task in benchmark.tasks(plan) if key_of(task) not in done]
    total = sum(1 for _ in benchmark.tasks(plan))
    if not total:
        return
    echo(f"{total - len(missing)} of {total} folds are in {results.path}, {len(missing)} to go; "
         "stop at any time, the same command goes on")
    with bar(show, len(missing), "folds", "{last}", last="") as progress:
        benchmark.run(plan, results, jobs, dask, progress)


def _pictures(plan: benchmark.Plan, parts: list[str], echo: Callable[[str], None]) -> None:
    """The toy examples and the runtime figure, unless they are there."""
    if TOYS in parts and not (plan.out / "higdon.json").exists():
        demo.main(plan.out, plan.out / "higdon.json", echo)
    if RUNTIME in parts and not (plan.out / "speed.json").exists():
        speed_report.main(plan.out, plan.out / "speed.json", plan.budget.speed_sizes, None, echo)


def _verdicts(rows: list[dict[str, Any]], budget: str) -> list[str]:
    if budget == "smoke":
        return ["A smoke run shows that everything works; its figures mean nothing."]
    texts = (results_page.verdict(rows, method) for method in ("pcegp", "pcegp_mixture"))
    return [text for text in texts if text is not None]


def _drawn(out: Path) -> list[tuple[str, str]]:
    known = [("higdon.png", "Toy examples: the Higdon function in one and in two inputs"),
             ("speed.png", "Runtime: one training iteration, and prediction")]
    return [(file, caption) for file, caption in known if (out / file).exists()]


def _figures(rows: list[dict[str, Any]], data: list[str]) -> dict[str, Any]:
    """The table as plain data."""
    return {
        name: {
            line.method: {
                "label": line.label, "folds": line.n_folds, "seconds": line.seconds,
                "note": line.reason, **line.means,
                "paper": {m: summary.paper_value(name, m, line.method) for m in summary.METRICS},
            }
            for line in summary.lines(rows, name)
        }
        for name in data
    }


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
