"""What `pcegp bench speed` prints, writes and draws."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pcegp.benchmarks import speed
from pcegp.benchmarks.extras import write_picture
from pcegp.benchmarks.filenames import SPEED_PICTURE
from pcegp.io import write_text

Row = dict[str, float]

# Name, colour and line of each method in the figure, by its JSON name.
LINES = {
    "lapack": ("LAPACK potrf + potri", "#8a8a8a", ":"),
    "pcegp5": ("PCEGP, five components", "#d9730d", "-"),
    "pcegp_120": ("PCEGP, 120 terms", "#1f5fa8", "-"),
    "pcegp_1001": ("PCEGP, 1,001 terms", "#1f5fa8", "--"),
    "pcegp_11440": ("PCEGP, 11,440 terms", "#1f5fa8", "-."),
    "gpytorch64": ("GPyTorch GP, float64", "#2e8b57", "-"),
    "gpytorch32": ("GPyTorch GP, float32", "#2e8b57", "--"),
    "gpytorch_cached": ("GPyTorch GP, fast_pred_var", "#2e8b57", ":"),
    "sklearn": ("scikit-learn GP", "#8a5fb0", "-"),
    "deep": ("deep GP (GPyTorch)", "#b03a3a", "-"),
}


def _cell(row: Row, name: str, over: str | None = None) -> str:
    """Write a figure, or its ratio to another one; a dash where one is missing."""
    if name not in row or (over is not None and over not in row):
        return "-".rjust(12)
    value = row[name] if over is None else row[name] / row[over]
    return f"{value:12.2f}"


def table(rows: Sequence[Row]) -> str:
    """Write milliseconds and ratios, a line per size."""
    columns = [
        ("LAPACK", "lapack_ms", None), ("PCEGP 5", "pcegp5_ms", None),
        ("GPyTorch 64", "gpytorch64_ms", None), ("GPyTorch 32", "gpytorch32_ms", None),
        ("sklearn", "sklearn_ms", None), ("5/LAPACK", "pcegp5_ms", "lapack_ms"),
        ("5/GPyT 64", "pcegp5_ms", "gpytorch64_ms"), ("5/GPyT 32", "pcegp5_ms", "gpytorch32_ms"),
        ("11440/GPyT", "pcegp_11440_ms", "gpytorch64_ms"),
    ]
    predictions = [
        ("PCEGP 5", "predict_pcegp_ms", None), ("GPyTorch 64", "predict_gpytorch_ms", None),
        ("cached", "predict_gpytorch_cached_ms", None), ("sklearn", "predict_sklearn_ms", None),
        ("5/GPyT 64", "predict_pcegp_ms", "predict_gpytorch_ms"), ("peak MB", "peak_mb", None),
    ]
    lines = []
    for title, chosen in (
        ("One training iteration, milliseconds and ratios", columns),
        ("Mean and deviation of 100 points, and peak memory of a fit", predictions),
    ):
        lines += ["", title, f"{'N':>6s}" + "".join(f"{head:>12s}" for head, *_ in chosen)]
        lines += [
            f"{row['n']:6.0f}" + "".join(_cell(row, name, over) for _, name, over in chosen)
            for row in rows
        ]
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Save the paper's runtime figure: training per iteration and prediction against N."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    for ax, prefix, title in zip(
        figure.subplots(1, 2), ("", "predict_"),
        ("one training iteration", "prediction of 100 points with deviations"), strict=True,
    ):
        for name, (label, colour, style) in LINES.items():
            points = [(row["n"], row[f"{prefix}{name}_ms"]) for row in rows
                      if f"{prefix}{name}_ms" in row]
            if points:
                ax.plot(*zip(*points, strict=True), color=colour, ls=style, marker="o", ms=3,
                        label=label)
        ax.set(xscale="log", yscale="log", xlabel="N", ylabel="milliseconds", title=title)
        ax.grid(alpha=0.3, which="both")
    figure.axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110, format="png")


def main(out: Path, json_path: Path | None, sizes: Sequence[int], rounds: int | None,
         echo: Callable[[str], None]) -> None:
    """Measure, print, and write the figure and the JSON file."""
    path = out / SPEED_PICTURE
    peers = speed.has_gpytorch()
    if not peers:
        echo("Without GPyTorch: pip install 'pcegp[bench]' to compare with it")
    rows = []
    for row in speed.rows(sizes, rounds, peers):
        echo(f"N = {row['n']:.0f} done")
        rows.append(row)
    echo(table(rows))
    if json_path is not None:
        write_text(json_path, json.dumps(rows, indent=2) + "\n")
        echo(f"\nFigures written to {json_path}")
    write_picture(path, partial(draw, rows), echo)
