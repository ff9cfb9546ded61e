"""One training iteration (likelihood and gradient) beside LAPACK and GPyTorch.

    make bench-iteration
    python benchmarks/iteration.py --n 1000 --json iteration.json

Five non-stationary components (d = 8, degree 2) against GPyTorch's exact GP with one
stationary squared-exponential kernel in float64, and against the LAPACK calls that no exact
GP can do without (potrf and potri). Measured in turn in one run, the best of several.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.linalg import lapack

from pcegp import PCEGPRegressor, settings
from pcegp.files import write_text
from pcegp.linalg import thread_limit
from pcegp.model import Likelihood
from pcegp.starts import initial_scales, start

D, DEGREE = 8, 2


def lapack_step(n: int) -> Callable[[], object]:
    """Factorise and invert a positive definite matrix of that size."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(n, n))
    matrix = matrix @ matrix.T + n * np.eye(n)

    def step() -> object:
        factor, _ = lapack.dpotrf(np.array(matrix, order="F"), lower=1, clean=0, overwrite_a=1)
        return lapack.dpotri(factor, lower=1, overwrite_c=1)

    return step


def pcegp_step(X: np.ndarray, y: np.ndarray, threads: int) -> Callable[[], object]:
    """Likelihood and gradient of the default model at its start."""
    resolved = settings.resolve(PCEGPRegressor(degree=DEGREE).get_params())
    likelihood = Likelihood(resolved.structure(X), X, y, threads=threads)
    theta = start(likelihood.structure, initial_scales(None, len(resolved.covariances), D))
    return lambda: likelihood(theta)


def gpytorch_step(X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """Marginal likelihood and backward pass of GPyTorch's exact GP."""
    import gpytorch
    import torch

    class ExactGP(gpytorch.models.ExactGP):
        def __init__(self, likelihood: gpytorch.likelihoods.GaussianLikelihood) -> None:
            super().__init__(inputs, targets, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    inputs, targets = torch.from_numpy(X), torch.from_numpy(y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = ExactGP(likelihood).double()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()
    likelihood.train()

    def step() -> object:
        model.zero_grad()
        with gpytorch.settings.max_cholesky_size(10_000):
            loss = -mll(model(inputs), targets)
            loss.backward()
        return loss

    return step


def best_of(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Best time of each in milliseconds, measured in turn."""
    best = dict.fromkeys(steps, np.inf)
    for _ in range(repeats + 1):  # the first round warms up
        for name, step in steps.items():
            begin = perf_counter()
            step()
            best[name] = min(best[name], 1e3 * (perf_counter() - begin))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, nargs="+", default=[100, 500, 1000, 2000])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print(f"{'N':>6s}{'LAPACK ms':>12s}{'PCEGP ms':>12s}{'GPyTorch ms':>14s}"
          f"{'/ LAPACK':>10s}{'/ GPyTorch':>12s}")
    for n in args.n:
        rng = np.random.default_rng(0)
        X = rng.uniform(-0.5, 0.5, (n, D))
        y = np.tanh(X.sum(axis=1)) + 0.1 * rng.normal(size=n)
        with thread_limit(n) as threads:
            best = best_of(
                {"lapack": lapack_step(n), "pcegp": pcegp_step(X, y, threads),
                 "gpytorch": gpytorch_step(X, y)},
                args.repeats,
            )
        rows.append({"n": n, **{f"{name}_ms": value for name, value in best.items()}})
        print(f"{n:6d}{best['lapack']:12.2f}{best['pcegp']:12.2f}{best['gpytorch']:14.2f}"
              f"{best['pcegp'] / best['lapack']:10.2f}{best['pcegp'] / best['gpytorch']:12.2f}",
              flush=True)
    if args.json is not None:
        write_text(args.json, json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
