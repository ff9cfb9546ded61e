"""The command `pcegp tune`: a table, a search, a model file."""

import re
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from pcegp.cli.choices import Choices
from pcegp.cli.ctrl_c import interrupts
from pcegp.cli.output import keeping
from pcegp.cli.table_models import keep_encoding
from pcegp.cli.terminal import Echo, stage
from pcegp.errors import SettingError, shown
from pcegp.io import Columns, read_training, write_figures
from pcegp.preprocessing import validation
from pcegp.search import PCEGPSearchCV, plain, search_named, without_password

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHOWN = 5  # best trials


def seconds(text: str) -> float:
    """Turn a duration such as 90, 45s, 30m, 2h or 1d into seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text)
    found = 0.0 if match is None else float(match[1]) * _UNITS[match[2] or "s"]
    if not 0.0 < found < inf:
        raise SettingError(f"--time '{shown(text)}' is not a duration: write 90s, 30m, 2h or 1d")
    return found


def tune(
    data: Path, columns: Columns, choices: Choices, out: Path, force: bool,
    json_path: Path | None, show_bar: bool, echo: Echo,
) -> None:
    """Search on a table and keep the answer in a model file, see `pcegp.cli.fit`."""
    timeout = None if choices.time is None else seconds(choices.time)
    validation.check_jobs("jobs", choices.jobs)
    with stage(f"reading {data}"):
        table = read_training(data, columns)
    study = choices.named(data, columns.target)
    again = f"run the same command again, and the study {study!r} goes on"
    search = PCEGPSearchCV(
        choices.space, objective=choices.objective, n_trials=choices.trials, timeout=timeout,
        ensemble=choices.ensemble, storage=choices.storage, study=study, n_jobs=choices.jobs,
        random_state=choices.seed, verbose=show_bar,
    )
    begin = perf_counter()
    try:
        with interrupts():
            search_named(search, table.X, table.y, table.groups, table.encoding.names)
            model = search.best_estimator_ if search.ensemble_ is None else search.ensemble_
            keep_encoding(model, table.encoding)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(again) from None
    with keeping(model, out, again):
        if search.interrupted_:
            raise KeyboardInterrupt
        with stage(f"writing {out}"):
            model.save(out, force=force)
        figures = _figures(search, perf_counter() - begin)
        _print(search, figures, echo)
        where = without_password(choices.place(data, columns.target))
        echo(f"\nModel written to {shown(out, 1000)}; the study {study!r} is in "
             f"{shown(where, 1000)} and can be carried on")
        write_figures(json_path, figures, echo)


def _figures(search: PCEGPSearchCV, took: float) -> dict[str, Any]:
    table = search.cv_results_
    states, counts = np.unique(table["state"], return_counts=True)
    figures: dict[str, Any] = plain({
        "best_score": search.best_score_,
        "best_params": search.best_params_,
        "ensemble": search.ensemble_params_,
        "trials": dict(zip(states.tolist(), counts.tolist(), strict=True)),
        "savings": search.savings_,
        "seconds": took,
    })
    return figures


def _print(search: PCEGPSearchCV, figures: dict[str, Any], echo: Echo) -> None:
    table, savings = search.cv_results_, search.savings_
    done = sum(figures["trials"].values())
    echo(f"{done} trials in {figures['seconds']:.0f} s: " + ", ".join(
        f"{count} {state}" for state, count in figures["trials"].items()))
    echo(f"{savings['factorisations']:,} Cholesky factorisations, {savings['share']:.0%} of the "
         f"plain loop's {savings['plain_factorisations']:,}")
    echo(f"\nMean over {search.n_splits_} folds (optimistic: the best of many)")
    echo("  trial    CRPS    RMSE     NLL  steps  settings")
    rank_name = next(name for name in table if name.startswith("rank_test_"))
    for i in np.argsort(table[rank_name])[:_SHOWN]:
        if np.isnan(table["mean_test_crps"][i]):
            break
        means = [table[f"mean_test_{name}"][i] for name in ("crps", "rmse", "nll")]
        scores = "".join(f"{mean:8.4g}" for mean in means)
        settings = ", ".join(
            f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in table["params"][i].items()
        )
        echo(f"  {table['trial'][i]:5d}{scores}  {table['steps'][i]:5d}  {settings}")
    echo(f"\nPredictions by a mixture of {len(search.ensemble_params_)} of the trials"
         if search.ensemble_ is not None else "\nPredictions by the best trial")
