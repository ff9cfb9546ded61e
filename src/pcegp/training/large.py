"""Training of long tables: by likelihoods of some rows, whose cost does not grow with the table.

Covariance functions and maps are chosen by the evidence on a few hundred rows, as for short
tables (`pcegp.training.selection`). How freely scale and noise vary is judged where it shows: by
rows that have all others as neighbours. Parameters are trained on the likelihood of some rows, and
each step towards a freer model must predict other rows better, by more than one standard error.
Then the parameters are carried on with more rows, whose neighbours are looked for anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, cast

import numpy as np

from pcegp._typing import FloatArray
from pcegp.inference import (
    Data,
    Exact,
    NeighbourLikelihood,
    NeighbourPosterior,
    Neighbours,
    averaged,
    mapped,
    unexplained_variance,
)
from pcegp.numerics import threads_for
from pcegp.preprocessing import TargetMap
from pcegp.training.fitted import Fit
from pcegp.training.latent import LatentObjective
from pcegp.training.optimiser import History, Options, Progress
from pcegp.training.quasi_newton import Optimum, minimise
from pcegp.training.selection import TRAINING, MakeProcess, Selection, recorder
from pcegp.training.structures import Choices, Structure

#: With as many rows or fewer, structures are compared by their evidence on all stages.
FEWEST_ROWS = 1000
_COMPARED_ROWS = 400  # by their evidence
_TERMS, _HELD_OUT = 1500, 1500  # rows that train a step of the path, and rows that judge it
_EVALUATIONS, _LAST_EVALUATIONS = 40, 60  # of a step, and of the training on more rows
_ROUNDS = 2  # of that training, each with neighbours of its own
_CALIBRATED = 4000  # rows that tell what is left unexplained
_MULTIPLES = (1.0, 4.0)  # of the first scales, from which training begins as well


@dataclass(frozen=True)
class _Step:
    """A structure with its parameters, and how well it predicts rows that it has not seen."""

    structure: Structure
    theta: FloatArray
    by_row: FloatArray  # negative log likelihoods of held-out rows
    is_reached: bool

    @property
    def score(self) -> float:
        return float(self.by_row.mean())

    def is_better_than(self, other: "_Step") -> bool:
        """Tell whether the mean difference is more than its standard error."""
        gains = other.by_row - self.by_row
        return bool(gains.mean() > gains.std() / np.sqrt(len(gains)))

    def as_dict(self, weight: float) -> dict[str, Any]:
        """Describe the step as candidates of the evidence are described."""
        form, strengths = self.structure
        return {
            "covariance": list(form.covariance), "input_map": form.input_map,
            "noise_degree": form.noise_degree, "target_bend": form.target_bend,
            "penalty": strengths.penalty if isfinite(strengths.penalty) else None,
            "noise_penalty": (strengths.noise_penalty if isfinite(strengths.noise_penalty)
                              else None),
            "varying": None if strengths.varying is None else list(strengths.varying),
            "log_evidence": -float(self.by_row.sum()), "weight": weight,
            "converged": self.is_reached,
        }


def fit_by_terms(
    make_process: MakeProcess, data: Data, scales: FloatArray, choices: Choices, options: Options,
    rng: np.random.Generator, progress: Progress | None = None,
) -> Fit:
    """Choose a structure by some rows, and train it on the likelihood of more.

    The engine of the options is `Neighbours`, or one that shares its likelihood.
    """
    return _Large(make_process, data, scales, choices, options, rng, progress).fit()


class _Large:
    """The stages of one fit and what they have found."""

    def __init__(
        self, make_process: MakeProcess, data: Data, scales: FloatArray, choices: Choices,
        options: Options, rng: np.random.Generator, progress: Progress | None,
    ) -> None:
        self._make_process, self._data, self._choices = make_process, data, choices
        self._options, self._engine = options, cast(Neighbours, options.inference)
        self._progress = progress
        sample = data.rows(np.sort(rng.choice(len(data.y), _COMPARED_ROWS, replace=False)))
        first = choices._replace(penalties=choices.penalties[:1], noises=choices.noises[:1])
        self._selection = Selection(make_process, sample, scales, first,
                                    replace(options, inference=Exact()), rng, progress)
        self._target_map = TargetMap.fit(0.0, data.y, data.weights)
        self._steps: list[_Step] = []
        self._history = History()
        self._interrupted = False
        self._n_evaluations = 0

    def fit(self) -> Fit:
        found, varying = self._selection.best()
        structure = found.structure
        self._target_map = TargetMap.fit(structure.form.target_bend, self._data.y,
                                         self._data.weights)
        try:
            step = self._first_step(structure, found.theta)
            step = self._with_noise(self._freed(step, varying))
            step = self._trained(step)
        except KeyboardInterrupt:
            if not self._steps:
                raise
            self._interrupted = True
            step = min(self._steps, key=lambda each: each.score)
        return self._conditioned(step)

    def _freed(self, start: _Step, varying: tuple[int, ...] | None) -> _Step:
        """Free the scale step by step, as long as held-out rows are predicted better."""
        penalties = [each for each in self._choices.penalties if isfinite(each)]
        if inf not in self._choices.penalties:
            return start
        best = last = start
        with self._stage("comparing strengths of the prior", len(penalties)):
            for number, penalty in enumerate(penalties, 1):
                strengths = last.structure.strengths._replace(penalty=penalty, varying=varying)
                last = self._step(last.structure._replace(strengths=strengths), last.theta)
                self._tell(number)
                if last.is_better_than(best):
                    best = last
                elif best.is_better_than(last):
                    break
        return best

    def _with_noise(self, start: _Step) -> _Step:
        """Let the noise vary, if held-out rows are predicted better."""
        _, *others = self._choices.noises
        best = start
        with self._stage("comparing models of the noise", len(others)):
            for number, (degree, penalty) in enumerate(others, 1):
                structure = start.structure.with_noise(degree, penalty)
                step = self._step(structure, self._carried(start, structure))
                self._tell(number)
                if step.is_better_than(best):
                    best = step
        return best

    def _carried(self, start: _Step, structure: Structure) -> FloatArray:
        """Bring parameters to a structure with another basis of the noise."""
        process, before = (self._make_process(each.form) for each in (structure, start.structure))
        theta = np.zeros(process.n_parameters)
        for new, old in zip(process.parameters(theta), before.parameters(start.theta),
                            strict=True):
            if new.shape == old.shape:
                new[...] = old
            else:  # the constant is the first term of both
                new[int(np.argmax(process.noise_basis.is_constant))] = (
                    old[int(np.argmax(before.noise_basis.is_constant))])
        return theta

    def _first_step(self, structure: Structure, theta: FloatArray) -> _Step:
        """Train with a constant scale from several starts, and take the best.

        Some hundred rows may take quick variation for noise. From there, no path leads to the
        scales that many rows can see.
        """
        process = self._make_process(structure.form)
        starts = [theta, *(self._selection.centre(process, structure.strengths, multiple)
                           for multiple in _MULTIPLES)]
        with self._stage("training on some rows", len(starts)):
            steps = []
            for number, start in enumerate(starts, 1):
                steps.append(self._step(structure, start))
                self._tell(number)
        return min(steps, key=lambda each: each.score)

    def _step(self, structure: Structure, theta: FloatArray) -> _Step:
        """Train a structure on some rows, from given parameters, and judge it by others."""
        some = len(self._data.y) // 2
        n_terms, n_judged = min(_TERMS, some), min(_HELD_OUT, some)
        with self._likelihood(structure) as likelihood:
            objective = self._objective(likelihood.of_rows(theta, n_terms), structure)
            found = self._minimised(objective, theta, _EVALUATIONS, History())
            theta = objective.theta(found.w)
            others = likelihood.of_rows(theta, n_judged, n_skipped=n_terms)
            others(theta)
            self._n_evaluations += 1
        step = _Step(structure, theta, others.by_row - self._log_slope(others), found.is_reached)
        self._steps.append(step)
        return step

    def _log_slope(self, likelihood: NeighbourLikelihood) -> FloatArray:
        """Compute the log slopes of the target's map at the rows of terms, times their weights."""
        rows = self._data.rows(likelihood.owners)
        return self._target_map.log_slope(rows.y) * rows.weights

    def _trained(self, step: _Step) -> _Step:
        """Carry the parameters on with more rows."""
        theta, structure, n_terms = step.theta, step.structure, self._engine.n_terms
        is_reached = False
        with self._stage(TRAINING, _ROUNDS), self._likelihood(structure) as likelihood:
            for number in range(1, _ROUNDS + 1):
                objective = self._objective(likelihood.of_rows(theta, n_terms), structure)
                self._history = History()
                found = self._minimised(objective, theta, _LAST_EVALUATIONS // number,
                                        self._history)
                theta, is_reached = objective.theta(found.w), found.is_reached
                self._tell(number)
        return replace(step, theta=theta, is_reached=is_reached)

    def _minimised(
        self, objective: LatentObjective, theta: FloatArray, evaluations: int, history: History
    ) -> Optimum:
        likelihood = cast(NeighbourLikelihood, objective.likelihood)
        weights = np.zeros_like(likelihood.data.weights)
        weights[likelihood.owners] = likelihood.data.weights[likelihood.owners]
        record = recorder(history, weights, self._target_map, likelihood.data.y)
        found = minimise(objective, [objective.latent(theta)], self._options.max_iter,
                         evaluations, record, rough=True)
        self._n_evaluations += likelihood.n_factorisations
        if found.interrupted:
            raise KeyboardInterrupt
        return found

    def _objective(
        self, likelihood: NeighbourLikelihood, structure: Structure
    ) -> LatentObjective:
        """Put the prior beside a likelihood."""
        centre = self._selection.centre(likelihood.process, structure.strengths)
        return LatentObjective.of(likelihood, centre, structure.strengths, self._options.prior,
                                  self._options.priors)

    @contextmanager
    def _likelihood(self, structure: Structure) -> Iterator[NeighbourLikelihood]:
        """Bind the engine to all rows, with the map of their targets."""
        process = self._make_process(structure.form)
        data = self._data._replace(y=self._target_map.transform(self._data.y))
        with threads_for(len(data.y), self._options.n_jobs) as threads:
            yield self._engine.bind(process, data, threads, self._options.n_jobs)

    def _conditioned(self, step: _Step) -> Fit:
        """Condition on all rows, and sum up."""
        with self._likelihood(step.structure) as likelihood:
            base = likelihood.posterior(step.theta)
        posterior = mapped(base, self._target_map, self._data.y)
        if not step.structure.strengths.noise_is_known:
            posterior = averaged((posterior,), np.ones(1), self._unexplained(base))
        info = {
            "condition_number": None,
            "jitter": base.jitter,
            "n_jittered_steps": int(np.count_nonzero(self._history.jitter)),
            "converged": step.is_reached,
            "interrupted": self._interrupted,
            "n_factorisations": self._n_evaluations,
            "members": [step.as_dict(1.0)],
            "compared": [each.as_dict(0.0) for each in self._steps],
        }
        return Fit(posterior, self._history, {}, max(len(self._history.loss) - 1, 0), info)

    def _unexplained(self, base: NeighbourPosterior) -> float:
        """Estimate the variance that no row explains, from some rows, each left out."""
        chosen = np.sort(np.random.default_rng(1).choice(
            len(self._data.y), min(_CALIBRATED, len(self._data.y)), replace=False))
        mean, _, variance = self._target_map.moments(*base.left_out(chosen))
        rows = self._data.rows(chosen)
        return unexplained_variance(mean, variance, rows.y, rows.weights)

    @contextmanager
    def _stage(self, label: str, total: int) -> Iterator[None]:
        if self._progress is not None:
            self._progress(0, label=label, total=total)
        yield
        self._tell(total)

    def _tell(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done)
