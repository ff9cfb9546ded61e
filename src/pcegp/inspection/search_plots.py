"""Pictures of a search with matplotlib.

    from pcegp.inspection import search_plots
    search_plots.history(search).figure.savefig("history.png")

All trials are compared by what all of them have: the score on the pilot split, or the mean over
the folds if all trials have them all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from scipy.stats import norm

from pcegp._typing import FloatArray
from pcegp.errors import SettingError, shown, unknown_name
from pcegp.inspection.plots import BLUE, GREY, ORANGE, new_axes, plain_text
from pcegp.search import PCEGPSearchCV, TrialRecord, quiet_optuna, records_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEWEST = 4  # trials that a picture of parameters needs
_BETTER = 0.25  # share of the trials in TPE's better group, in its figure


def _scored(search: PCEGPSearchCV) -> tuple[str, list[TrialRecord], list[float]]:
    """Find the first objective, the trials that have a score, and their scores."""
    if not isinstance(search, PCEGPSearchCV) or not hasattr(search, "study_"):
        raise SettingError(
            f"a picture of a search takes a fitted PCEGPSearchCV, not {shown(repr(search))}"
        )
    name = search.study_.user_attrs["pcegp"]["objective"][0]
    records = [r for r in records_of(search.study_) if r.outcome in ("pruned", "complete")]
    if all(r.outcome == "complete" for r in records):
        return name, records, [r.mean(name) for r in records]
    return name, records, [r.first_score(name) for r in records]


def _of_all_trials(
    search: PCEGPSearchCV, named: Callable[[str], str] = str
) -> optuna.Study:
    """Make a study in memory in which every trial is complete, with that score as its value.

    `named` writes the names of the parameters.
    """
    _, records, scores = _scored(search)
    if len(records) < _FEWEST:
        raise SettingError(f"only {len(records)} trials: this picture needs {_FEWEST} or more")
    with quiet_optuna():
        study = optuna.create_study(direction="minimize")
        for record, score in zip(records, scores, strict=True):
            study.add_trial(optuna.trial.create_trial(
                params={named(name): value for name, value in record.parameters.items()},
                distributions={named(name): d for name, d in record.distributions.items()},
                value=score,
            ))
    return study


def history(search: PCEGPSearchCV, ax: Axes | None = None) -> Axes:
    """Draw scores of the trials in their order, those with all folds, and the best so far."""
    objective, records, scores = _scored(search)
    ax, complete = new_axes(ax), [r for r in records if r.outcome == "complete"]
    if len(complete) < len(records):
        ax.plot([r.position for r in records], scores, ".", color=GREY,
                label="all trials, pilot split")
    means = [r.mean(objective) for r in complete]
    places = [r.position for r in complete]
    ax.plot(places, means, "o", color=BLUE, label="with all folds, their mean")
    ax.step(places, np.minimum.accumulate(means), where="post", color=BLUE, label="best so far")
    ax.set(xlabel="trial", ylabel=objective.upper())
    ax.locator_params(axis="x", integer=True)
    ax.legend()
    return ax


def importance(search: PCEGPSearchCV, ax: Axes | None = None) -> Axes:
    """Draw how much of the scores' variance each parameter explains (fANOVA)."""
    study, ax = _of_all_trials(search), new_axes(ax)
    with quiet_optuna():
        found = optuna.importance.get_param_importances(study)
    names = list(found)[::-1]
    ax.barh([plain_text(name) for name in names], [found[name] for name in names], color=BLUE)
    ax.set(xlabel="share of the variance of the scores")
    return ax


def parallel(search: PCEGPSearchCV) -> Axes:
    """Draw one line per trial through its parameters; dark is good."""
    study = _of_all_trials(search, plain_text)
    new_axes(None).figure.clear()  # says so if matplotlib is not there
    with quiet_optuna(), warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
        ax = optuna.visualization.matplotlib.plot_parallel_coordinate(study)
    figure: Any = ax.figure
    figure.set_size_inches(1.3 * len(figure.axes), 5.0)  # Optuna's own size is for three or four
    figure.subplots_adjust(left=0.06, right=1.08, bottom=0.2)  # room for names at an angle
    return ax


def tpe(search: PCEGPSearchCV, parameter: str) -> Figure:
    """Draw what the tree-structured Parzen estimator sees of one parameter (the paper's figure).

    Left: the observations, and the quantile that splits them into a better and a worse
    group. Right: the densities of both groups, and their ratio, whose largest value is
    where this parameter would be tried next.
    """
    import matplotlib.pyplot as plt

    study = _of_all_trials(search)
    trials = [trial for trial in study.trials if parameter in trial.params]
    numeric = sorted({name for trial in study.trials for name, d in trial.distributions.items()
                      if not (d.single()
                              or isinstance(d, optuna.distributions.CategoricalDistribution))})
    if parameter not in numeric:
        raise unknown_name("parameter", parameter, numeric)
    distribution: Any = trials[0].distributions[parameter]
    is_log = bool(getattr(distribution, "log", False))
    h = np.array([trial.params[parameter] for trial in trials], dtype=np.float64)
    values = np.array([trial.value for trial in trials], dtype=np.float64)
    low, high = float(distribution.low), float(distribution.high)
    grid = np.geomspace(low, high, 400) if is_log else np.linspace(low, high, 400)
    limit = float(np.quantile(values, _BETTER))
    better = values <= limit

    def scaled(x: Any) -> Any:
        return np.log(x) if is_log else x

    densities = [
        parzen(scaled(grid), scaled(h[group]), scaled(low), scaled(high))
        for group in (better, ~better)
    ]
    ratio = densities[0] / densities[1]
    figure, axes = plt.subplot_mosaic([["all", "groups"], ["all", "ratio"]], figsize=(9, 4),
                                      layout="constrained")
    axes["all"].plot(h[better], values[better], "o", color=BLUE, label="better group")
    axes["all"].plot(h[~better], values[~better], "o", color=ORANGE, label="worse group")
    axes["all"].axhline(limit, color=GREY, ls="--", label=f"{_BETTER:.0%} quantile")
    axes["all"].set(xlabel=plain_text(parameter), ylabel="objective")
    axes["groups"].plot(grid, densities[0], color=BLUE, label="better group")
    axes["groups"].plot(grid, densities[1], color=ORANGE, label="worse group")
    axes["groups"].set(ylabel="density")
    axes["ratio"].plot(grid, ratio, color="k", label="ratio of the densities")
    best = int(np.argmax(ratio))
    axes["ratio"].plot(grid[best], ratio[best], "*", ms=14, color="r", label="next trial")
    axes["ratio"].set(xlabel=plain_text(parameter), ylabel="acquisition")
    for ax in axes.values():
        ax.set_xscale("log" if is_log else "linear")
        ax.legend(fontsize=8)
    return figure


def parzen(grid: FloatArray, points: FloatArray, low: float, high: float) -> FloatArray:
    """Compute a Parzen density on [low, high]: a normal per point and the uniform prior.

    All have equal weights. Each normal is cut off at the ends and made whole again; the width
    is Scott's rule, at least a hundredth of the range.
    """
    if not len(points):
        return np.full(grid.shape, 1.0 / (high - low))
    spread = points.std() if len(points) > 1 else high - low
    width = max(1.06 * spread * len(points) ** -0.2, (high - low) / min(100, len(points) + 1))
    inside = norm.cdf(high, points, width) - norm.cdf(low, points, width)
    each = norm.pdf(grid[:, None], points, width) / inside
    total: FloatArray = (each.sum(axis=1) + 1.0 / (high - low)) / (len(points) + 1)
    return total
