"""Named settings of `PCEGPRegressor`, each in this one place."""

from typing import Any

ALL_COVARIANCES = (
    "squared_exponential", "absolute_exponential", "matern32", "matern52", "rational_quadratic",
)

#: The sets of covariance functions that `covariance="auto"` chooses from: the paper's sum, which
#: can be smooth here and rough there, and one function alone, which has the fewest parameters.
COVARIANCE_SETS: tuple[tuple[str, ...], ...] = (ALL_COVARIANCES, ("matern52",))

#: The paper's benchmark setup (appendix I); rate and steps are in the middle of its bounds.
PAPER: dict[str, Any] = {
    "optimizer": "nadam", "input_map": "linear", "max_interaction": None,
    "covariance": ALL_COVARIANCES, "scale": "shared", "degree": 5, "basis": "legendre",
    "scale_transform": "identity", "noise": "constant", "noise_floor": 1e-4, "penalty": 0.0,
    "prior": 0.0, "learning_rate": 0.01, "max_iter": 300, "averaging": 1, "initial_scale": 1.0,
    "n_restarts": 0, "n_draws": 0, "warm_up_rows": None,
}

#: The paper's toy setup (appendix G).
TOY: dict[str, Any] = PAPER | {
    "covariance": "squared_exponential", "degree": 10, "scale_transform": "softplus",
}

#: One set of covariance functions and one map: how freely scale and noise vary is still chosen.
FAST: dict[str, Any] = {"covariance": "matern52", "input_map": "linear"}

#: Structures that make up for each other in a mixture: the default model, whose inputs have a
#: scale each, and one whose covariance functions have a scale each, times weights of the inputs.
RECOMMENDED: tuple[dict[str, Any], ...] = ({}, {"scale": "weighted"})

#: The presets of `pcegp fit --preset`.
PRESETS: dict[str, dict[str, Any]] = {"auto": {}, "fast": FAST, "paper": PAPER}
