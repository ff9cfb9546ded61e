"""Training: Nadam on the penalised likelihood, restarts, checkpoints and stopping.

The loss is the negative log likelihood plus an elastic net on the non-constant
coefficients (paper, section 2.1 and appendix F):

    loss(theta) = nll(theta) + penalty * (l1_ratio * |alpha|_1 + (1 - l1_ratio) * |alpha|^2)

Read as a prior on alpha, one strength serves data of any size. The smooth part is in
the gradient; the L1 part is a proximal step, so that a zero is exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import TrainingError
from pcegp.linalg import NotPositiveDefiniteError
from pcegp.model import Evaluation, Likelihood

FloatArray = NDArray[np.float64]
Progress = Callable[[int, float], None]

_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Options:
    """How to train; names and meanings are those of `PCEGPRegressor`."""

    learning_rate: float = 0.03
    max_iter: int = 400
    penalty: float = 0.0
    l1_ratio: float = 0.0
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
        return self.beta1 * (1.0 - 0.5 * 0.96 ** (step * self.psi))

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
            float(0.5 * (share @ (residual**2 / variance + np.log(variance)) + _LOG_2PI))
        )
        self.jitter.append(evaluation.jitter)


@dataclass
class Run:
    """One training run, which can be carried on."""

    likelihood: Likelihood
    options: Options
    theta: FloatArray
    history: History = field(default_factory=History)
    checkpoints: dict[int, FloatArray] = field(default_factory=dict)
    n_reductions: int = 0  # times the learning rate was lowered after a bad step
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._mask = self.likelihood.structure.penalised()
        self._nadam = Nadam(self.theta.size)
        self._rate = self.options.learning_rate
        self.best_loss = np.inf
        self.best_theta = self.theta.copy()
        self._best_loo = np.inf
        self._best_loo_at = 0
        self._best_loo_theta = self.theta.copy()

    @property
    def iterations(self) -> int:
        """Steps made so far."""
        return max(len(self.history.loss) - 1, 0)

    def loss(self, evaluation: Evaluation, theta: FloatArray) -> float:
        """Penalised negative log likelihood."""
        alpha, options = theta[self._mask], self.options
        l1, l2 = options.l1_ratio * np.abs(alpha).sum(), (1.0 - options.l1_ratio) * alpha @ alpha
        return float(evaluation.nll + options.penalty * (l1 + l2))

    def advance(self, iterations: int, progress: Progress | None = None) -> None:
        """Make steps until `iterations` in all, or an earlier stop."""
        try:
            while len(self.history.loss) <= iterations and not self._out_of_patience():
                self._iterate(last=len(self.history.loss) == self.options.max_iter)
                if progress is not None:
                    progress(self.iterations, self.history.loss[-1])
        except KeyboardInterrupt:
            self.interrupted = True

    def _out_of_patience(self) -> bool:
        patience = self.options.patience
        return patience is not None and self.iterations - self._best_loo_at >= patience

    def _iterate(self, last: bool) -> None:
        evaluation, loss = self._evaluate()
        if evaluation is None:
            return
        self.history.append(evaluation, loss, self.likelihood.weights)
        step = self.iterations
        if loss < self.best_loss:
            self.best_loss, self.best_theta = loss, self.theta.copy()
        if self.history.loo_nll[-1] < self._best_loo:
            self._best_loo, self._best_loo_at = self.history.loo_nll[-1], step
            self._best_loo_theta = self.theta.copy()
        if step in self.options.checkpoints:
            self.checkpoints[step] = self.theta.copy()
        if not last:
            self._step(evaluation)

    def _evaluate(self) -> tuple[Evaluation | None, float]:
        """The likelihood at theta; a bad one steps back and lowers the rate."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                evaluation = self.likelihood(self.theta)
                loss = self.loss(evaluation, self.theta)
            if np.isfinite(loss) and np.isfinite(evaluation.gradient).all():
                return evaluation, loss
        except NotPositiveDefiniteError:
            pass
        self.n_reductions += 1
        if self.n_reductions > 20 or not np.isfinite(self.best_loss):
            raise TrainingError(
                f"the likelihood is not finite after {self.iterations} steps (best loss "
                f"{self.best_loss:.6g}): lower learning_rate or raise noise_floor"
            )
        self._rate *= 0.3
        self._nadam = Nadam(self.theta.size)
        self.theta = self.best_theta.copy()
        return None, np.inf

    def _step(self, evaluation: Evaluation) -> None:
        options, mask = self.options, self._mask
        gradient = evaluation.gradient.copy()
        gradient[mask] += 2.0 * options.penalty * (1.0 - options.l1_ratio) * self.theta[mask]
        direction, rates = self._nadam.step(gradient)
        theta = self.theta - self._rate * direction
        threshold = self._rate * options.penalty * options.l1_ratio * rates[mask]
        theta[mask] = np.sign(theta[mask]) * np.maximum(np.abs(theta[mask]) - threshold, 0.0)
        self.theta = self.likelihood.structure.bounded(theta)

    @property
    def result(self) -> FloatArray:
        """The parameters to use: the last ones, or the best where training was cut short."""
        if self.options.patience is not None:
            return self._best_loo_theta
        if self.interrupted or self.n_reductions:
            return self.best_theta
        return self.theta
