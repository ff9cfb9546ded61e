"""The choice of a structure by its evidence, and the average over those that are left.

A structure is a map of the inputs, a strength of the prior on the expansions of the scale, and a
degree and strength of the noise's expansion. For each map the path goes from a stationary model
to freer ones, each from the end of the last, until the evidence has turned. With many rows the
structures are compared on some of them, and only those that are left see all.

Candidates are ranked and weighed by `pcegp.training.structures`; the predictions of those that are
left are averaged. The temperature of their weights grows with the rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf, isfinite, log
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.inference import (
    LEAVE_ONE_OUT,
    Data,
    Likelihood,
    Posterior,
    averaged,
    mapped,
    unexplained_variance,
)
from pcegp.kernels import LEAST_NOISE, Process
from pcegp.metrics import crps
from pcegp.numerics import threads_for
from pcegp.preprocessing import TargetMap
from pcegp.training.evidence import Evidence, evidence
from pcegp.training.fitted import Fit
from pcegp.training.latent import LatentObjective, LatentValue, Metric, Strengths
from pcegp.training.optimiser import History, Options, Progress
from pcegp.training.quasi_newton import Optimum, best_of, minimise
from pcegp.training.structures import (
    Candidate,
    Choices,
    Form,
    Structure,
    best_of_each_form,
    ordered,
    weighed,
)

TRAINING = "training"  # the stage whose bar counts iterations
_COMPARED_ROWS = 400  # structures are compared on at most so many rows
_COMPARED_EVALUATIONS = 300  # of one optimum, where structures are compared
_REFIT_ITERATIONS = 15  # on other rows
_EVALUATIONS = 330  # of all rows, where these are more; shared by those that are left
#: Strengths of the prior on the scale's expansions, from a nearly stationary model to a free one.
PATH = (10.0, 3.0, 1.0, 0.3)
#: Bends of the target's map, in both directions, from a nearly linear map to a logarithm.
BENDS = (1.0, 3.0, 10.0, 30.0, 100.0)
# A form with a log evidence of so much more for each row weighs e times as much. By less, a few
# odd rows would decide.
_TEMPERATURE_OF_A_ROW = 0.08
_WEAK = 3.0  # temperatures below the best: too far to follow a path from there
_NOISE_GAIN = 0.25  # temperatures that a varying noise must bring
_COEFFICIENTS_OF_A_ROW = 4.0  # of the scale's expansions, at most
_TURNED = 8.0  # what the log evidence has fallen by where a path ends
_TWO = 2  # of two values, every map is linear
_LADDER = (4.0, 0.25, 16.0)  # multiples of the first scales that restarts try


MakeProcess = Callable[[Form], Process]


def fit_by_evidence(
    make_process: MakeProcess, data: Data, scales: FloatArray, choices: Choices, options: Options,
    rng: np.random.Generator, progress: Progress | None = None,
) -> Fit:
    """Choose structures by their evidence, and train those that are left on all rows."""
    return Selection(make_process, data, scales, choices, options, rng, progress).fit()


def refitted(
    likelihood: Likelihood, theta: FloatArray, options: Options, member: Mapping[str, Any]
) -> FloatArray:
    """Carry parameters on, on other rows, for a few iterations.

    Parameters
    ----------
    theta : parameters to start from, around whose constants the prior is centred
    member : the structure, as `Candidate.as_dict` describes it
    """
    process, centre = likelihood.process, theta.copy()
    parts = process.parameters(centre)
    parts.coefficients[:, :, ~process.basis.is_constant] = 0.0
    parts.noise[~process.noise_basis.is_constant] = 0.0
    penalty, noise_penalty = (inf if member[name] is None else float(member[name])
                              for name in ("penalty", "noise_penalty"))
    varying = None if member["varying"] is None else tuple(member["varying"])
    strengths = Strengths(penalty, noise_penalty, varying=varying)
    objective = LatentObjective.of(likelihood, centre, strengths, options.prior, options.priors)
    start = objective.latent(theta)
    return objective.theta(minimise(objective, [start], _REFIT_ITERATIONS, _COMPARED_EVALUATIONS).w)


class Selection:
    """The stages of one fit and what they have found."""

    def __init__(
        self, make_process: MakeProcess, data: Data, scales: FloatArray, choices: Choices,
        options: Options, rng: np.random.Generator, progress: Progress | None,
    ) -> None:
        self._make_process, self._data, self._scales = make_process, data, scales
        self._choices, self._options, self._rng, self._progress = choices, options, rng, progress
        self._temperature = _TEMPERATURE_OF_A_ROW * min(float(data.weights.sum()), _COMPARED_ROWS)
        self._found: list[Candidate] = []  # those that are left
        self._compared: list[Candidate] = []
        self._histories: dict[Structure, History] = {}
        self._target_maps: dict[float, TargetMap] = {}
        self._interrupted = False
        self._n_factorisations = self._n_done = 0

    def fit(self) -> Fit:
        n, rows = len(self._data.y), self._data
        if n > _COMPARED_ROWS:
            rows = rows.rows(np.sort(self._rng.choice(n, _COMPARED_ROWS, replace=False)))
        self._compare(rows)
        members, weights = weighed(self._found, self._temperature)
        if rows is not self._data:
            members = self._trained(members)
        return self._conditioned(members, weights)

    def best(self) -> tuple[Candidate, tuple[int, ...] | None]:
        """Compare structures, without a training on all rows.

        Returns
        -------
        The best candidate, and the inputs whose scales may vary if more of it is free; None is all.
        """
        self._compare(self._data)
        if self._interrupted:
            raise KeyboardInterrupt
        found = ordered(self._found)[0]
        return found, self._varying(self._data, found)

    def _compare(self, rows: Data) -> None:
        """Find candidates: all forms with a stationary scale, freer scales, then noises."""
        sets, maps, penalties, noises, known, _ = self._choices
        (degree, noise_penalty), *others = noises
        strengths = Strengths(inf, noise_penalty, known)
        structures = [Structure(Form(names, name, degree), strengths)
                      for names in sets for name in maps]
        with self._stage("comparing covariances and maps", len(structures)):
            stationary = ordered(self._candidates(rows, structures))
        stationary, starts = self._best_target(rows, stationary), []
        if inf in penalties:
            self._found += stationary
            self._compared += stationary
            # From the better set of covariance functions of each map.
            starts = ordered({each.structure.form.input_map: each
                              for each in reversed(stationary)}.values())
        least = stationary[0].log_evidence - _WEAK * self._temperature
        starts = [each for each in starts or stationary if each.log_evidence >= least]
        n_freer = sum(map(isfinite, penalties))
        with self._stage("comparing strengths of the prior", len(starts) * n_freer):
            for number, start in enumerate(starts):
                self._n_done = number * n_freer
                self._found += self._freed(rows, start)
        self._found = self._found or stationary  # an interrupt may have left no other
        # Noise comes last: it would explain what a freer scale can explain.
        if others:
            self._vary_noise(rows, others)

    def _best_target(self, rows: Data, linear: list[Candidate]) -> list[Candidate]:
        """Choose a map of the target, and give the stationary candidates with it, the best first.

        A map must be better by the evidence and by predictions of left-out rows.
        """
        bends, first = self._choices.bends, linear[0]
        if not bends or len(np.unique(self._data.y)) <= _TWO:
            return linear
        with self._stage("comparing maps of the target", 2 * len(bends)):
            bent = ordered(found for sign in (1.0, -1.0)
                           for found in self._bent(rows, first, [sign * bend for bend in bends]))
        # Half of the prior is on the target as it is, the other half on all bends alike.
        least = first.log_evidence + log(2 * len(bends))
        if (not bent or bent[0].log_evidence <= least
                or self._left_out_error(bent[0]) > self._left_out_error(first)):
            self._compared += bent
            return linear
        self._compared += [*linear, *bent[1:]]
        bend = bent[0].structure.form.target_bend
        with self._stage("comparing covariances and maps", len(linear) - 1):
            others = [found for each in linear[1:] for found in self._bent(rows, each, [bend])]
        return ordered([bent[0], *others])

    def _bent(
        self, rows: Data, start: Candidate, bends: Sequence[float]
    ) -> Iterator[Candidate]:
        """Bend the target's map more and more, until the evidence has turned."""
        structure, best = start.structure, start.log_evidence
        structures = [structure._replace(form=structure.form._replace(target_bend=bend))
                      for bend in bends]
        for found in self._candidates(rows, structures, start):
            yield found
            if found.log_evidence < best:
                return
            best = found.log_evidence

    def _freed(self, rows: Data, start: Candidate) -> list[Candidate]:
        """Free the scale step by step, until the evidence has turned."""
        best, varying = start.log_evidence, self._varying(rows, start)
        structures = [start.structure._replace(strengths=start.structure.strengths._replace(
            penalty=value, varying=varying)) for value in self._choices.penalties
            if isfinite(value)]
        out: list[Candidate] = []
        for found in self._candidates(rows, structures, start):
            out.append(found)
            best = max(best, found.log_evidence)
            if found.log_evidence < best - _TURNED:
                break
        self._compared += out
        return out

    def _varying(self, rows: Data, start: Candidate) -> tuple[int, ...] | None:
        """Choose the inputs whose scales may vary: all, or as many as the rows can determine.

        Of a wide table these are the inputs that move the stationary process most. In a
        covariance function, an input moves it by its scale times its deviation, but at most as
        far as two points can be apart that know nothing of each other.
        """
        process = self._make_process(start.structure.form)
        d, n_terms = process.n_inputs, int(np.count_nonzero(~process.basis.is_constant))
        allowed = _COEFFICIENTS_OF_A_ROW * float(rows.weights.sum())
        if process.scale != "per_input" or d * n_terms <= allowed:
            return None
        # The number of terms of m of d inputs falls about as (m / d) to the interactions in one.
        power = 1 + int((process.basis.indices > 0).sum(axis=1).max())
        share = (allowed / (d * n_terms)) ** (1.0 / power)
        parts = process.parameters(start.theta)
        scales = process.transform.value(
            parts.coefficients[:, :, int(np.argmax(process.basis.is_constant))])
        apart = scales * _deviations(process.input_map.transform(rows.X), rows.weights)
        moved = np.exp(parts.log_variances) @ np.minimum(apart**2, 1.0)
        most = np.argsort(-moved, kind="stable")[: max(int(share * d), 1)]
        return tuple(sorted(most.tolist()))

    def _vary_noise(self, rows: Data, noises: Sequence[tuple[int, float]]) -> None:
        """Let the noise of the best candidate vary; if that is better, that of all which count."""
        before = best_of_each_form(self._found)
        best = before[0].log_evidence
        # A free scale explains what noise would, so noise is given the constant scale, too.
        starts = [before[0]]
        constant = ordered(each for each in self._found
                            if each.structure.strengths.penalty == inf)
        if constant and constant[0] is not before[0]:
            starts.append(constant[0])
        near = [each for each in before if each.log_evidence >= best - _WEAK * self._temperature]
        with self._stage("comparing models of the noise", len(noises) * len(starts)):
            varied = ordered(
                found for start in starts for found in self._candidates(
                    rows, [start.structure.with_noise(*noise) for noise in noises], start))
        self._compared += varied
        if not varied or varied[0].log_evidence < best + _NOISE_GAIN * self._temperature:
            return
        if self._left_out_error(varied[0]) > self._left_out_error(before[0]):
            return
        winner = varied[0].structure
        more: list[Candidate] = []
        with self._stage("comparing covariances and maps", len(near)):
            for other in near:
                structure = other.structure.with_noise(winner.form.noise_degree,
                                                       winner.strengths.noise_penalty)
                if structure != winner:
                    more += self._candidates(rows, [structure], other)
        self._found = [varied[0], *more]
        self._compared += more

    def _left_out_error(self, candidate: Candidate) -> float:
        """Score how a candidate predicts each row from all others, by the CRPS.

        A noise that varies explains whatever a process does not. That raises the evidence even
        where predictions get worse. Copies of a row are left out with it.
        """
        if LEAVE_ONE_OUT not in self._options.inference.provides:
            return 0.0
        rows = self._data.distinct()
        with self._objective(rows, candidate.structure) as objective:
            posterior = self._posterior(objective.likelihood, candidate.structure, candidate.theta,
                                        rows.y)
            mean, variance = posterior.leave_one_out()
        return crps(rows.y, mean, np.sqrt(variance), rows.weights)

    def _candidates(
        self, rows: Data, structures: Sequence[Structure], start: Candidate | None = None
    ) -> Iterator[Candidate]:
        """Train structures on some rows, each from the end of the last if that is near."""
        last, has_ladder = start, start is None
        for structure in structures:
            if self._interrupted:
                return
            near, found = last, None
            if near is not None and near.structure.form.covariance != structure.form.covariance:
                near = None
            with self._until_interrupted(last is not None):
                found = self._candidate(rows, structure, near, has_ladder)
            if found is not None:
                last = found
                self._advance()
                yield found

    def _candidate(
        self, rows: Data, structure: Structure, near: Candidate | None, has_ladder: bool
    ) -> Candidate:
        """Train a structure from the end of another and from a ladder of scales."""
        with self._objective(rows, structure) as objective:
            begins = [] if near is None else [self._carried(near, objective, structure)]
            if has_ladder:
                begins += self._ladder(objective)
            metric = self._metric(near, objective)
            found = self._optimum(objective, structure, begins, metric)
            speaks = self._evidence(objective, found)
            target_map = self._target_map(structure)
            of_target = float(target_map.log_slope(rows.y) @ rows.weights) + target_map.log_prior
            return Candidate(structure, objective.theta(found.w), found, speaks, objective.blocks,
                             of_target)

    @contextmanager
    def _until_interrupted(self, has_result: bool = True) -> Iterator[None]:
        """Let Ctrl-C end what is done, unless there is nothing yet that could be the result."""
        try:
            yield
        except KeyboardInterrupt:
            if not has_result:
                raise
            self._interrupted = True

    def _evidence(self, objective: LatentObjective, optimum: Optimum) -> Evidence:
        found = Evidence(-inf, 0.0)
        if not self._interrupted:
            with self._until_interrupted():
                found = evidence(objective, optimum)
        return found

    @staticmethod
    def _metric(known: Candidate | None, objective: LatentObjective) -> Metric | None:
        """Foresee the curvature from that of a candidate which is near."""
        if known is None or known.evidence.metric is None:
            return None
        return objective.carried(known.evidence.metric, known.blocks)

    def _carried(
        self, start: Candidate, objective: LatentObjective, structure: Structure
    ) -> FloatArray:
        """Bring the parameters of a candidate to a structure with another basis of the noise."""
        if start.structure.form == structure.form:
            return objective.latent(start.theta)
        process, before = objective.likelihood.process, self._make_process(start.structure.form)
        theta = objective.centre.copy()
        for new, old in zip(process.parameters(theta), before.parameters(start.theta),
                            strict=True):
            if new.shape == old.shape:
                new[...] = old
            else:  # the constant is the first term of both
                new[int(np.argmax(process.noise_basis.is_constant))] = (
                    old[int(np.argmax(before.noise_basis.is_constant))])
        return objective.latent(theta)

    def _optimum(
        self, objective: LatentObjective, structure: Structure, begins: Sequence[FloatArray],
        metric: Metric | None,
    ) -> Optimum:
        """Minimise from the best of some latent variables, and from the user's restarts."""
        optima = [self._minimised(objective, structure, begins, _COMPARED_EVALUATIONS, metric)]
        for begin in self._restarts(objective) if len(begins) > 1 else ():
            if not self._interrupted:
                before = self._histories[structure]
                with self._until_interrupted():
                    optima.append(self._minimised(objective, structure, [begin],
                                                  _COMPARED_EVALUATIONS))
                if best_of(optima) is not optima[-1]:
                    self._histories[structure] = before
        return best_of(optima)

    def _minimised(
        self, objective: LatentObjective, structure: Structure, begins: Sequence[FloatArray],
        evaluations: int, metric: Metric | None = None,
    ) -> Optimum:
        """Minimise from the best of some latent variables, and keep the history."""
        history, data = History(), objective.likelihood.data
        record = recorder(history, data.weights, self._target_map(structure), data.y)
        optimum = minimise(objective, begins, self._options.max_iter, evaluations, record,
                           metric=metric, rough=len(data.y) < len(self._data.y))
        self._histories[structure] = history
        self._interrupted |= optimum.interrupted
        return optimum

    def _ladder(self, objective: LatentObjective) -> list[FloatArray]:
        """List the centre of the prior, and multiples of its scales."""
        return [np.zeros(objective.size), *(self._scaled(objective, factor) for factor in _LADDER)]

    def _restarts(self, objective: LatentObjective) -> list[FloatArray]:
        """List what the user's restarts begin with: the ladder, then random multiples."""
        extra = max(self._options.n_restarts - len(_LADDER), 0)
        factors = [*_LADDER, *np.exp(self._rng.uniform(-1.0, 3.0, extra)).tolist()]
        return [self._scaled(objective, factor) for factor in factors[: self._options.n_restarts]]

    def _scaled(self, objective: LatentObjective, factor: float) -> FloatArray:
        """Multiply the scales at the centre of the prior."""
        process = objective.likelihood.process
        return objective.latent(self.centre(process, Strengths(), factor))

    def _trained(self, members: Sequence[Candidate]) -> list[Candidate]:
        """Carry members on with all rows; Ctrl-C leaves them as they are by some of the rows."""
        out, evaluations = list(members), _EVALUATIONS // len(members)
        with self._stage(TRAINING, len(members)):
            for number, member in enumerate(members):
                if not self._interrupted:
                    with self._until_interrupted():
                        out[number] = self._carried_on(member, evaluations)
                        self._advance()
        return out

    def _carried_on(self, member: Candidate, evaluations: int) -> Candidate:
        """Train a member on all rows, to a finer tolerance."""
        with self._objective(self._data, member.structure) as objective:
            start, metric = objective.latent(member.theta), member.evidence.metric
            if metric is not None:
                metric = metric.for_rows(max(len(self._data.y) / _COMPARED_ROWS, 1.0))
            found = self._minimised(objective, member.structure, [start], evaluations, metric)
        return replace(member, theta=objective.theta(found.w), optimum=found)

    def _conditioned(self, members: Sequence[Candidate], weights: FloatArray) -> Fit:
        """Condition the members on all rows, and sum up."""
        posteriors: list[Posterior] = []
        for member in members:
            with self._objective(self._data, member.structure) as objective:
                likelihood = objective.likelihood
                spread = _lost_freedom(self._data, member.evidence.n_determined)
                theta = likelihood.process.with_variance_times(member.theta, spread)
                posteriors.append(self._posterior(likelihood, member.structure, theta,
                                                  self._data.y))
        first = members[0]
        posterior = averaged(tuple(posteriors), weights)
        if (LEAVE_ONE_OUT in self._options.inference.provides
                and not first.structure.strengths.noise_is_known):
            posterior = averaged(tuple(posteriors), weights, unexplained_variance(
                *posterior.leave_one_out(), self._data.y, self._data.weights))
        history = self._histories[first.structure]
        info = {
            "condition_number": posterior.base.condition_number(),
            "jitter": max(each.base.jitter for each in posteriors),
            "n_jittered_steps": int(np.count_nonzero(history.jitter)),
            "converged": all(member.optimum.is_reached for member in members),
            "interrupted": self._interrupted,
            "n_factorisations": self._n_factorisations,
            "members": [member.as_dict(float(weight))
                        for member, weight in zip(members, weights, strict=True)],
            "compared": [found.as_dict(0.0) for found in self._compared],
        }
        return Fit(posterior, history, {}, len(history.loss) - 1, info)

    def _target_map(self, structure: Structure) -> TargetMap:
        """Make the map of the target, of all rows."""
        bend = structure.form.target_bend
        if bend not in self._target_maps:
            self._target_maps[bend] = TargetMap.fit(bend, self._data.y, self._data.weights)
        return self._target_maps[bend]

    def _posterior(
        self, likelihood: Likelihood, structure: Structure, theta: FloatArray, y: FloatArray
    ) -> Posterior:
        """Condition a structure, and predict the target (n,) from its map."""
        return mapped(likelihood.posterior(theta), self._target_map(structure), y)

    @contextmanager
    def _stage(self, label: str, total: int) -> Iterator[None]:
        """Tell whoever watches that a stage begins, with at most so many structures, and ends."""
        self._n_done = 0
        if self._progress is None:
            yield
            return
        self._progress(0, label=label, total=total)
        yield
        self._progress(self._n_done if self._interrupted else total)

    def _advance(self) -> None:
        """Tell whoever watches that a structure is done."""
        self._n_done += 1
        if self._progress is not None:
            self._progress(self._n_done)

    @contextmanager
    def _objective(self, rows: Data, structure: Structure) -> Iterator[LatentObjective]:
        """Bind engine and prior to rows."""
        options = self._options
        process = self._make_process(structure.form)
        rows = rows._replace(y=self._target_map(structure).transform(rows.y))
        with threads_for(len(rows.y), options.n_jobs) as threads:
            likelihood = options.inference.bind(process, rows, threads, options.n_jobs)
            centre = self.centre(process, structure.strengths)
            yield LatentObjective.of(likelihood, centre, structure.strengths, options.prior,
                                     options.priors)
            self._n_factorisations += likelihood.n_factorisations

    def centre(
        self, process: Process, strengths: Strengths, multiple: float = 1.0
    ) -> FloatArray:
        """Make the parameters around which a prior is centred, or with multiples of the scales."""
        scales = self._scales if multiple == 1.0 else process.transform.reachable(
            multiple * self._scales)
        centre = self._centre(process, self._data, scales)
        if strengths.noise_is_known:
            process.set_constant_noise(centre, LEAST_NOISE)
        return centre

    def _centre(self, process: Process, data: Data, scales: FloatArray) -> FloatArray:
        """Make the centre of the prior from start values (K,) of the local scale."""
        if process.scale != "per_input" or not self._options.adapt_scales:
            return process.initial(scales)
        return process.initial(scales[:, None] * _units(process, data))


def _lost_freedom(data: Data, n_determined: float) -> float:
    """Compute the factor of variances that were estimated with so many parameters.

    As in a linear regression, the residuals of n rows have n - p degrees of freedom, and a
    prediction has the error of p parameters besides its own: (n + p) / (n - p) in all (Akaike's
    final prediction error, 1969).
    """
    n = float(data.weights.sum())
    lost = min(n_determined, 0.5 * n)
    return (n + lost) / (n - lost)


def _deviations(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Compute the standard deviations (d,) of inputs (n, d) with weights (n,)."""
    mean = np.average(X, axis=0, weights=weights)
    return np.asarray(np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights)))


def _units(process: Process, data: Data) -> FloatArray:
    """Compare the spread of each input (d,) to that of uniform inputs over the same range."""
    X = process.input_map.transform(data.X)
    deviation = _deviations(X, data.weights)
    uniform = (X.max(axis=0) - X.min(axis=0)) / np.sqrt(12.0)
    return np.where(deviation > 0.0, uniform / np.where(deviation > 0.0, deviation, 1.0), 1.0)


def recorder(
    history: History, weights: FloatArray, target_map: TargetMap, mapped_y: FloatArray
) -> Callable[[LatentValue, int], None]:
    """Make a watcher that writes down every iteration, in terms of the target itself.

    A residual of the map is one of the target times the slope of the map, if it is small.
    """
    log_slope = target_map.log_slope(target_map.inverse(mapped_y))
    width, constant = np.exp(-log_slope), float(weights @ log_slope)

    def record(value: LatentValue, _: int) -> None:
        found = value.evaluation
        if found is None:
            return
        if found.loo_residual is not None and found.loo_variance is not None:
            found = found._replace(loo_residual=found.loo_residual * width,
                                   loo_variance=found.loo_variance * width**2)
        history.append(found._replace(nll=found.nll - constant), value.loss - constant, weights)
    return record
