"""Processes, data and parameters, small enough for a test; what is known to fail."""

from __future__ import annotations

from typing import Any

import numpy as np

from pcegp import PCEGPMixture, PCEGPRegressor
from pcegp.inference import Data, Exact
from pcegp.inference.exact import ExactLikelihood
from pcegp.kernels import COVARIANCES, TRANSFORMS, CovarianceFunction, Process
from pcegp.polynomials import Legendre, make_basis

BUILT_IN = ("squared_exponential", "absolute_exponential", "matern32", "matern52",
            "rational_quadratic")


def make_process(
    X: np.ndarray,
    covariances: str | CovarianceFunction | tuple[str, ...] = BUILT_IN,
    scale: str = "per_input",
    degree: int = 2,
    transform: str = "identity",
    noise_degree: int = 0,
    noise_transform: str = "exponential",
    noise_floor: float = 1e-6,
) -> Process:
    """A process for training points X with the settings that a test names."""
    chosen = covariances if isinstance(covariances, tuple) else (covariances,)
    return Process(
        tuple(COVARIANCES[c] if isinstance(c, str) else c for c in chosen),
        scale,
        TRANSFORMS[transform],
        make_basis((Legendre(),), X, degree),
        make_basis((Legendre(),), X, noise_degree),
        TRANSFORMS[noise_transform],
        noise_floor,
    )


def make_data(X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Data:
    """Rows, of weight one if no weights are given."""
    return Data(X, y, np.ones(len(y)) if weights is None else weights)


def make_likelihood(
    process: Process, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> ExactLikelihood:
    """The exact likelihood on one thread."""
    return Exact().bind(process, make_data(X, y, weights))


def some_parameters(process: Process, seed: int) -> np.ndarray:
    """Random parameters at which every field changes sign or comes close to it."""
    theta = 0.6 * np.random.default_rng(seed).normal(size=process.n_parameters)
    parts = process.parameters(theta)
    parts.coefficients[..., 0] += 1.0
    parts.noise[0] += 0.5
    return theta


def quick(**changes: Any) -> PCEGPRegressor:
    """A model of one structure, which trains in a blink."""
    settings: dict[str, Any] = {"covariance": "matern52", "input_map": "linear",
                                "target_map": "linear", "noise": "constant", "penalty": 1.0,
                                "degree": 1}
    return PCEGPRegressor(**{**settings, **changes})


def free(**changes: Any) -> PCEGPRegressor:
    """A model with all choices open."""
    return PCEGPRegressor(**{"max_iter": 30, "degree": 1, **changes})


_ENOUGH = 10  # iterations


def known_failures(estimator: PCEGPRegressor | PCEGPMixture) -> dict[str, str]:
    """Name the check of weights where training ends before an optimum.

    It wants predictions that agree to 1e-7, and the first iterations make the rounding grow. How
    closely weights agree with repeated rows is tested by `test_a_weight_of_two_equals_two_rows`.
    """
    members = getattr(estimator, "estimators", [estimator])
    if all(member.optimizer == "nadam" or member.max_iter >= _ENOUGH for member in members):
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "training ends before an optimum"}


def numeric_gradient(function, theta: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Central differences of a function of a vector, extrapolated once (error h^4)."""

    def slope(i: int, h: float) -> float:
        up, down = theta.copy(), theta.copy()
        up[i] += h
        down[i] -= h
        return (function(up) - function(down)) / (2 * h)

    return np.array([(4 * slope(i, h) - slope(i, 2 * h)) / 3 for i in range(theta.size)])
