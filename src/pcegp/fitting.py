"""From scaled data to a trained posterior: build the structure, start, train, condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pcegp import starts
from pcegp.linalg import thread_limit
from pcegp.model import Likelihood
from pcegp.posterior import Posterior, condition
from pcegp.settings import Settings
from pcegp.training import History, Run

FloatArray = NDArray[np.float64]

# Starts are compared on at most this many rows; the best is then trained on all.
_PROBE_ROWS = 500


@dataclass(frozen=True)
class Fit:
    """A trained model and how it came about, in standardised units."""

    posterior: Posterior
    history: History
    checkpoints: dict[int, FloatArray]
    n_iter: int
    n_reductions: int
    interrupted: bool


def fit(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    settings: Settings,
    rng: np.random.Generator,
    progress: Callable[[int, float], None] | None = None,
) -> Fit:
    """Train on scaled inputs X (n, d), standardised targets y (n,) and weights (n,)."""
    structure = settings.structure(X)
    options = settings.training
    candidates = starts.candidates(structure, settings.initial_scale, settings.n_restarts, rng)
    with thread_limit(min(len(y), _PROBE_ROWS), settings.n_jobs) as threads:
        rows = np.arange(len(y))
        if len(y) > _PROBE_ROWS and len(candidates) > 1:
            rows = np.sort(rng.choice(len(y), _PROBE_ROWS, replace=False))
        probe = Likelihood(structure, X[rows], y[rows], weights[rows], threads)
        theta, interrupted = starts.choose(probe, options, candidates)
    with thread_limit(len(y), settings.n_jobs) as threads:
        run = Run(Likelihood(structure, X, y, weights, threads), options, theta)
        run.advance(0 if interrupted else options.max_iter, progress)
        posterior = condition(run.likelihood, run.result)
    return Fit(posterior, run.history, run.checkpoints, run.iterations, run.n_reductions,
               interrupted or run.interrupted)


def at_parameters(posterior: Posterior, theta: FloatArray) -> Posterior:
    """The same data and structure with other parameters."""
    data = Likelihood(posterior.structure, posterior.X, posterior.y, posterior.weights)
    return condition(data, theta)
