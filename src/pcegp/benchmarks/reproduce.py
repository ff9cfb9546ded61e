"""What `pcegp reproduce` runs: the toy examples, the runtime figure and the protocols."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pcegp import datasets
from pcegp._progress import bar
from pcegp.benchmarks import methods, protocols, results_page, speed_report, summary, toy
from pcegp.benchmarks.executors import workers
from pcegp.benchmarks.filenames import (
    HIGDON_FIGURES,
    HIGDON_PICTURE,
    RESULTS,
    SPEED_FIGURES,
    SPEED_PICTURE,
)
from pcegp.benchmarks.methods import BUDGETS
from pcegp.benchmarks.results_file import ResultsFile
from pcegp.errors import DataError, SettingError, unknown_name
from pcegp.io import write_figures
from pcegp.preprocessing import validation

TOYS, RUNTIME = "higdon", "runtime"
#: Everything that can be run, in this order.
PARTS = (TOYS, RUNTIME, *protocols.DATA)


def main(
    out: Path | None, budget: str, protocol: str, only: list[str] | None, names: list[str] | None,
    folder: Path | None, jobs: int, dask: str | None, json_path: Path | None, show: bool,
    echo: Callable[[str], None],
) -> None:
    """Run what is missing, then write tables, pictures and the page of all there is.

    Without `out` each budget and protocol has a folder of its own: a page is of one of them.
    """
    for option, choice in (("only", only), ("methods", names)):
        if choice == []:
            raise SettingError(f"--{option} names nothing: leave it out for all")
    for option, chosen, known in (("only", only or (), PARTS), ("budget", [budget], BUDGETS),
                                  ("protocol", [protocol], protocols.PROTOCOLS)):
        for name in chosen:
            if name not in known:
                raise unknown_name(option, name, known)
    validation.check_jobs("jobs", jobs)
    out = out or Path("reproduce") / f"{budget}-{protocol}"
    parts = only or list(PARTS)
    data = [name for name in protocols.DATA if name in parts]
    compared = methods.chosen(names) if data or names else []
    folder = datasets.folder_of(folder)
    results_page.check_tools()
    data = _available(data, folder, only is not None, echo)
    plan = protocols.Plan(protocol, budget, BUDGETS[budget], compared, data, folder, out,
                          shares_folder=dask is None)
    results = ResultsFile(out / RESULTS)
    with workers(jobs, dask):
        pass  # a cluster that cannot work is known before anything is timed
    with results.alone():
        _pictures(plan, parts, echo)
        _benchmark(plan, results, jobs, dask, show, echo)
    _report(plan, parts, results, json_path, echo)


def _report(
    plan: protocols.Plan, parts: Sequence[str], results: ResultsFile, json_path: Path | None,
    echo: Callable[[str], None],
) -> None:
    """Write tables, pictures, the page and the figures of all there is."""
    out, budget, protocol, data = plan.out, plan.budget_name, plan.protocol, plan.data
    rows = [row for row in results.rows
            if row["protocol"] == protocol and row["budget"] == budget]
    echo(results_page.text_table(rows, data))
    facts = {"budget": budget, "protocol": protocol, **_facts(rows)}
    verdicts = _verdicts(rows, protocol, budget)
    cuts = methods.cuts(plan.budget, sorted({row["method"] for row in rows}))
    results_page.write(out, rows, protocols.DATA, facts, verdicts, cuts, _toys(out), _drawn(out),
                       echo)
    for text in (*verdicts, *cuts):
        echo(text)
    figures = {**facts, "verdicts": verdicts, "cuts": cuts, "results": _figures(rows, data)}
    for part, file in ((TOYS, out / HIGDON_FIGURES), (RUNTIME, out / SPEED_FIGURES)):
        if part in parts:
            figures[part] = _read(file, None)
    write_figures(json_path, figures, echo)


def _available(
    names: Sequence[str], folder: Path | None, asked_for: bool, echo: Callable[[str], None]
) -> list[str]:
    """Find the data sets that can be had, before anything expensive; those asked for must be."""
    found = []
    for name in names:
        try:
            datasets.load(name, folder)
        except DataError as error:
            if asked_for:
                raise
            echo(f"Without {name}: {error}")
        else:
            found.append(name)
    if names and not found:
        raise DataError("none of the data sets can be had: see above")
    return found


def _facts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Tell when, where and by which version the rows were computed."""
    if not rows:
        return {}
    dates = sorted({row["date"] for row in rows})
    return {
        "date": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        "version": ", ".join(sorted({row["version"] for row in rows})),
        "machine": " and ".join(sorted({row["machine"] for row in rows})),
        "hours of computing": f"{sum(map(_own_seconds, rows)) / 3600:.1f}",
    }


def _own_seconds(row: dict[str, Any]) -> float:
    """Tell what a row took beside a training that it shares with another row."""
    return float(row["seconds"] - row.get("shared_seconds", 0.0))


def _benchmark(
    plan: protocols.Plan, results: ResultsFile, jobs: int, dask: str | None, show: bool,
    echo: Callable[[str], None],
) -> None:
    missing = protocols.still_missing(plan, results)
    total = sum(1 for _ in protocols.tasks(plan))
    if not total:
        return
    echo(f"{total - len(missing)} of {total} folds are in {results.path}, {len(missing)} to go; "
         "stop at any time, the same command goes on")
    with bar(show, len(missing), "folds", "{last}", last="") as progress:
        protocols.run(plan, results, jobs, dask, progress)


def _pictures(plan: protocols.Plan, parts: Sequence[str], echo: Callable[[str], None]) -> None:
    """Make the toy examples and the runtime figure of this budget, unless they are there."""
    out, sizes = plan.out, plan.budget.speed_sizes
    toys = (out / HIGDON_FIGURES, out / HIGDON_PICTURE)
    if TOYS in parts and not all(path.exists() for path in toys):
        toy.main(out, out / HIGDON_FIGURES, echo)
    if RUNTIME in parts and not ((out / SPEED_PICTURE).exists() and set(sizes) <= _sizes(out)):
        speed_report.main(out, out / SPEED_FIGURES, sizes, None, echo)


def _sizes(out: Path) -> set[int]:
    """List the sizes that have been timed; a shorter run may have done fewer."""
    return {int(row["n"]) for row in _read(out / SPEED_FIGURES, [])}


def _toys(out: Path) -> dict[str, Any]:
    """Collect the tables of the toy examples, ours and the paper's."""
    found = _read(out / HIGDON_FIGURES, None)
    return {title: found[f"higdon_{n}d"]["models"] + found[f"higdon_{n}d"]["paper"]
            for n, title in toy.TITLES.items() if found}


def _read(path: Path, otherwise: Any) -> Any:
    """Read a file of figures, if it is there."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise


def _verdicts(rows: list[dict[str, Any]], protocol: str, budget: str) -> list[str]:
    if budget == "smoke":
        return ["A smoke run shows that everything works; its figures mean nothing."]
    texts = (results_page.verdict(rows, method) for method in ("pcegp", "pcegp_mixture"))
    found = [text for text in texts if text is not None]
    if protocol == "honest":
        found.append("The paper deals rows at random: where some are repeated, its figures are of "
                     "an easier task than these.")
    return found


def _drawn(out: Path) -> list[tuple[str, str]]:
    known = [(HIGDON_PICTURE, "Toy examples: the Higdon function in one and in two inputs"),
             (SPEED_PICTURE, "Runtime: one training iteration, and prediction")]
    return [(file, caption) for file, caption in known if (out / file).exists()]


def _figures(rows: list[dict[str, Any]], data: Sequence[str]) -> dict[str, Any]:
    """Collect the table as plain data."""
    return {
        name: {
            line.method: {
                "label": line.label, "folds": line.n_folds, "seconds": line.seconds,
                "rows": results_page.size(rows, name), "note": line.reason,
                **line.means, "worst_nll": line.worst_nll, "ranks": line.ranks,
                "paper": {m: summary.paper_value(name, m, line.method) for m in summary.METRICS},
            }
            for line in found
        }
        for name, found in summary.tables(rows, data).items()
    }
