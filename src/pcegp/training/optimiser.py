"""Nadam on the objective, and watchers of its steps.

`Descent` makes steps. After each, its watchers look at it: the history, the average of the
last steps, the best step so far, patience, checkpoints and progress. A step that fails, or a
divergence that lasts, goes back to the best step with a lower rate.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import NotPositiveDefiniteError, TrainingError
from pcegp.inference import Conditioned, Evaluation, Inference
from pcegp.training.objective import Objective, Prior, Value

Progress = Callable[..., None]  # takes the steps made, and the loss by its name

_LOG_2PI = float(np.log(2.0 * np.pi))
_REDUCTION = 0.3  # of the learning rate after a bad step
_MOST_REDUCTIONS = 50
_TRANSIENT_STEPS = 20  # a rise of the loss that ends after fewer steps is no divergence
_TRANSIENT = 0.1  # a transient rise gives back this share of what training had gained


@dataclass(frozen=True)
class Options:
    """Options of training; names and meanings are those of `PCEGPRegressor`."""

    inference: Inference
    optimizer: str = "nadam"
    priors: tuple[Prior, ...] = ()  # with "lbfgs" those of the user's own
    prior: float = 1.0  # of the latent variables of "lbfgs"
    adapt_scales: bool = True  # whether the first scales follow the spread of the inputs
    learning_rate: float = 0.03
    max_iter: int = 400
    averaging: int = 1
    noise_delay: int = 0
    patience: int | None = None
    checkpoints: tuple[int, ...] = ()
    n_restarts: int = 0
    n_draws: int = 0
    warm_up_rows: int | None = None
    n_jobs: int | None = None


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
        """Compute the direction to subtract and the step size of each coordinate, at rate 1."""
        self.steps += 1
        now, then = self._kappa(self.steps), self._kappa(self.steps + 1)
        self.product *= now
        self.first += (1.0 - self.beta1) * (gradient - self.first)
        self.second += (1.0 - self.beta2) * (gradient**2 - self.second)
        rates = 1.0 / (np.sqrt(self.second / (1.0 - self.beta2**self.steps)) + self.epsilon)
        momentum = (1.0 - now) / (1.0 - self.product) * gradient
        momentum += then / (1.0 - self.product * then) * self.first
        return momentum * rates, rates


class State(NamedTuple):
    """The parameters that a descent has reached."""

    result: FloatArray  # the parameters to use
    best_loss: float | None  # of single steps; None if it is that of other rows
    best_theta: FloatArray


@dataclass
class History:
    """Watcher of all values; entry t is the model after t steps."""

    loss: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    loo_rmse: list[float] = field(default_factory=list)
    loo_nll: list[float] = field(default_factory=list)
    jitter: list[float] = field(default_factory=list)

    def append(self, evaluation: Evaluation, loss: float, weights: FloatArray) -> None:
        """Add the values of one step; an engine may have no leave-one-out results."""
        self.loss.append(loss)
        self.nll.append(evaluation.nll)
        self.jitter.append(evaluation.jitter)
        residual, variance = evaluation.loo_residual, evaluation.loo_variance
        if residual is None or variance is None:
            self.loo_rmse.append(np.nan)
            self.loo_nll.append(np.nan)
            return
        share = weights / weights.sum()
        self.loo_rmse.append(float(np.sqrt(share @ residual**2)))
        self.loo_nll.append(
            float(0.5 * (share @ (residual**2 / variance + np.log(variance)) + _LOG_2PI))
        )

    def forget_last(self) -> None:
        """Drop the last entry."""
        for values in (self.loss, self.nll, self.loo_rmse, self.loo_nll, self.jitter):
            values.pop()


@dataclass
class Best:
    """Watcher of the best single step, which knows when training has diverged from it."""

    theta: FloatArray
    slack: float  # ordinary steps go up and down by this much
    first_loss: float = np.inf
    loss: float = np.inf

    def see(self, loss: float, theta: FloatArray) -> None:
        """Note a step if it is the best."""
        if loss < self.loss:
            self.loss, self.theta = loss, theta.copy()

    def has_diverged(self, loss: float, share: float = 0.5, best: float | None = None) -> bool:
        """Tell whether this loss gives back more than a share of what was gained."""
        best = self.loss if best is None else best
        if not np.isfinite(best):
            return False  # nothing was gained yet
        return not loss <= best + share * (self.first_loss - best) + self.slack


@dataclass
class Average:
    """Watcher that averages the last steps, exponentially over a window."""

    window: int
    value: FloatArray
    count: int = 0

    def see(self, theta: FloatArray, loss: float, best: Best) -> None:
        """Take a step into the average, unless its loss is a transient rise."""
        # Early steps go far: the window is an eighth of the way until it has its full size.
        window = min(self.window, 1 + self.count // 8)
        if 1 < window == self.window and best.has_diverged(loss, _TRANSIENT):
            return
        self.count += 1
        self.value += (theta - self.value) * (1.0 / window)
        self.value[theta == 0.0] = 0.0  # what the L1 part switched off stays off

    def restart(self, theta: FloatArray) -> None:
        """Begin anew at theta."""
        self.value, self.count = theta.copy(), 0


@dataclass
class Patience:
    """Watcher of the best leave-one-out likelihood."""

    limit: int | None
    begin: int  # the clock starts when every parameter is free to move
    value: FloatArray  # the average around the best step
    at: int
    loo_nll: float = np.inf

    def see(self, loo_nll: float, step: int, average: FloatArray) -> None:
        """Note a step if it is the best."""
        if loo_nll < self.loo_nll:
            self.loo_nll, self.at, self.value = loo_nll, step, average.copy()

    def is_exhausted(self, step: int) -> bool:
        """Tell whether there was no better step for too long."""
        return self.limit is not None and step - max(self.at, self.begin) >= self.limit


class Reached(NamedTuple):
    """The end of a descent on some rows, from which another one on other rows goes on."""

    theta: FloatArray
    history: History
    checkpoints: dict[int, State]
    rate: float
    n_averaged: int  # steps
    n_reductions: int
    fell_back: bool  # to its best step, because it had diverged


class Descent:
    """One run of Nadam on an objective, which can be carried on."""

    def __init__(
        self, objective: Objective, options: Options, start: FloatArray,
        reached: Reached | None = None,
    ) -> None:
        process = objective.likelihood.process
        self.objective, self.options = objective, options
        self.start = start.copy() if reached is None else reached.theta.copy()
        self.theta = self.start.copy()
        self.history = History()
        self.checkpoints: dict[int, State] = {}
        self.n_reductions = 0
        self._rate = options.learning_rate
        self._delayed = process.is_varying_noise()
        self.average = Average(options.averaging, self.theta.copy())
        self.best = Best(self.theta.copy(), max(10.0, 0.1 * objective.n_rows))
        if reached is not None:
            # Its last step is evaluated with these rows. Momentum begins anew. Steps are as
            # small as they were, so the average goes on over as many of them.
            reached.history.forget_last()
            self.history, self.checkpoints = reached.history, reached.checkpoints
            self._rate, self.average.count = reached.rate, reached.n_averaged
            self.n_reductions = reached.n_reductions
        begin = options.noise_delay if self._delayed.any() else 0
        self.patience = Patience(options.patience, begin, self.theta.copy(), self.iterations)
        self._nadam, self._bad_steps = Nadam(self.theta.size), 0

    @property
    def iterations(self) -> int:
        """The number of steps made so far."""
        return max(len(self.history.loss) - 1, 0)

    @property
    def state(self) -> State:
        """The state now: the average of the last steps, or of those around the best."""
        value = self.average.value if self.options.patience is None else self.patience.value
        return State(value.copy(), self.best.loss, self.best.theta.copy())

    def posterior(self, state: State) -> tuple[Conditioned, bool]:
        """Condition at a state, or at its best step if the state had diverged.

        Returns
        -------
        The posterior, and whether it is that of the best step.
        """
        likelihood = self.objective.likelihood
        try:
            found = likelihood.posterior(state.result)
        except NotPositiveDefiniteError:
            return likelihood.posterior(state.best_theta), True
        if self.options.patience is not None or state.best_loss is None:
            return found, False
        loss = self.objective.loss(found.nll, state.result)
        if not self.best.has_diverged(loss, best=state.best_loss):
            return found, False
        return likelihood.posterior(state.best_theta), True

    def reached(self, checked: bool = True) -> Reached:
        """Sum up what other rows need to go on.

        Checked, states that had diverged are replaced by their best steps.
        """
        theta, checkpoints, fell_back = self.state.result, self.checkpoints, False
        if checked:
            posterior, fell_back = self.posterior(self.state)
            theta = posterior.theta
            checkpoints = {
                step: State(self.posterior(state)[0].theta, None, state.best_theta)
                for step, state in checkpoints.items()
            }
        return Reached(theta, self.history, checkpoints, self._rate, self.average.count,
                       self.n_reductions, fell_back)

    def advance(self, iterations: int, progress: Progress | None = None) -> None:
        """Make steps until `iterations` in all, or an earlier stop."""
        while (len(self.history.loss) <= iterations
               and not self.patience.is_exhausted(self.iterations)):
            value = self.objective(self.theta)
            if self._is_bad(value):
                self._back_off()
                if self.n_reductions > _MOST_REDUCTIONS:
                    return  # even the smallest steps fail: stay at the best state
                continue
            self._see(value, progress)
            self._step(value)

    def _is_bad(self, value: Value) -> bool:
        """Tell whether a step failed, or a rise of the loss has lasted too long to be transient."""
        if value.evaluation is None:
            return True
        self._bad_steps = self._bad_steps + 1 if self.best.has_diverged(value.loss) else 0
        return self._bad_steps >= _TRANSIENT_STEPS

    def _back_off(self) -> None:
        """Go back to the best step with a lower rate."""
        self.n_reductions += 1
        if not np.isfinite(self.best.loss):
            where = "with all rows" if self.history.loss else "at the start"
            raise TrainingError(
                f"the likelihood is not finite {where}: raise noise_floor, or try another "
                f"{'warm_up_rows' if self.history.loss else 'initial_scale'}"
            )
        self._rate *= _REDUCTION
        self.theta = self.best.theta.copy()
        self.average.restart(self.theta)
        self._nadam, self._bad_steps = Nadam(self.theta.size), 0

    def _see(self, value: Value, progress: Progress | None) -> None:
        """Show a step to all watchers."""
        if value.evaluation is None:
            return
        self.history.append(value.evaluation, value.loss, self.objective.likelihood.data.weights)
        if not np.isfinite(self.best.first_loss):
            self.best.first_loss = value.loss
        self.average.see(self.theta, value.loss, self.best)
        self.best.see(value.loss, self.theta)
        self.patience.see(self.history.loo_nll[-1], self.iterations, self.average.value)
        if self.iterations in self.options.checkpoints:
            self.checkpoints[self.iterations] = self.state
        if progress is not None:
            progress(self.iterations, loss=value.loss)

    def _step(self, value: Value) -> None:
        direction, rates = self._nadam.step(value.gradient)
        if self.iterations < self.options.noise_delay:
            direction[self._delayed] = 0.0
        theta = self.theta - self._rate * direction
        if self.objective.has_kink:
            theta = self.objective.prox(theta, self._rate * rates)
        self.theta = np.clip(theta, *self.objective.bounds)
