"""The compared Gaussian processes of GPyTorch: exact, and deep with two layers."""

from __future__ import annotations

from typing import Any

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

# GPyTorch turns to iterative solvers above this size; the paper raises it too.
_MAX_CHOLESKY = 20_000


class _Exact(gpytorch.models.ExactGP):
    def __init__(self, X: torch.Tensor, y: torch.Tensor, likelihood: Any, ard: bool) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = ScaleKernel(RBFKernel(ard_num_dims=X.shape[1] if ard else None))

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class ExactGP:
    """Squared-exponential GP with a constant mean.

    Parameters
    ----------
    X, y : (n, d) and (n,) tensors of one floating type
    ard : one length scale per input, instead of one in all
    """

    def __init__(self, X: torch.Tensor, y: torch.Tensor, ard: bool = False) -> None:
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().to(X.dtype)
        self.model = _Exact(X, y, self.likelihood, ard).to(X.dtype)
        self._inputs, self._targets = X, y
        self._mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)

    def loss(self) -> torch.Tensor:
        """Negative log marginal likelihood per point, with its gradient in the parameters."""
        self.model.train()
        self.model.zero_grad()
        with gpytorch.settings.max_cholesky_size(_MAX_CHOLESKY):
            loss = -self._mll(self.model(self._inputs), self._targets)
            loss.backward()
        return loss

    def predict(self, X: torch.Tensor, cached: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and variance (with noise) at X (m, d).

        `cached` switches GPyTorch's `fast_pred_var` on: what the variance needs is then
        computed in the first call and kept.
        """
        self.model.eval()
        self.likelihood.eval()
        with (
            torch.no_grad(),
            gpytorch.settings.max_cholesky_size(_MAX_CHOLESKY),
            gpytorch.settings.fast_pred_var(cached),
        ):
            out = self.likelihood(self.model(X))
            return out.mean, out.variance


def _identity(d: int) -> gpytorch.means.LinearMean:
    """A linear mean for each of d outputs, which begins as one of the inputs.

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


class _Deep(DeepGP):
    def __init__(self, inducing: torch.Tensor) -> None:
        super().__init__()
        self.hidden = _Layer(inducing, inducing.shape[-1])
        self.last = _Layer(inducing, None)

    def forward(self, x: torch.Tensor) -> MultivariateNormal:
        return self.last(self.hidden(x))


class TwoLayerGP:
    """Deep GP: a hidden layer as wide as the inputs, and an output layer.

    Parameters
    ----------
    X, y : (n, d) and (n,) tensors of one floating type
    n_inducing : inducing points per layer, started from rows of X
    """

    def __init__(self, X: torch.Tensor, y: torch.Tensor, n_inducing: int = 50) -> None:
        rows = torch.randperm(len(X))[:n_inducing]
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().to(X.dtype)
        self.model = _Deep(X[rows]).to(X.dtype)
        self._inputs, self._targets = X, y
        elbo = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(X))
        self._mll = gpytorch.mlls.DeepApproximateMLL(elbo)

    def loss(self) -> torch.Tensor:
        """Negative evidence bound per point, with its gradient in the parameters."""
        self.model.train()
        self.likelihood.train()
        self.model.zero_grad()
        self.likelihood.zero_grad()
        loss = -self._mll(self.model(self._inputs), self._targets)
        loss.backward()
        return loss

    def predict(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and variance (with noise) of the mixture of samples at X (m, d)."""
        self.model.eval()
        self.likelihood.eval()
        with torch.no_grad():
            out = self.likelihood(self.model(X))
            return out.mean.mean(0), out.variance.mean(0) + out.mean.var(0, correction=0)
