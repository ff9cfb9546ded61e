"""Converged optima of the latent objective by L-BFGS.

Steps are in standard deviations of the prior, which makes all directions about equally long.
The method remembers enough steps to learn the few stiff directions that data without noise
have; with the usual ten it goes thousands of steps along them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from pcegp._typing import FloatArray
from pcegp.errors import TrainingError
from pcegp.training.latent import LatentObjective, LatentValue, Metric

_MEMORY = 200
# The largest slope of the loss for one standard deviation that is no slope, and the least gain of
# an iteration, relative: of an answer, which rounding must not change, and of a comparison.
_SLOPE, _LEAST_GAIN = 1e-5, 1e-15
_ROUGH_SLOPE, _ROUGH_GAIN = 0.1, 1e-8
_WALL = 100.0  # added to the loss where there is none
_TRUSTED = 60  # evaluations
#: Where more of the loss is left to gain, the optimum was not reached: its curvature says nothing.
REACHED = 0.5

Watcher = Callable[[LatentValue, int], None]  # takes an iteration's end, and its number


@dataclass(frozen=True)
class Optimum:
    """The end of a minimisation, and how much was left to gain there."""

    w: FloatArray  # (Q,)
    loss: float
    gradient: FloatArray  # (Q,)
    left: float  # what a Newton step would gain, by the curvature that was seen on the way
    n_iterations: int
    interrupted: bool

    @property
    def is_reached(self) -> bool:
        """Tell whether the end is an optimum, to a fraction of a unit of the loss."""
        return self.left <= REACHED


class _Search:
    """One minimisation: what it evaluates last, and the best so far."""

    def __init__(
        self, objective: LatentObjective, watch: Watcher | None
    ) -> None:
        self._objective, self._watch = objective, watch
        self._seen: dict[bytes, LatentValue] = {}
        nothing = np.zeros(objective.size)
        self.best = nothing, LatentValue(inf, nothing, None)
        self.n_iterations = self.n_evaluations = 0

    @property
    def has_begun(self) -> bool:
        """Tell whether there is a finite loss."""
        return isfinite(self.best[1].loss)

    def try_all(self, starts: Sequence[FloatArray]) -> None:
        """Evaluate some latent variables; Ctrl-C leaves the best of those seen."""
        try:
            for w in starts:
                self._note(w, self._objective(w))
        finally:
            if self.has_begun and self._watch is not None:
                self._watch(self.best[1], 0)
        if not self.has_begun:
            raise TrainingError("the likelihood is not finite at the start: raise noise_floor, or "
                                "try another initial_scale")

    def begin(self, metric: Metric) -> FloatArray:
        """Begin at the best so far."""
        self._metric, (self._start, found) = metric, self.best
        v = np.zeros_like(self._start)
        self._seen[v.tobytes()] = found
        return v

    def _note(self, w: FloatArray, found: LatentValue) -> None:
        """Count it, and keep it if it is the best so far."""
        self.n_evaluations += 1
        if found.loss < self.best[1].loss:
            self.best = w, found

    def value(self, v: FloatArray) -> tuple[float, FloatArray]:
        """Evaluate loss and slope at a step (Q,) from the start."""
        w = self._start + self._metric.whiten(v)
        found = self._seen.get(v.tobytes()) or self._objective(w)
        self._seen[v.tobytes()] = found
        self._note(w, found)
        slope = self._metric.whiten(found.gradient)
        if isfinite(found.loss):
            return found.loss, slope
        # A wall, but one that the line search can bring down to a step of a sensible size.
        return self.best[1].loss + max(_WALL, abs(self.best[1].loss)), slope

    def iterated(self, intermediate_result: OptimizeResult) -> None:
        """Hear of the end of an iteration; SciPy asks for this name of the argument."""
        self.n_iterations += 1
        found = self._seen.get(intermediate_result.x.tobytes())
        self._seen.clear()
        if found is not None and self._watch is not None:
            self._watch(found, self.n_iterations)


def minimise(
    objective: LatentObjective, starts: Sequence[FloatArray], max_iter: int, max_evaluations: int,
    watch: Watcher | None = None, *, metric: Metric | None = None, rough: bool = False,
) -> Optimum:
    """Minimise an objective. Ctrl-C gives the best so far.

    Parameters
    ----------
    starts : latent variables (Q,) each, of which the best is where it begins
    metric : what is known of the curvature there
    rough : end it sooner, for a comparison
    """
    nothing = Metric(np.zeros((objective.size, 0)), np.zeros(0))
    # On the way, what is known may cease to hold: it is trusted for so many evaluations.
    legs = [(nothing, max_evaluations)]
    if metric is not None:
        legs.insert(0, (metric, min(_TRUSTED, max_evaluations)))
    search, left, interrupted = _Search(objective, watch), inf, False
    try:
        search.try_all(starts)
        for known, most in legs:
            found = minimize(
                search.value, search.begin(known), jac=True, method="L-BFGS-B",
                callback=search.iterated,
                options={"maxcor": _MEMORY, "maxiter": max_iter - search.n_iterations,
                         "maxfun": min(most, max_evaluations - search.n_evaluations),
                         "gtol": _ROUGH_SLOPE if rough else _SLOPE,
                         "ftol": _ROUGH_GAIN if rough else _LEAST_GAIN},
            )
            left = 0.5 * float(found.jac @ found.hess_inv.dot(found.jac))
            if found.success or search.n_iterations >= max_iter:
                break
    except KeyboardInterrupt:
        if not search.has_begun:
            raise
        interrupted = True
    w, value = search.best
    return Optimum(w, value.loss, value.gradient, left, search.n_iterations, interrupted)


def best_of(optima: list[Optimum]) -> Optimum:
    """Choose the optimum of the least loss."""
    return min(optima, key=lambda optimum: optimum.loss if optimum.loss == optimum.loss else inf)
