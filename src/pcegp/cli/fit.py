"""What `pcegp fit` does: a table, one training, a model file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from pcegp.cli.table_models import Columns, keep_encoding, read_training
from pcegp.errors import unknown_name
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inspection.diagnostics import diagnose
from pcegp.inspection.explanation import explain
from pcegp.io.files import check_writable, write_figures

Echo = Callable[[str], None]

# "fast" trains a third as long on three of the five covariance functions.
PRESETS: dict[str, Callable[..., PCEGPRegressor]] = {
    "auto": PCEGPRegressor,
    "fast": lambda **changes: PCEGPRegressor(
        covariance=("squared_exponential", "matern32", "rational_quadratic"),
        max_iter=130, learning_rate=0.06, **changes,
    ),
    "paper": PCEGPRegressor.paper,
}


def fit(
    data: Path, columns: Columns, preset: str, out: Path, json_path: Path | None, jobs: int | None,
    show_bar: bool, echo: Echo,
) -> None:
    """Train a model on a table and keep it in a file."""
    if preset not in PRESETS:
        raise unknown_name("--preset", preset, PRESETS)
    for file in (out, json_path):
        if file is not None:
            check_writable(file)
    table = read_training(data, columns)
    begin = perf_counter()
    model = PRESETS[preset](verbose=show_bar, n_jobs=jobs).fit(table.X, table.y)
    took = perf_counter() - begin
    model.set_params(verbose=False)
    keep_encoding(model, table.encoding)
    model.save(out)
    explanation = explain(model)
    scores = diagnose(model).scores()
    figures: dict[str, Any] = {
        "rows": len(table.y), "features": table.encoding.names, "target": columns.target,
        "preset": preset, "seconds": took, "leave_one_out": scores,
        "shares": dict(zip(explanation.names, map(float, explanation.shares), strict=True)),
        "imputed": table.encoding.medians, "categories": table.encoding.as_dict()["categories"],
    }
    echo(f"{len(table.y)} rows, {len(table.encoding.names)} inputs, {model.n_iter_} steps in "
         f"{took:.1f} s")
    echo("\nEach row predicted from all others (somewhat optimistic)")
    echo("  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items()))
    echo("\nWhat makes the process change its character")
    if model.fit_info_["noise_free"]:
        echo("Nothing: the data have no noise, and one smooth, stationary model explains them "
             "best.")
    else:
        echo(f"The local scale varies by {explanation.variation:.0%}. Share of each input in that:")
        width = max(map(len, explanation.names))
        for name, share in sorted(figures["shares"].items(), key=lambda item: -item[1]):
            echo(f"  {name:{width}s} {share:.3f}")
    echo(f"\nModel written to {out}")
    write_figures(json_path, figures, echo)
