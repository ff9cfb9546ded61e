"""The paper's toy examples: the Higdon function in one and in two inputs (section 4)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import ExtrapolationWarning
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inspection.nonstationarity import variance_shares
from pcegp.metrics import scores

FloatArray = NDArray[np.float64]

#: The paper's tables: MAE, MedAE, MSE, RMSE and R2 on the test points.
PAPER = {
    1: {"paper's PCEGP": (0.059, 0.044, 0.006, 0.079, 0.995),
        "paper's GP": (0.161, 0.095, 0.053, 0.231, 0.953)},
    2: {"paper's PCEGP": (0.110, 0.047, 0.037, 0.192, 0.970),
        "paper's GP": (0.194, 0.120, 0.077, 0.277, 0.937)},
}
PAPER_SHARES = (0.922, 0.078)


def higdon(X: FloatArray) -> FloatArray:
    """The function at X (n, 1) or, extended by a linear second input, at X (n, 2)."""
    x = X[:, 0]
    wavy = 2.0 * np.sin(4.0 * np.pi * x) + 0.4 * np.cos(16.0 * np.pi * x)
    first = np.where(x < 0.48, wavy, 2.0 * x - 1.0)
    return first + X[:, 1] if X.shape[1] == 2 else first


def data(n_inputs: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Training and test inputs: equally spaced in one input, uniform random in two."""
    if n_inputs == 1:
        return np.linspace(0, 1, 30)[:, None], np.linspace(0, 1, 200)[:, None]
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(200, 2)), rng.uniform(size=(1000, 2))


def models() -> dict[str, PCEGPRegressor]:
    """The models of the demo, by the name it prints."""
    stationary: dict[str, Any] = {
        "covariance": "squared_exponential", "scale": "shared", "degree": 0,
        "noise": "constant", "prior": 0.0, "averaging": 1, "n_draws": 0,
    }
    return {
        "PCEGP, default": PCEGPRegressor(),
        "PCEGP, paper's setup": PCEGPRegressor.toy(),
        "PCEGP, paper's, restarts": PCEGPRegressor.toy(n_restarts=3),
        # The paper's GP: lengthscale log 2 on inputs in [-1, 1], rate 0.1, 100 steps.
        "GP, trained the paper's way": PCEGPRegressor(
            **stationary, n_restarts=0, initial_scale=1.0 / np.log(2.0), input_range=(-1.0, 1.0),
            learning_rate=0.1, max_iter=100, noise_floor=1e-4,
        ),
        "GP, with restarts": PCEGPRegressor(**stationary, n_restarts=3),
    }


@dataclass(frozen=True)
class Result:
    """One model on one toy example."""

    name: str
    model: PCEGPRegressor
    scores: dict[str, float]
    shares: tuple[float, ...]
    seconds: float


def evaluate(name: str, model: PCEGPRegressor, X: FloatArray, X_test: FloatArray) -> Result:
    """Fit one model and score it on the test points."""
    begin = perf_counter()
    model.fit(X, higdon(X))
    if model.was_interrupted():
        raise KeyboardInterrupt  # what was trained so far must not pass for the whole
    with warnings.catch_warnings():
        # Random test points may lie a little outside the box of the training points.
        warnings.simplefilter("ignore", ExtrapolationWarning)
        mean, std = model.predict(X_test, return_std=True)
    shares = tuple(float(share) for share in variance_shares(model.posteriors_[0]))
    return Result(name, model, scores(higdon(X_test), mean, std), shares, perf_counter() - begin)


def run(n_inputs: int, seed: int = 0) -> list[Result]:
    """All models on one toy example."""
    X, X_test = data(n_inputs, seed)
    return [evaluate(name, model, X, X_test) for name, model in models().items()]


def default_over_seeds(seeds: range) -> list[float]:
    """RMSE of the default model on the two-input example, one per seed."""
    out = []
    for seed in seeds:
        X, X_test = data(2, seed)
        out.append(evaluate("PCEGP, default", PCEGPRegressor(), X, X_test).scores["RMSE"])
    return out
