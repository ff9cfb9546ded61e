"""One setting on one fold: train once, score every checkpoint.

The result is plain JSON, so that it can stand in a study and be read by any worker:

    {"scores": {"100": {"rmse": ..., "nll": ..., "crps": ...}, ...},
     "factorisations": ..., "seconds": ...}     or     {"error": "why it failed"}
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import PCEGPWarning
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.metrics import crps, nll, rmse
from pcegp.numerics.array_cache import Memory, remembering

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Split = tuple[IntArray, IntArray]  # rows to train on, rows to score
FoldResult = dict[str, Any]

OBJECTIVES = ("rmse", "nll", "crps")

# Bases of folds that trials in this process have in common.
_BASES = Memory(max_bytes=200_000_000)


def _is_finite(scores: Mapping[str, Mapping[str, float]]) -> bool:
    return all(np.isfinite(value) for at in scores.values() for value in at.values())


def steps_of(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """The numbers of steps that a setting offers to choose from."""
    return tuple(settings.get("checkpoints", ())) or (settings["max_iter"],)


def evaluate(
    settings: Mapping[str, Any], X: FloatArray, y: FloatArray, split: Split
) -> FoldResult:
    """Train on one part of the rows and score the other, in the target's units."""
    train, valid = split
    begin = perf_counter()
    steps = steps_of(settings)
    with remembering(_BASES), warnings.catch_warnings():
        warnings.simplefilter("ignore", PCEGPWarning)
        try:
            # Draws would double the cost and widen the intervals of all settings alike.
            once = {**settings, "checkpoints": steps, "n_jobs": 1, "n_draws": 0}
            model = PCEGPRegressor(**once)
            model.fit(X[train], y[train])
            scores = {str(step): _scores(model, step, X[valid], y[valid]) for step in steps}
        except Exception as error:  # a scaler of the user's own raises what it likes
            return {"error": f"{type(error).__name__}: {error}"}
    if model.was_interrupted():
        raise KeyboardInterrupt  # a model that is half trained must not be scored
    if not _is_finite(scores):
        return {"error": "the scores are not finite"}
    return {
        "scores": scores,
        "factorisations": model.fit_info_["n_factorisations"]
        + sum(step < model.n_iter_ for step in steps),
        "seconds": round(perf_counter() - begin, 3),
    }


def _scores(model: PCEGPRegressor, step: int, X: FloatArray, y: FloatArray) -> dict[str, float]:
    # Training may have ended early, before the last checkpoints.
    at_step = model.at_checkpoint(step) if step < model.n_iter_ else model
    mean, std = at_step.predict(X, return_std=True)
    return {"rmse": rmse(y, mean), "nll": nll(y, mean, std), "crps": crps(y, mean, std)}


def mean_scores(folds: Sequence[FoldResult]) -> dict[int, dict[str, float]]:
    """Mean over folds for each number of steps."""
    return {
        int(step): {name: float(np.mean([fold["scores"][step][name] for fold in folds]))
                    for name in OBJECTIVES}
        for step in folds[0]["scores"]
    }


def best_step(folds: Sequence[FoldResult], objective: str) -> int:
    """The number of steps with the best mean; the smaller one if two are equal."""
    means = mean_scores(folds)
    return min(means, key=lambda step: (means[step][objective], step))


def per_fold(folds: Sequence[FoldResult], step: int, objective: str) -> FloatArray:
    """The score of each fold (k,) at that number of steps."""
    return np.array([fold["scores"][str(step)][objective] for fold in folds])
