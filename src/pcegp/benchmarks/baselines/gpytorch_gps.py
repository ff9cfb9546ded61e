"""GP, GP-ARD and the deep GP of the paper, trained by Adam in GPyTorch.

First the models with their loss, an exact GP and a deep one of two layers, in the floating
type of their tensors; then the estimators, in float64. Importing this needs GPyTorch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

from pcegp._typing import FloatArray
from pcegp.benchmarks.baselines.scaled import ScaledRegressor

# GPyTorch turns to iterative solvers above this size; the paper raises it too.
_MAX_CHOLESKY = 20_000


class _Trainable(ABC):
    """Base of the models, which know their data, their loss and their moments."""

    inputs: torch.Tensor
    targets: torch.Tensor
    likelihood: Any

    @abstractmethod
    def objective(self) -> Any:
        """Make what is maximised, a marginal log likelihood or a bound of it."""

    def loss(self: Any) -> torch.Tensor:
        """Compute minus the objective per point, and its gradient in the parameters."""
        self.train()
        self.zero_grad()
        with gpytorch.settings.max_cholesky_size(_MAX_CHOLESKY):
            loss = -self.objective()(self(self.inputs), self.targets)
            loss.backward()
        return loss

    def moments(self: Any, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Predict mean and variance (with noise) at X (m, d), of each sample if there are any."""
        self.eval()
        with torch.no_grad(), gpytorch.settings.max_cholesky_size(_MAX_CHOLESKY):
            out = self.likelihood(self(X))
            return out.mean, out.variance


class ExactGP(_Trainable, gpytorch.models.ExactGP):
    """Squared-exponential GP with a constant mean.

    Parameters
    ----------
    X, y : (n, d) and (n,) tensors of one floating type
    ard : one length scale per input, instead of one in all
    """

    def __init__(self, X: torch.Tensor, y: torch.Tensor, ard: bool = False) -> None:
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        self.inputs, self.targets = X, y
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = ScaleKernel(RBFKernel(ard_num_dims=X.shape[1] if ard else None))
        self.to(X.dtype)

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def objective(self) -> Any:
        return gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)

    def predict(self, X: torch.Tensor, cached: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Predict mean and variance (with noise) at X (m, d).

        `cached` switches GPyTorch's `fast_pred_var` on: what the variance needs is then
        computed in the first call and cached.
        """
        with gpytorch.settings.fast_pred_var(cached):
            return self.moments(X)


def _identity(d: int) -> gpytorch.means.LinearMean:
    """Make a linear mean for each of d outputs, which begins as one of the inputs.

    From random weights the hidden values of many inputs lie far from the inducing points of
    the next layer, all covariances with these vanish, and so do the gradients.
    """
    mean = gpytorch.means.LinearMean(d, batch_shape=torch.Size([d]))
    mean.initialize(weights=torch.eye(d).unsqueeze(-1), bias=torch.zeros(d, 1))
    return mean


class _Layer(DeepGPLayer):
    def __init__(self, inducing: torch.Tensor, n_outputs: int | None) -> None:
        batch = torch.Size([]) if n_outputs is None else torch.Size([n_outputs])
        d = inducing.shape[-1]
        points = inducing if n_outputs is None else inducing.repeat(n_outputs, 1, 1)
        strategy = VariationalStrategy(
            self, points.clone(),
            CholeskyVariationalDistribution(inducing.shape[-2], batch_shape=batch),
            learn_inducing_locations=True,
        )
        super().__init__(strategy, d, n_outputs)
        self.mean_module = gpytorch.means.ConstantMean() if n_outputs is None else _identity(d)
        self.covar_module = ScaleKernel(
            RBFKernel(batch_shape=batch, ard_num_dims=d), batch_shape=batch
        )

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class TwoLayerGP(_Trainable, DeepGP):
    """Deep GP: a hidden layer as wide as the inputs, and an output layer.

    Parameters
    ----------
    X, y : (n, d) and (n,) tensors of one floating type
    n_inducing : inducing points per layer, started from rows of X
    """

    def __init__(self, X: torch.Tensor, y: torch.Tensor, n_inducing: int = 50) -> None:
        super().__init__()
        self.inputs, self.targets = X, y
        inducing = X[torch.randperm(len(X))[:n_inducing]]
        self.hidden = _Layer(inducing, inducing.shape[-1])
        self.last = _Layer(inducing, None)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.to(X.dtype)

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return self.last(self.hidden(x))

    def objective(self) -> Any:
        elbo = gpytorch.mlls.VariationalELBO(self.likelihood, self, num_data=len(self.inputs))
        return gpytorch.mlls.DeepApproximateMLL(elbo)

    def predict(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Predict mean and variance (with noise) of the mixture of samples at X (m, d)."""
        mean, variance = self.moments(X)
        return mean.mean(0), variance.mean(0) + mean.var(0, correction=0)


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Take one thread and a generator of its own; afterwards all is as before for the caller."""
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
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(max_iter):
        model.loss()
        optimiser.step()


class _TorchRegressor(ScaledRegressor):
    learning_rate: float
    max_iter: int
    random_state: int

    @abstractmethod
    def _build(self, X: torch.Tensor, y: torch.Tensor) -> ExactGP | TwoLayerGP:
        """Make the model to train."""

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        with _alone(self.random_state):
            self._model = self._build(torch.from_numpy(X), torch.from_numpy(y))
            adam(self._model, self.learning_rate, self.max_iter)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        with _alone(self.random_state):
            mean, variance = self._model.predict(torch.from_numpy(X))
        return mean.numpy(), variance.numpy()


@dataclass(kw_only=True, eq=False, repr=False)
class GPyTorchGP(_TorchRegressor):
    """Squared-exponential GP: the paper's GP, and with `ard` its GP ARD.

    Parameters
    ----------
    ard : one length scale per input, instead of one in all
    learning_rate, max_iter : of Adam; the paper's are the defaults
    random_state : nothing here is random; for the interface
    """

    ard: bool = False
    learning_rate: float = 0.1
    max_iter: int = 100
    random_state: int = 0

    def _build(self, X: torch.Tensor, y: torch.Tensor) -> ExactGP:
        return ExactGP(X, y, self.ard)


@dataclass(kw_only=True, eq=False, repr=False)
class GPyTorchDeepGP(_TorchRegressor):
    """Two-layer GP, its hidden layer as wide as the inputs: the paper's DGP.

    It predicts the mean and variance of a mixture of samples.

    Parameters
    ----------
    n_inducing : inducing points per layer, started from training rows
    n_samples : of the hidden layer when predicting
    learning_rate, max_iter : of Adam, on all rows at each step; the paper's are the defaults
    random_state : seed of inducing points and samples
    """

    n_inducing: int = 50
    n_samples: int = 100
    learning_rate: float = 0.001
    max_iter: int = 5000
    random_state: int = 0

    def _build(self, X: torch.Tensor, y: torch.Tensor) -> TwoLayerGP:
        return TwoLayerGP(X, y, self.n_inducing)

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        with gpytorch.settings.num_likelihood_samples(self.n_samples):
            return super()._posterior(X)
