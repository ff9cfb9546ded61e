"""The page, the tables and the pictures of a run of the benchmark."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pcegp.benchmarks import summary
from pcegp.benchmarks.filenames import PAGE, TABLES
from pcegp.benchmarks.methods import METHODS
from pcegp.benchmarks.results_file import Row
from pcegp.benchmarks.summary import METRICS, PAPER_DATA, Line
from pcegp.errors import needed
from pcegp.io import replacing, write_text

# The paper's shades, from the best method to the worst.
_SHADES = ((55, 150, 70), (85, 180, 110), (130, 205, 120), (175, 212, 114), (210, 230, 130),
           (234, 230, 147))


def shade(rank: int, count: int) -> str:
    """Choose the CSS colour of a rank among so many."""
    at = (rank - 1) / max(count - 1, 1) * (len(_SHADES) - 1)
    channels = [np.interp(at, range(len(_SHADES)), values) for values in zip(*_SHADES, strict=True)]
    return "rgb({:.0f},{:.0f},{:.0f})".format(*channels)


def number(value: float | None) -> str:
    """Write a number with three decimals, or what there is instead."""
    if value is None or np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.0f}"


def text_table(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Write what the terminal shows: ours, and the paper's in brackets."""
    out = []
    for data, found in summary.tables(rows, names).items():
        out += ["", f"{title(rows, data)}; the paper's in brackets",
                f"  {'':22s}{'RMSE':>18s}{'NLL':>18s}{'worst NLL':>11s}{'95 %':>7s}{'folds':>7s}"
                f"{'s/fold':>8s}"]
        for line in sorted(found, key=lambda line: line.means.get("RMSE", np.inf)):
            cells = "".join(f"{number(line.means.get(metric)):>9s}"
                            f"{bracket(data, metric, line.method):>9s}"
                            for metric in ("RMSE", "NLL"))
            coverage = line.means.get("coverage95")
            share = "–" if coverage is None else f"{100 * coverage:.1f}"
            out.append(f"  {line.label:22s}{cells}{number(line.worst_nll):>11s}{share:>7s}"
                       f"{line.n_folds:7d}{line.seconds:8.1f}"
                       + (f"  {line.reason}" if line.reason else ""))
    return "\n".join(out)


def bracket(data: str, metric: str, method: str) -> str:
    """Write what the paper has in brackets; nothing for a method or a metric it has not."""
    theirs = summary.paper_value(data, metric, method)
    if theirs is None:
        return ""
    return "(failed)" if np.isnan(theirs) else f"({number(theirs)})"


def title(rows: Sequence[Row], data: str) -> str:
    """Name the data set, with its rows."""
    return f"{PAPER_DATA[data]} ({size(rows, data)})"


def size(rows: Sequence[Row], data: str) -> str:
    """Say how many rows were used, and of how many if not of all."""
    used, known = _n_rows(rows, data)
    if used == known:
        return f"{used:,} rows"
    return f"{used:,} of {known:,} rows, drawn at random"


def _n_rows(rows: Sequence[Row], data: str) -> tuple[int, int]:
    """Count the rows that were used, and those that there are."""
    row = next(row for row in rows if row["data"] == data)
    return row["n_train"] + row["n_test"], row["n_known"]


def verdict(rows: Sequence[Row], method: str) -> str | None:
    """Say where a method beats all six of the paper."""
    found = summary.victories(rows, method)
    if not found["RMSE"]["of"]:
        return None
    parts = []
    for metric, result in found.items():
        lost = f" (not {', '.join(result['lost'])})" if result["lost"] else ""
        parts.append(f"{metric} on {len(result['won'])} of {result['of']}{lost}")
    label = METHODS[method].label
    return (f"{label}, beats the best of the paper's six methods by {' and by '.join(parts)}"
            f"{_fewer(rows, method)}.")


def _fewer(rows: Sequence[Row], method: str) -> str:
    """Say of which data only a part was used, or only some folds."""
    counts = {data: sum(row["data"] == data and row["method"] == method for row in rows)
              for data in PAPER_DATA}
    parts = [f"{data}: {size(rows, data)}" for data, count in counts.items()
             if count and len(set(_n_rows(rows, data))) > 1]
    parts += [f"{data}: {count} of {max(counts.values())} folds" for data, count in counts.items()
              if 0 < count < max(counts.values())]
    return f" ({'; '.join(parts)})" if parts else ""


def write(
    out: Path, rows: Sequence[Row], names: Sequence[str], facts: dict[str, Any],
    verdicts: Sequence[str], cuts: Sequence[str], toys: Mapping[str, Sequence[Mapping[str, Any]]],
    pictures: Sequence[tuple[str, str]], echo: Callable[[str], None],
) -> None:
    """Write the page and its pictures, all in one folder.

    Parameters
    ----------
    facts : what was run: protocol, budget, date, version, machine
    verdicts : sentences that sum it up
    cuts : sentences on what the budget left out
    toys : tables of the toy examples by their titles, a mapping of scores per model
    pictures : file names in the folder and captions, beside those that are drawn here
    """
    template = _template()
    sections: list[dict[str, Any]] = []
    for data, found in summary.tables(rows, names).items():
        picture = f"rmse_{data}.png"
        with replacing(out / picture) as temporary:
            violins(rows, data).savefig(temporary, dpi=110, format="png")
        folds = summary.common_folds(rows, data)
        sections.append({
            "data": data, "title": title(rows, data), "heading": _heading(rows, data),
            "lines": found, "picture": picture,
            "common": summary.lines(rows, data, folds)
            if folds and summary.is_uneven(rows, data) else [],
            "n_common": len(folds), "by_method": {line.method: line for line in found},
            "most_folds": max(line.n_folds for line in found),
        })
    html = template.render(
        facts=facts, sections=sections, metrics=METRICS, pictures=pictures, verdicts=verdicts,
        cuts=cuts, toys=toys, number=number, shade=shade, bracket=bracket,
        paper_best=summary.paper_best,
        labels={name: method.label for name, method in METHODS.items()
                if any(name in section["by_method"] for section in sections)},
    )
    write_text(out / PAGE, html)
    write_text(out / TABLES, markdown(rows, names, facts, verdicts, cuts))
    echo(f"\nPage with all tables and pictures: {out / PAGE}")


def check_tools() -> None:
    """Refuse, before the work, if the page could not be written."""
    for package in ("jinja2", "matplotlib"):
        needed(package, "the page")


def _template() -> Any:
    jinja2 = needed("jinja2", "the page")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined,
                                     trim_blocks=True, lstrip_blocks=True)
    path = Path(__file__).parent / "results.html.j2"
    return environment.from_string(path.read_text(encoding="utf-8"))


def markdown(
    rows: Sequence[Row], names: Sequence[str], facts: dict[str, Any], verdicts: Sequence[str],
    cuts: Sequence[str],
) -> str:
    """Write RMSE and NLL of every method on every data set, to be read anywhere."""
    out = ["# The paper's benchmark, run again", "",
           "; ".join(f"{key}: {value}" for key, value in facts.items()), ""]
    for text in (*verdicts, " ".join(cuts)):
        out += [text, ""] if text else []
    tables = {data: {line.method: line for line in found}
              for data, found in summary.tables(rows, names).items()}
    for metric in ("RMSE", "NLL"):
        out += ["", f"## {metric}, the paper's in brackets", "",
                "| " + _row([_heading(rows, data) for data in tables]),
                "|---" * (len(tables) + 1) + "|"]
        out += [_row([method.label, *(_short(table, name, data, metric)
                                      for data, table in tables.items())])
                for name, method in METHODS.items()
                if any(name in table for table in tables.values())]
        out.append(_row(["best of the paper's six", *(
            f"({number(summary.paper_best(data, metric))})" for data in tables)]))
    out += ["", "A star marks fewer folds than others have; the best of the others is printed "
            "bold; (failed) is what did not converge in the paper. `index.html` in this folder has "
            "all metrics, and all methods on the folds that they have in common."]
    return "\n".join(out) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _heading(rows: Sequence[Row], data: str) -> str:
    used, known = _n_rows(rows, data)
    return data if used == known else f"{data}, {used:,} of {known:,} rows"


def _short(lines: Mapping[str, Line], method: str, data: str, metric: str) -> str:
    theirs = bracket(data, metric, method)
    if method not in lines:
        return f"– {theirs}".strip()
    line = lines[method]
    if metric not in line.means:
        return f"{line.reason or '–'} {theirs}".strip().replace("|", "/")
    best = "**" if line.ranks.get(metric) == 1 else ""
    star = "*" if line.n_folds < max(other.n_folds for other in lines.values()) else ""
    return f"{best}{number(line.means[metric])}{best}{star} {theirs}".strip()


def violins(rows: Sequence[Row], data: str) -> Any:
    """Draw the RMSE of the folds, as in the paper: violin, box, points and mean."""
    from matplotlib.figure import Figure

    found = [line for line in summary.lines(rows, data)
             if np.isfinite(line.means.get("RMSE", np.inf))]
    found.sort(key=lambda line: line.means["RMSE"])
    values = [[r["RMSE"] for r in rows if r["data"] == data and r["method"] == line.method]
              for line in found]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    ax = figure.subplots()
    at = [place for place, each in enumerate(values) if len(each) > 1]
    if at:
        several = [values[place] for place in at]
        drawn: Any = ax.violinplot(several, at, showextrema=False, widths=0.8)
        for part in drawn["bodies"]:
            part.set(facecolor="#1f5fa8", alpha=0.25)
        ax.boxplot(several, positions=at, widths=0.25, showfliers=False, manage_ticks=False,
                   medianprops={"color": "#d9730d"})
    for place, each in enumerate(values):
        ax.plot(np.full(len(each), place), each, ".", color="#555555", ms=4)
        ax.plot(place, np.mean(each), "D", color="#b03a3a", ms=5)
    labels = [f"{line.label} ({line.n_folds})" for line in found]
    ax.set_xticks(range(len(found)), labels, rotation=30, ha="right", fontsize=8)
    ax.set_ylabel("RMSE")
    ax.set_title(f"{title(rows, data)}: RMSE of the folds, their number in brackets, and the mean "
                 "(diamond)", fontsize=9)
    ax.grid(axis="y", alpha=0.3)
    return figure
