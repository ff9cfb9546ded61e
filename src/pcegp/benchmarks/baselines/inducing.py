"""GPyTorch's variational process with inducing points. Importing this needs GPyTorch."""

from typing import Any

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

from pcegp._typing import FloatArray

_BATCH = 1024


class Inducing(ApproximateGP):
    """A process that knows its data by the values at some points.

    Parameters
    ----------
    points : (m, d) tensor, where these begin
    """

    def __init__(self, points: torch.Tensor) -> None:
        distribution = CholeskyVariationalDistribution(len(points))
        super().__init__(VariationalStrategy(self, points, distribution,
                                             learn_inducing_locations=True))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=points.shape[1]))
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x: torch.Tensor) -> Any:
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predict mean and variance, with noise, (m,) each."""
        self.eval()
        with torch.no_grad():
            out = self.likelihood(self(torch.as_tensor(X, dtype=torch.float32)))
            return out.mean.double().numpy(), out.variance.double().numpy()


def trained(
    X: FloatArray, y: FloatArray, n_inducing: int, n_steps: int, rate: float, seed: int
) -> Inducing:
    """Train on rows X (n, d) and y (n,), by Adam on random rows."""
    generator = torch.Generator().manual_seed(seed)
    inputs, targets = (torch.as_tensor(part, dtype=torch.float32) for part in (X, y))
    first = torch.randperm(len(X), generator=generator)[:n_inducing]
    model = Inducing(inputs[first].clone())
    model.train()
    objective = gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=len(X))
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(n_steps):
        rows = torch.randint(len(X), (_BATCH,), generator=generator)
        adam.zero_grad()
        loss = -objective(model(inputs[rows]), targets[rows])
        loss.backward()
        adam.step()
    return model
