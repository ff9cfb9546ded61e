"""Stages of a fit, from scaled data to a trained posterior.

    probe       several starts, on some of many rows: which start is carried on
    warm-up     the first steps, on some of many rows
    training    the steps on all rows
    candidate   a noise-free model, tried where training found next to no noise
    draws       parameters around the trained ones

Ctrl-C ends a stage and all that would follow it; what was trained is the result.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from pcegp._typing import FloatArray
from pcegp.inference import Conditioned, Data, Posterior, with_uncertainty
from pcegp.kernels import Process
from pcegp.numerics import threads_for
from pcegp.training import hmc, noise_free, starts
from pcegp.training.fitted import Fit
from pcegp.training.objective import Objective
from pcegp.training.optimiser import Descent, Options, Progress, Reached, State

TRAINING = "training"  # the stage whose bar counts steps
# Starts are compared on at most this many rows; the best is then carried on.
_PROBE_ROWS = 500
# Steps of a warm-up. Not a share of max_iter: a checkpoint of a long training is the end of a
# short one.
_WARM_UP_STEPS = 300
# The noise-free candidate is fitted to more rows than this only if it is better on some of them.
_CANDIDATE_ROWS = 2000
_PILOT_ROWS = 1000


def fit(
    process: Process, data: Data, scales: FloatArray, options: Options,
    rng: np.random.Generator, progress: Progress | None = None,
) -> Fit:
    """Train on data, from constant local scales (K,)."""
    trainer = _Trainer(process, data, scales, options, rng, progress)
    if options.n_restarts:
        trainer.probe()
    if options.warm_up_rows is not None and len(data.y) > options.warm_up_rows:
        trainer.warm_up(options.warm_up_rows)
    return trainer.train()


class _Trainer:
    """The stages of one fit and what they have reached."""

    def __init__(
        self, process: Process, data: Data, scales: FloatArray, options: Options,
        rng: np.random.Generator, progress: Progress | None,
    ) -> None:
        self._process, self._data, self._scales = process, data, scales
        self._options, self._rng, self._progress = options, rng, progress
        self._starts = [process.initial(scales)]
        self._centre = self._starts[0]  # of the priors
        self._reached: Reached | None = None
        self._interrupted = False
        self._n_factorisations = 0

    def probe(self) -> None:
        """Make several starts; with many rows, choose one by some of them."""
        self._starts += starts.restarts(self._process, self._scales, self._options.n_restarts,
                                        self._rng)
        if len(self._data.y) > _PROBE_ROWS:
            with self._objective(_PROBE_ROWS) as objective:
                best = self._descend(objective, 0)
            self._starts = [best.best.theta if self._interrupted else best.start]

    def warm_up(self, n_rows: int) -> None:
        """Make the first steps on some of the rows."""
        if self._interrupted:
            return
        with self._objective(n_rows) as objective:
            steps = min(_WARM_UP_STEPS, self._options.max_iter)
            descent = self._descend(objective, steps)
            self._reached = descent.reached(checked=False)  # what Ctrl-C leaves

            def check() -> None:
                self._reached = descent.reached()

            self._unless_interrupted(check)

    def train(self) -> Fit:
        """Make the steps on all rows, and all that comes after them."""
        with self._objective() as objective:
            descent = self._descend(objective, self._options.max_iter)
            ending = _Ending(descent, self._scales, self._data, self._n_factorisations,
                             self._progress)
            warm = self._reached
            if warm is not None and descent.iterations <= _WARM_UP_STEPS:
                ending.fell_back = warm.fell_back  # no steps came after it
            self._unless_interrupted(ending.finish_checkpoints)
            self._unless_interrupted(ending.try_noise_free)
            if self._options.n_draws:
                self._unless_interrupted(lambda: ending.draw(self._rng))
            return ending.fit(self._interrupted)

    def _unless_interrupted(self, work: Callable[[], None]) -> None:
        """Do some work, which Ctrl-C ends, with all that would follow."""
        if not self._interrupted:
            try:
                work()
            except KeyboardInterrupt:
                self._interrupted = True

    @contextmanager
    def _objective(self, n_rows: int | None = None) -> Iterator[Objective]:
        """Bind engine and priors to all rows, or to so many drawn at random."""
        options, data = self._options, self._data
        if n_rows is not None:
            data = data.rows(np.sort(self._rng.choice(len(data.y), n_rows, replace=False)))
        with threads_for(len(data.y), options.n_jobs) as threads:
            likelihood = options.inference.bind(self._process, data, threads, options.n_jobs)
            yield Objective.of(likelihood, options.priors, self._centre)
            self._n_factorisations += likelihood.n_factorisations

    def _descend(self, objective: Objective, steps: int) -> Descent:
        """Choose among the starts, or carry on, and make steps until so many in all."""
        options, begin = self._options, self._reached
        if begin is None:
            descents = [Descent(objective, options, theta) for theta in self._starts]
        else:
            descents = [Descent(objective, options, begin.theta, begin)]
        if self._interrupted:
            # One evaluation makes what there is known to these rows.
            descents[0].advance(len(descents[0].history.loss))
            return descents[0]

        def work() -> None:
            if len(descents) > 1:
                _enter("comparing starts", self._progress)
                starts.choose(descents, min(options.max_iter, steps or options.max_iter))
                _enter(TRAINING, self._progress, options.max_iter)
                if self._progress is not None:
                    self._progress(descents[0].iterations, loss=descents[0].history.loss[-1])
            descents[0].advance(steps, self._progress)

        self._unless_interrupted(work)
        best = min(descents, key=lambda descent: descent.best.loss)
        if not best.history.loss:
            raise KeyboardInterrupt  # nothing is there to return
        return best


class _Ending:
    """The end of a descent and what follows it; a checkpoint is the end of a shorter one.

    Parameters
    ----------
    descent : after its last step, on all rows
    scales : (K,) start values of the local scale
    data : all rows
    n_factorisations : of earlier stages
    """

    def __init__(
        self, descent: Descent, scales: FloatArray, data: Data, n_factorisations: int,
        progress: Progress | None,
    ) -> None:
        self._progress = progress
        self._descent, self._scales, self._data = descent, scales, data
        self._objective, self._options = descent.objective, descent.options
        self._n_factorisations = n_factorisations
        self.base, self.fell_back = descent.posterior(descent.state)
        self.posterior: Posterior = self.base
        self.noise_free = False
        self.checkpoints = {step: state.result for step, state in descent.checkpoints.items()}

    def finish_checkpoints(self) -> None:
        """Replace checkpoints by the parameters of trainings that end there."""
        for step, state in self._descent.checkpoints.items():
            if step < self._descent.iterations:
                _enter(f"model after {step} steps", self._progress)
                self.checkpoints[step] = self._end(state)

    def _end(self, state: State) -> FloatArray:
        base, _ = self._descent.posterior(state)
        candidate = self._noise_free_candidate(base)
        return base.theta if candidate is None else candidate

    def try_noise_free(self) -> None:
        """Take the noise-free candidate where it is better."""
        theta = self._noise_free_candidate(self.base)
        if theta is not None:
            self.noise_free = True
            self.posterior = self.base = self._objective.likelihood.posterior(theta)
            self._objective = Objective.of(self._objective.likelihood, self._options.priors, theta)
        if self._descent.iterations in self.checkpoints:
            self.checkpoints[self._descent.iterations] = self.base.theta

    def _noise_free_candidate(self, base: Conditioned) -> FloatArray | None:
        if not (base.noise.mean() < noise_free.LITTLE_NOISE
                and noise_free.is_possible(base.process)):
            return None
        _enter("trying a model without noise", self._progress)
        if not self._is_worth_trying(base):
            return None
        candidate, likelihood = self._candidate, self._objective.likelihood
        better = candidate is not None and noise_free.is_better(likelihood, candidate, base.theta)
        return candidate if better else None

    @cached_property
    def _candidate(self) -> FloatArray | None:
        """The noise-free candidate, the same wherever training ends."""
        return noise_free.fit_candidate(self._objective.likelihood, self._scales)

    def _is_worth_trying(self, base: Conditioned) -> bool:
        """Ask some of many rows: a hundred evaluations of all of them would take minutes."""
        if len(self._data.y) <= _CANDIDATE_ROWS:
            return True
        # Its own generator: what is drawn later does not depend on this.
        rng = np.random.default_rng(0)
        rows = np.sort(rng.choice(len(self._data.y), _PILOT_ROWS, replace=False))
        with threads_for(_PILOT_ROWS, self._options.n_jobs) as threads:
            pilot = self._options.inference.bind(base.process, self._data.rows(rows), threads)
            candidate = noise_free.fit_candidate(pilot, self._scales)
            return candidate is not None and noise_free.is_better(pilot, candidate, base.theta)

    def draw(self, rng: np.random.Generator) -> None:
        """Draw parameters, so that predictions know their uncertainty."""
        count, progress = self._options.n_draws, self._progress
        _enter("drawing parameters", progress, count)
        per_draw = hmc.n_gradients(1, self._objective.n_rows)

        def note(gradients: int) -> None:
            if progress is not None:
                progress(gradients // per_draw)

        thetas = hmc.draw(self._objective, self.base.theta, count, rng, note)
        _enter("predicting by the draws", progress)
        self.posterior = with_uncertainty(self.base, self._objective.likelihood, thetas)

    def fit(self, interrupted: bool) -> Fit:
        """Sum up what training has reached."""
        descent, likelihood = self._descent, self._objective.likelihood
        info = {
            "condition_number": self.base.condition_number(),
            "jitter": self.base.jitter,
            "n_jittered_steps": int(np.count_nonzero(descent.history.jitter)),
            "n_rate_reductions": descent.n_reductions,
            "fell_back_to_best": self.fell_back,
            "noise_free": self.noise_free,
            "interrupted": interrupted,
            "n_factorisations": self._n_factorisations + likelihood.n_factorisations,
        }
        return Fit(self.posterior, descent.history, self.checkpoints,
                   descent.iterations, info)


def _enter(label: str, progress: Progress | None, total: int | None = None) -> None:
    """Tell whoever watches that another stage begins, and how much there is to do, if known."""
    if progress is not None:
        progress(0, label=label, total=total)
