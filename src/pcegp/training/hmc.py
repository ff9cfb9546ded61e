"""Draws of the parameters around the trained ones, by Hamiltonian Monte Carlo.

Training gives one set of parameters. Others explain the data nearly as well and predict
differently, most where data are few; a model that ignores them is too sure of itself. A
short chain at the density exp(-loss), started at the result, finds some of them. Their means
differ from the mean of the model, and a multiple of the square of that is added to its variance
(`pcegp.inference.parameter_uncertainty`).

A step is measured in standard deviations of the prior. Its size is adapted all along, so
the chain is not exact; it stays near the result, which is the one that predicts.
"""

from collections.abc import Callable

import numpy as np

from pcegp._typing import FloatArray
from pcegp.training.objective import Objective

_LEAPS = 12  # gradients from one proposal to the next
# Proposals for one draw. With many rows each costs much, and brings little: from 900 to 1,400
# rows coverage and NLL are about the same with two (docs/defaults.md).
_BETWEEN, _BETWEEN_WITH_MANY_ROWS, _MANY_ROWS = 8, 2, 2000
_FIRST_STEP = 1.5  # over the root of the number of points
_WIDEN, _NARROW = 1.15, 0.6  # the step after a proposal was taken, or not


def n_gradients(count: int, n_rows: int) -> int:
    """Count the gradients for so many draws; one costs about as much as a training step."""
    return count * _between(n_rows) * _LEAPS


def _between(n_rows: int) -> int:
    return _BETWEEN if n_rows <= _MANY_ROWS else _BETWEEN_WITH_MANY_ROWS


def draw(
    objective: Objective, theta: FloatArray, count: int, rng: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> list[FloatArray]:
    """Draw parameters that explain the data about as well as theta; equal ones may follow.

    `progress` is told the number of gradients so far.
    """
    chain = _Chain(objective, theta, rng)
    drawn = []
    between = _between(objective.n_rows)
    for number in range(1, count * between + 1):
        chain.propose()
        if progress is not None:
            progress(number * _LEAPS)
        if number % between == 0:
            drawn.append(chain.theta.copy())
    return drawn


class _Chain:
    def __init__(self, objective: Objective, theta: FloatArray, rng: np.random.Generator) -> None:
        self._objective, self._rng = objective, rng
        # What the L1 part switched off stays off.
        self._scale = np.where(theta == 0.0, 0.0, objective.deviations())
        self._step = _FIRST_STEP / np.sqrt(objective.likelihood.data.weights.sum())
        self.theta = theta.copy()
        self._loss, self._gradient = self._evaluate(theta)

    def _evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        value = self._objective(theta)
        return value.loss, self._objective.full_gradient(value, theta)

    def propose(self) -> None:
        """Follow the gradient from here with a random push; take the end, or stay."""
        momentum = self._rng.standard_normal(self.theta.size)
        energy = self._loss + 0.5 * momentum @ momentum
        step = self._step * self._rng.uniform(0.8, 1.2)
        theta, loss, gradient = self.theta, self._loss, self._gradient
        for _ in range(_LEAPS):
            momentum = momentum - 0.5 * step * self._scale * gradient
            theta = np.clip(theta + step * self._scale * momentum, *self._objective.bounds)
            loss, gradient = self._evaluate(theta)
            if not np.isfinite(loss):
                break
            momentum = momentum - 0.5 * step * self._scale * gradient
        taken = np.log(self._rng.uniform()) < energy - (loss + 0.5 * momentum @ momentum)
        if taken:
            self.theta, self._loss, self._gradient = theta, loss, gradient
        self._step *= _WIDEN if taken else _NARROW
