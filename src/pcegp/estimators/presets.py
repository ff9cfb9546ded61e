"""Named settings of `PCEGPRegressor`, each in this one place."""

from typing import Any

ALL_COVARIANCES = (
    "squared_exponential", "absolute_exponential", "matern32", "matern52", "rational_quadratic",
)

#: The paper's benchmark setup (appendix I); rate and steps are in the middle of its bounds.
PAPER: dict[str, Any] = {
    "covariance": ALL_COVARIANCES, "scale": "shared", "degree": 5, "basis": "legendre",
    "scale_transform": "identity", "noise": "constant", "noise_floor": 1e-4, "penalty": 0.0,
    "prior": 0.0, "learning_rate": 0.01, "max_iter": 300, "averaging": 1, "initial_scale": 1.0,
    "n_restarts": 0, "n_draws": 0, "warm_up_rows": None,
}

#: The paper's toy setup (appendix G).
TOY: dict[str, Any] = PAPER | {
    "covariance": "squared_exponential", "degree": 10, "scale_transform": "softplus",
}

#: A third of the steps on three of the five covariance functions.
FAST: dict[str, Any] = {
    "covariance": ("squared_exponential", "matern32", "rational_quadratic"), "max_iter": 130,
    "learning_rate": 0.06,
}

#: Structures that make up for each other in a mixture: the default model, one scale for
#: weighted inputs, a stationary one, and a local scale that is linear in the inputs and hardly
#: held back.
RECOMMENDED: tuple[dict[str, Any], ...] = (
    {}, {"scale": "weighted", "degree": 3}, {"degree": 0}, {"degree": 1, "penalty": 0.5},
)

#: The presets of `pcegp fit --preset`.
PRESETS: dict[str, dict[str, Any]] = {"auto": {}, "fast": FAST, "paper": PAPER}
