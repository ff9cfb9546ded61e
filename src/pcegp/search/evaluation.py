"""The evaluation of one setting on one split: train once, score every checkpoint.

The result is plain JSON, so that it can stand in a study and be read by any process:

    {"scores": {"100": {"rmse": ..., "nll": ..., "crps": ...}, ...},
     "factorisations": ..., "seconds": ...}     or     {"error": "why it failed"}
"""

import warnings
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np

from pcegp._typing import FloatArray, IntArray
from pcegp.errors import PCEGPWarning
from pcegp.estimators import PCEGPRegressor, fit_cached
from pcegp.metrics import search_scores
from pcegp.numerics import ArrayCache

Split = tuple[IntArray, IntArray]  # rows to train on, rows to score
FoldResult = dict[str, Any]

OBJECTIVES = ("rmse", "nll", "crps")

# Bases of folds that trials in this process have in common.
_BASES = ArrayCache(max_bytes=200_000_000)


def evaluate(
    settings: Mapping[str, Any], X: FloatArray, y: FloatArray, split: Split
) -> FoldResult:
    """Train on one part of the rows and score the other, in the target's units."""
    train, valid = split
    begin = perf_counter()
    asked = tuple(settings.get("checkpoints", ()))
    steps = asked or (settings["max_iter"],)
    with warnings.catch_warnings(action="ignore", category=PCEGPWarning):
        try:
            # Draws would double the cost and widen the intervals of all settings alike.
            once = {**settings, "checkpoints": asked, "n_jobs": 1, "n_draws": 0}
            fitted = fit_cached(PCEGPRegressor(**once), X[train], y[train], _BASES).model_
            predictions = fitted.after_steps(X[valid], steps)
        except Exception as error:  # a scaler of the user's own raises what it likes
            return {"error": f"{type(error).__name__}: {error}"}
    info = fitted.outputs[0].info
    if info["interrupted"]:
        raise KeyboardInterrupt  # a model that is half trained must not be scored
    scores = search_scores(y[valid], predictions.values())
    if not all(np.isfinite(value) for at_step in scores for value in at_step.values()):
        return {"error": "the scores are not finite"}
    return {
        "scores": dict(zip(map(str, predictions), scores, strict=True)),
        "factorisations": info["n_factorisations"] + sum(step < fitted.n_iter for step in steps),
        "seconds": round(perf_counter() - begin, 3),
    }
