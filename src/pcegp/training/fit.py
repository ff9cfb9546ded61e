"""From scaled data to a trained posterior: build the structure, start, train, condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.estimators.settings import Settings
from pcegp.inference.exact import Posterior, condition, with_draws
from pcegp.kernels.process import Likelihood, Structure
from pcegp.numerics.cholesky import condition_number
from pcegp.numerics.threads import workers
from pcegp.training import noise_free as smooth
from pcegp.training import starts
from pcegp.training.hmc import draw, n_gradients
from pcegp.training.optimiser import History, Progress, Run, State, WarmUp

FloatArray = NDArray[np.float64]

# Starts are compared on at most this many rows; the best is then carried on.
_PROBE_ROWS = 500
# Steps of a warm-up. Not a share of max_iter: a checkpoint of a long training is the end of a
# short one.
_WARM_UP_STEPS = 300
# A smooth model is fitted to more rows than this only if it is the better one on some of them.
_SMOOTH_ROWS = 2000
_SCREEN_ROWS = 1000


@dataclass(frozen=True)
class Fit:
    """A trained model and how it came about, in standardised units."""

    posterior: Posterior
    history: History
    checkpoints: dict[int, FloatArray]
    n_iter: int
    n_reductions: int
    fell_back: bool  # to the best state, because the last steps had lost it
    noise_free: bool  # a smooth model without noise explains the data better
    interrupted: bool
    n_factorisations: int

    def info(self) -> dict[str, Any]:
        """What a user should know about the numerics of this fit."""
        return {
            "condition_number": condition_number(self.posterior.factor),
            "jitter": self.posterior.jitter,
            "n_jittered_steps": int(np.count_nonzero(self.history.jitter)),
            "n_rate_reductions": self.n_reductions,
            "fell_back_to_best": self.fell_back,
            "noise_free": self.noise_free,
            "interrupted": self.interrupted,
            "n_factorisations": self.n_factorisations,
        }


def fit(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    settings: Settings,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit:
    """Train on scaled inputs X (n, d), standardised targets y (n,) and weights (n,)."""
    structure = settings.structure(X)
    options, data = settings.training, _Data(structure, X, y, weights, settings.n_jobs)
    scales = starts.initial_scales(settings.initial_scale, len(settings.covariances), X.shape[1])
    if settings.initial_scale is None:
        scales = starts.reachable(structure, scales)
    candidates = starts.candidates(structure, scales, settings.n_restarts, rng)
    anchor = candidates[0]
    begun = _begin(data, settings, candidates, rng, progress)
    with data.all() as likelihood:
        run = (starts.choose(likelihood, options, begun.candidates, anchor) if begun.warm is None
               else Run.after(begun.warm, likelihood, options, anchor))
        # Whoever interrupts gets what there is: one evaluation makes it known to all rows.
        _advance(run, len(run.history.loss) if begun.interrupted else options.max_iter, progress)
        ending = _Ending(run, scales, data)
        posterior, fell_back = ending.kept(run.state)
        if begun.warm is not None and run.iterations <= _WARM_UP_STEPS:
            fell_back = begun.warm.fell_back  # no steps came after it
        checkpoints = {step: state.result for step, state in run.checkpoints.items()}
        noise_free = False
        if not (begun.interrupted or run.interrupted):
            try:
                checkpoints |= {step: ending.at(state) for step, state in run.checkpoints.items()
                                if step < run.iterations}
                theta = ending.without_noise(posterior)
                if theta is not None:
                    noise_free, posterior = True, condition(likelihood, theta, settings.n_jobs)
                if run.iterations in checkpoints:
                    checkpoints[run.iterations] = posterior.theta
                around = anchor if theta is None else theta
                posterior = _drawn(posterior, Run(likelihood, options, posterior.theta, around),
                                   settings, rng, progress)
            except KeyboardInterrupt:
                run.interrupted = True  # what was trained is kept
    return Fit(posterior, run.history, checkpoints, run.iterations, run.n_reductions,
               fell_back, noise_free, begun.interrupted or run.interrupted,
               begun.n_factorisations + likelihood.n_factorisations)


@dataclass(frozen=True)
class _Beginning:
    """What some of the rows have told, before all are asked."""

    candidates: list[FloatArray]  # starts
    warm: WarmUp | None
    interrupted: bool
    n_factorisations: int


def _begin(
    data: _Data, settings: Settings, candidates: list[FloatArray], rng: np.random.Generator,
    progress: Progress | None,
) -> _Beginning:
    """Where there are many rows, choose a start by some of them, and make the first steps."""
    n_rows, options, anchor = len(data.y), settings.training, candidates[0]
    interrupted, n_factorisations, warm = False, 0, None
    if len(candidates) > 1 and n_rows > _PROBE_ROWS:
        with data.some(_PROBE_ROWS, rng) as probe:
            best = starts.choose(probe, options, candidates, anchor)
        interrupted, n_factorisations = best.interrupted, probe.n_factorisations
        candidates = [best.best_theta if interrupted else best.start]
    if settings.warm_up_rows is not None and n_rows > settings.warm_up_rows and not interrupted:
        with data.some(settings.warm_up_rows, rng) as part:
            steps = min(_WARM_UP_STEPS, options.max_iter)
            run = starts.choose(part, replace(options, max_iter=steps), candidates, anchor)
            _advance(run, steps, progress)
            warm = run.ended()
        interrupted, n_factorisations = warm.interrupted, n_factorisations + part.n_factorisations
    return _Beginning(candidates, warm, interrupted, n_factorisations)


def _advance(run: Run, iterations: int, progress: Progress | None) -> None:
    """Train until so many steps; an interrupt ends all if nothing is there to keep."""
    if not run.interrupted:
        run.advance(iterations, progress)
    if not run.history.loss:
        raise KeyboardInterrupt


@dataclass(frozen=True)
class _Data:
    """What is fitted, and the likelihood of all its rows or of some."""

    structure: Structure
    X: FloatArray
    y: FloatArray
    weights: FloatArray
    n_jobs: int | None

    @contextmanager
    def all(self) -> Iterator[Likelihood]:
        """Of all rows, with the threads for them."""
        with workers(len(self.y), self.n_jobs) as crew:
            yield Likelihood(self.structure, self.X, self.y, self.weights, crew)

    @contextmanager
    def some(self, count: int, rng: np.random.Generator) -> Iterator[Likelihood]:
        """Of so many rows, drawn at random."""
        rows = np.sort(rng.choice(len(self.y), count, replace=False))
        part = replace(self, X=self.X[rows], y=self.y[rows], weights=self.weights[rows])
        with part.all() as likelihood:
            yield likelihood


class _Ending:
    """What becomes of a training when it ends; a checkpoint is the end of a shorter one.

    Parameters
    ----------
    run : after its last step
    scales : (K,) start values of the local scale
    data : all rows
    """

    def __init__(self, run: Run, scales: FloatArray, data: _Data) -> None:
        self._run, self._likelihood, self._n_jobs = run, run.likelihood, data.n_jobs
        self._scales, self._data = scales, data

    def kept(self, state: State) -> tuple[Posterior, bool]:
        """The posterior of a state, and whether it is that of the best step so far."""
        posterior = condition(self._likelihood, state.result, self._n_jobs)
        # A spike at the very end: then the best state is the better one.
        if self._run.options.patience is not None or state.best_loss is None or not (
                self._run.is_lost(self._loss(posterior), best_loss=state.best_loss)):
            return posterior, False
        return condition(self._likelihood, state.best_theta, self._n_jobs), True

    def at(self, state: State) -> FloatArray:
        """The parameters that a training would have if it ended there."""
        posterior, _ = self.kept(state)
        theta = self.without_noise(posterior)
        return posterior.theta if theta is None else theta

    def without_noise(self, posterior: Posterior) -> FloatArray | None:
        """Parameters of a smooth model without noise, if it explains and predicts the data better.

        The loss alone would be won by repeated rows, whose density without noise is enormous.
        """
        little = posterior.noise.mean() < smooth.LITTLE_NOISE
        if not (little and smooth.possible(posterior.structure) and self._may_be_smooth(posterior)):
            return None
        found = self._smooth
        if found is None or found[1] >= self._loss(posterior):
            return None
        return found[0] if _predicts_better(self._likelihood, found[0], posterior.theta) else None

    @cached_property
    def _smooth(self) -> tuple[FloatArray, float] | None:
        """The smooth model does not depend on where training ends."""
        return smooth.smooth_fit(self._likelihood, self._scales)

    def _may_be_smooth(self, posterior: Posterior) -> bool:
        """Ask some of many rows: a hundred evaluations of all of them would take minutes."""
        if len(self._data.y) <= _SMOOTH_ROWS:
            return True
        # Its own generator: what is drawn later does not depend on this.
        with self._data.some(_SCREEN_ROWS, np.random.default_rng(0)) as likelihood:
            found = smooth.smooth_fit(likelihood, self._scales)
            return found is not None and _predicts_better(likelihood, found[0], posterior.theta)

    def _loss(self, posterior: Posterior) -> float:
        return self._run.loss(posterior.nll, posterior.theta)


def _predicts_better(likelihood: Likelihood, theta: FloatArray, other: FloatArray) -> bool:
    """Whether rows left out are nearer to what some parameters say than to what others say."""
    others = likelihood(other).loo_residual
    residual = likelihood(theta).loo_residual
    return bool(residual @ residual < others @ others)


def n_steps(settings: Settings, n_rows: int) -> int:
    """Gradients of the loss in one fit, at most: what its progress is counted in."""
    return settings.training.max_iter + n_gradients(settings.n_draws, n_rows)


def _drawn(
    posterior: Posterior, run: Run, settings: Settings, rng: np.random.Generator,
    progress: Progress | None,
) -> Posterior:
    """The posterior with draws of its parameters, if any are wanted."""
    if not settings.n_draws:
        return posterior
    loss = run.loss(posterior.nll, posterior.theta)

    def note(gradients: int) -> None:
        if progress is not None:
            progress(settings.training.max_iter + gradients, loss=loss)

    thetas = draw(run, posterior.theta, settings.n_draws, rng, note)
    return with_draws(posterior, run.likelihood, thetas)


def rebuilt(
    structure: Structure, X: FloatArray, y: FloatArray, weights: FloatArray, theta: FloatArray,
    n_jobs: int | None, drawn: Sequence[FloatArray] = (), usual: float | None = None,
) -> Posterior:
    """The posterior of scaled data at known parameters, with draws of them."""
    with workers(len(y), n_jobs) as crew:
        likelihood = Likelihood(structure, X, y, weights, crew)
        return with_draws(condition(likelihood, theta, n_jobs), likelihood, drawn, usual)


def at_parameters(posterior: Posterior, theta: FloatArray) -> Posterior:
    """The same data and structure with other parameters."""
    p = posterior
    return rebuilt(p.structure, p.X, p.y, p.weights, theta, p.n_jobs)
