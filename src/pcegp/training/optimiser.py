"""Training: Nadam on the penalised likelihood, restarts, checkpoints and stopping.

The loss is the negative log likelihood plus an elastic net on the non-constant
coefficients alpha (paper, section 2.1 and appendix F) and a normal prior on all other
parameters phi (constants, logarithms of variances and noise), centred at their start:

    loss = nll + lambda (l1_ratio |alpha|_1 + (1 - l1_ratio) |alpha|^2) + prior/2 |phi - phi_0|^2

with lambda = penalty times the root of their number (`Structure.penalty_weights`). Both
stand beside the likelihood of all data, so they matter less the more data there are. The
smooth parts are in the gradient; the L1 part is a proximal step, so that a zero is
exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import NotPositiveDefiniteError, TrainingError
from pcegp.kernels.process import LOG_2PI, Evaluation, Likelihood
from pcegp.preprocessing.scaling import TargetScaler

FloatArray = NDArray[np.float64]
Progress = Callable[..., None]  # takes the steps made, and the loss by its name

_REDUCTION = 0.3  # of the learning rate after a bad step
_MOST_REDUCTIONS = 50
_PATIENCE_WITH_SPIKES = 20
_SPIKE = 0.1  # of what training had gained, lost in a step


@dataclass(frozen=True)
class Options:
    """How to train; names and meanings are those of `PCEGPRegressor`."""

    learning_rate: float = 0.03
    max_iter: int = 400
    penalty: float = 0.0
    l1_ratio: float = 0.0
    prior: float = 0.0
    averaging: int = 1
    noise_delay: int = 0
    patience: int | None = None
    checkpoints: tuple[int, ...] = ()


class Nadam:
    """Adam with Nesterov momentum, step for step `torch.optim.NAdam` (appendix F).

    kappa_t = beta1 (1 - 0.96^(t psi) / 2) is the paper's smoothing of the first moment,
    beta2 its nu and epsilon its zeta.
    """

    beta1, beta2, epsilon, psi = 0.9, 0.999, 1e-8, 0.004

    def __init__(self, size: int) -> None:
        self.first = np.zeros(size)
        self.second = np.zeros(size)
        self.product = 1.0
        self.steps = 0

    def _kappa(self, step: int) -> float:
        return float(self.beta1 * (1.0 - 0.5 * 0.96 ** (step * self.psi)))

    def step(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Direction to subtract, and the step size of each coordinate, at learning rate 1."""
        self.steps += 1
        now, then = self._kappa(self.steps), self._kappa(self.steps + 1)
        self.product *= now
        self.first += (1.0 - self.beta1) * (gradient - self.first)
        self.second += (1.0 - self.beta2) * (gradient**2 - self.second)
        rates = 1.0 / (np.sqrt(self.second / (1.0 - self.beta2**self.steps)) + self.epsilon)
        momentum = (1.0 - now) / (1.0 - self.product) * gradient
        momentum += then / (1.0 - self.product * then) * self.first
        return momentum * rates, rates


@dataclass
class History:
    """One entry per evaluated parameter vector; entry t is the model after t steps."""

    loss: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    loo_rmse: list[float] = field(default_factory=list)
    loo_nll: list[float] = field(default_factory=list)
    jitter: list[float] = field(default_factory=list)

    def append(self, evaluation: Evaluation, loss: float, weights: FloatArray) -> None:
        residual, variance = evaluation.loo_residual, evaluation.loo_variance
        share = weights / weights.sum()
        self.loss.append(loss)
        self.nll.append(evaluation.nll)
        self.loo_rmse.append(float(np.sqrt(share @ residual**2)))
        self.loo_nll.append(
            float(0.5 * (share @ (residual**2 / variance + np.log(variance)) + LOG_2PI))
        )
        self.jitter.append(evaluation.jitter)

    def forget_last(self) -> None:
        """Drop the last entry."""
        for values in (self.loss, self.nll, self.loo_rmse, self.loo_nll, self.jitter):
            values.pop()

    def in_units(self, target: TargetScaler) -> dict[str, FloatArray]:
        """Arrays by name, with the leave-one-out scores in the target's units."""
        return {
            "loss": np.array(self.loss),
            "nll": np.array(self.nll),
            "loo_rmse": target.deviation(np.array(self.loo_rmse)),
            "loo_nll": np.array(self.loo_nll) + target.log_width,
        }


@dataclass(frozen=True)
class State:
    """What a training run has reached."""

    result: FloatArray  # the parameters to use
    best_loss: float | None  # of single steps; None if it is that of other rows
    best_theta: FloatArray


@dataclass(frozen=True)
class WarmUp:
    """A run on some of the rows, without them."""

    theta: FloatArray
    history: History
    checkpoints: dict[int, State]
    rate: float  # of learning
    n_averaged: int  # steps
    n_reductions: int
    fell_back: bool  # to its best step, because a spike had lost what was gained
    interrupted: bool


@dataclass
class Run:
    """One training run, which can be carried on."""

    likelihood: Likelihood
    options: Options
    theta: FloatArray
    anchor: FloatArray  # where the prior is centred
    history: History = field(default_factory=History)
    checkpoints: dict[int, State] = field(default_factory=dict)
    n_reductions: int = 0  # times the learning rate was lowered after a bad step
    interrupted: bool = False

    def __post_init__(self) -> None:
        structure = self.likelihood.structure
        self._lambda = self.options.penalty * structure.penalty_weights()
        self._precision = self.options.prior * structure.prior_weights()
        self._waiting = structure.is_varying_noise()
        self._rate = self.options.learning_rate
        self.start = self.theta.copy()
        self._first_loss = np.inf  # until there is one
        self.best_loss = np.inf
        self.best_theta = self.theta.copy()
        self._best_loo, self._best_loo_at = np.inf, self.iterations
        self._best_loo_average = self.theta.copy()
        self._restart_from(self.theta)

    def _restart_from(self, theta: FloatArray) -> None:
        """Forget momentum and average; go on from theta."""
        self.theta = theta.copy()
        self._nadam = Nadam(theta.size)
        self._average, self._averaged = theta.copy(), 0
        self._lost_steps = 0

    @property
    def iterations(self) -> int:
        """Steps made so far."""
        return max(len(self.history.loss) - 1, 0)

    @property
    def result(self) -> FloatArray:
        """The parameters to use: averaged over the last steps, or up to the best ones."""
        return self._average if self.options.patience is None else self._best_loo_average

    @property
    def state(self) -> State:
        """Where it stands."""
        return State(self.result.copy(), self.best_loss, self.best_theta.copy())

    def ended(self) -> WarmUp:
        """What this run has reached, to be carried on with other rows."""
        theta, fell_back = self.result.copy(), False
        checkpoints = self.checkpoints
        try:
            theta, fell_back = self._kept(self.state)
            checkpoints = {step: State(self._kept(state)[0], None, state.best_theta)
                           for step, state in checkpoints.items()}
        except KeyboardInterrupt:
            self.interrupted = True
        return WarmUp(theta, self.history, checkpoints, self._rate, self._averaged,
                      self.n_reductions, fell_back, self.interrupted)

    @classmethod
    def after(
        cls, warm: WarmUp, likelihood: Likelihood, options: Options, anchor: FloatArray
    ) -> Run:
        """A run that goes on from another one; its last step is evaluated with these rows.

        Momentum begins anew. Steps are as small as they were, so the average goes on over as
        many of them.
        """
        warm.history.forget_last()
        run = cls(likelihood, options, warm.theta, anchor, warm.history, warm.checkpoints,
                  warm.n_reductions)
        run._rate, run._averaged = warm.rate, warm.n_averaged
        return run

    def _kept(self, state: State) -> tuple[FloatArray, bool]:
        """The parameters of a state, or its best ones if a spike had lost what was gained."""
        if self.options.patience is not None:
            return state.result, False
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                loss = self.loss(self.likelihood(state.result).nll, state.result)
            lost = self.is_lost(loss, best_loss=state.best_loss)
        except NotPositiveDefiniteError:
            lost = True
        return (state.best_theta, True) if lost else (state.result, False)

    def loss(self, nll: float, theta: FloatArray) -> float:
        """Penalised negative log likelihood."""
        ratio = self.options.l1_ratio
        penalty = self._lambda @ (ratio * np.abs(theta) + (1.0 - ratio) * theta**2)
        prior = 0.5 * self._precision @ (theta - self.anchor) ** 2
        return float(nll + penalty + prior)

    def gradient(self, evaluation: Evaluation, theta: FloatArray) -> FloatArray:
        """Of the loss; zero at the kink of the L1 part."""
        ratio = self.options.l1_ratio
        smooth = self._smooth_gradient(evaluation, theta)
        return np.asarray(smooth + ratio * self._lambda * np.sign(theta))

    def _smooth_gradient(self, evaluation: Evaluation, theta: FloatArray) -> FloatArray:
        gradient = evaluation.gradient + self._precision * (theta - self.anchor)
        gradient += 2.0 * (1.0 - self.options.l1_ratio) * self._lambda * theta
        return gradient

    def prior_deviations(self) -> FloatArray:
        """Standard deviation of each parameter before data; 1 where there is no prior."""
        precision = 2.0 * self._lambda + self._precision
        return np.asarray(1.0 / np.sqrt(np.where(precision > 0.0, precision, 1.0)))

    def is_lost(self, loss: float, share: float = 0.5, best_loss: float | None = None) -> bool:
        """Whether at this loss more than a share of what training had gained is gone again."""
        best = self.best_loss if best_loss is None else best_loss
        if not np.isfinite(best):
            return False  # nothing was gained yet
        slack = max(10.0, 0.1 * len(self.likelihood.y))  # ordinary steps go up and down
        return not loss <= best + share * (self._first_loss - best) + slack

    def advance(self, iterations: int, progress: Progress | None = None) -> None:
        """Make steps until `iterations` in all, or an earlier stop."""
        try:
            while len(self.history.loss) <= iterations and not self._out_of_patience():
                self._iterate()
                if self.n_reductions > _MOST_REDUCTIONS:
                    break  # even the smallest steps fail: stay at the best state
                if progress is not None:
                    progress(self.iterations, loss=self.history.loss[-1])
        except KeyboardInterrupt:
            self.interrupted = True

    def _out_of_patience(self) -> bool:
        patience = self.options.patience
        if patience is None:
            return False
        # The clock starts when every parameter is free to move.
        begin = self.options.noise_delay if self._waiting.any() else 0
        return self.iterations - max(self._best_loo_at, begin) >= patience

    def _iterate(self) -> None:
        """Evaluate theta, note what it is worth, and take one step from it."""
        evaluation = self._evaluate()
        if evaluation is None:
            return
        loss = self.loss(evaluation.nll, self.theta)
        self.history.append(evaluation, loss, self.likelihood.weights)
        if not np.isfinite(self._first_loss):
            self._first_loss = loss
        self._update_average(loss)
        if loss < self.best_loss:
            self.best_loss, self.best_theta = loss, self.theta.copy()
        if self.history.loo_nll[-1] < self._best_loo:
            self._best_loo, self._best_loo_at = self.history.loo_nll[-1], self.iterations
            self._best_loo_average = self._average.copy()
        if self.iterations in self.options.checkpoints:
            self.checkpoints[self.iterations] = self.state
        self._step(evaluation)

    def _update_average(self, loss: float) -> None:
        # Early steps go far: the window is an eighth of the way until it has its full size.
        window = min(self.options.averaging, 1 + self._averaged // 8)
        if 1 < window == self.options.averaging and self.is_lost(loss, _SPIKE):
            return  # a spike must not get into the average
        share = 1.0 / window
        self._averaged += 1
        self._average += share * (self.theta - self._average)
        self._average[self.theta == 0.0] = 0.0  # what the L1 part switched off stays off

    def _evaluate(self) -> Evaluation | None:
        """The likelihood at theta; a bad one steps back, lowers the rate and gives None."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                evaluation = self.likelihood(self.theta)
                loss = self.loss(evaluation.nll, self.theta)
            if np.isfinite(loss) and np.isfinite(evaluation.gradient).all():
                # A spike of some steps mends itself; only a lasting loss is divergence.
                lost = self.is_lost(loss)
                self._lost_steps = self._lost_steps + 1 if lost else 0
                if self._lost_steps < _PATIENCE_WITH_SPIKES:
                    return evaluation
        except NotPositiveDefiniteError:
            pass
        self.n_reductions += 1
        if not np.isfinite(self.best_loss):
            where = "with all rows" if self.history.loss else "at the start"
            raise TrainingError(
                f"the likelihood is not finite {where}: raise noise_floor, or try another "
                f"{'warm_up_rows' if self.history.loss else 'initial_scale'}"
            )
        self._rate *= _REDUCTION
        self._restart_from(self.best_theta)
        return None

    def _step(self, evaluation: Evaluation) -> None:
        ratio = self.options.l1_ratio
        direction, rates = self._nadam.step(self._smooth_gradient(evaluation, self.theta))
        if self.iterations < self.options.noise_delay:
            direction[self._waiting] = 0.0
        theta = self.theta - self._rate * direction
        if ratio > 0.0:
            threshold = self._rate * ratio * self._lambda * rates
            theta = np.sign(theta) * np.maximum(np.abs(theta) - threshold, 0.0)
        self.theta = self.likelihood.structure.bounded(theta)
