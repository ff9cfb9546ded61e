"""GP, GP-ARD and the deep GP of the paper, trained by Adam in GPyTorch, in float64."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pcegp.benchmarks.baselines.gpytorch_models import ExactGP, TwoLayerGP
from pcegp.benchmarks.baselines.scaled import ScaledRegressor

FloatArray = NDArray[np.float64]


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """One thread, and a generator of its own; what the caller has is as before afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def adam(model: ExactGP | TwoLayerGP, learning_rate: float, max_iter: int) -> None:
    """Train a model in place."""
    parameters = {id(p): p for part in (model.model, model.likelihood) for p in part.parameters()}
    optimiser = torch.optim.Adam(list(parameters.values()), lr=learning_rate)
    for _ in range(max_iter):
        model.loss()
        optimiser.step()


class _TorchRegressor(ScaledRegressor):
    learning_rate: float
    max_iter: int
    random_state: int

    @abstractmethod
    def _build(self, X: torch.Tensor, y: torch.Tensor) -> ExactGP | TwoLayerGP:
        """The model to train."""

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        with _alone(self.random_state):
            self._model = self._build(torch.from_numpy(X), torch.from_numpy(y))
            adam(self._model, self.learning_rate, self.max_iter)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        with _alone(self.random_state):
            mean, variance = self._model.predict(torch.from_numpy(X))
        return mean.numpy(), variance.numpy()


class GPyTorchGP(_TorchRegressor):
    """Squared-exponential GP: the paper's GP, and with `ard` its GP ARD.

    Parameters
    ----------
    ard : one length scale per input, instead of one in all
    learning_rate, max_iter : of Adam; the paper's are the defaults
    random_state : nothing here is random; for the interface
    """

    def __init__(
        self, *, ard: bool = False, learning_rate: float = 0.1, max_iter: int = 100,
        random_state: int = 0,
    ) -> None:
        self.ard = ard
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.random_state = random_state

    def _build(self, X: torch.Tensor, y: torch.Tensor) -> ExactGP:
        return ExactGP(X, y, self.ard)


class GPyTorchDeepGP(_TorchRegressor):
    """Two-layer GP, its hidden layer as wide as the inputs: the paper's DGP.

    Predictions are the mean and variance of a mixture of samples.

    Parameters
    ----------
    n_inducing : inducing points per layer, started from training rows
    n_samples : of the hidden layer when predicting
    learning_rate, max_iter : of Adam, on all rows at each step; the paper's are the defaults
    random_state : seed of inducing points and samples
    """

    def __init__(
        self, *, n_inducing: int = 50, n_samples: int = 100, learning_rate: float = 0.001,
        max_iter: int = 5000, random_state: int = 0,
    ) -> None:
        self.n_inducing = n_inducing
        self.n_samples = n_samples
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.random_state = random_state

    def _build(self, X: torch.Tensor, y: torch.Tensor) -> TwoLayerGP:
        return TwoLayerGP(X, y, self.n_inducing)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        import gpytorch

        samples: Any = gpytorch.settings.num_likelihood_samples(self.n_samples)
        with samples:
            return super()._posterior(X)
