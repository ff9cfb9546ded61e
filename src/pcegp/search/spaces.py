"""Spaces of settings: the automatic one, the paper's, and your own.

A space is a function that takes an Optuna trial and returns settings of `PCEGPRegressor`.
Where the settings hold "checkpoints", the search takes the best of these numbers of steps;
each is scored in one and the same training.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import TPESampler
from optuna.trial import BaseTrial, FrozenTrial

from pcegp.errors import SettingError, unknown_name
from pcegp.estimators import ALL_COVARIANCES, PAPER

Suggest = Callable[[BaseTrial], dict[str, Any]]
_SuggestOne = Callable[[BaseTrial], Any]

COVARIANCES = {
    "all": ALL_COVARIANCES,
    "smooth": ("squared_exponential", "matern52", "rational_quadratic"),
    "rough": ("absolute_exponential", "matern32", "rational_quadratic"),
    "matern": ("matern32", "matern52"),
}

# What every trial of the automatic search has: Nadam, whose steps can be counted and scored.
_AUTO_SETUP: dict[str, Any] = {"optimizer": "nadam", "input_map": "linear", "max_interaction": None}

_AUTO: dict[str, _SuggestOne] = {
    "scale": lambda t: t.suggest_categorical("scale", ["per_input", "weighted", "shared"]),
    "degree": lambda t: t.suggest_int("degree", 0, 3),
    "basis": lambda t: t.suggest_categorical("basis", ["legendre", "hermite", "jacobi"]),
    "covariance": lambda t: COVARIANCES[t.suggest_categorical("covariance", list(COVARIANCES))],
    "scale_transform": lambda t: t.suggest_categorical(
        "scale_transform", ["exponential", "softplus", "identity"]
    ),
    "input_scaler": lambda t: t.suggest_categorical("input_scaler", ["minmax", "standard"]),
    "input_range": lambda t: _range(t.suggest_float("input_range", 0.5, 1.0, step=0.25)),
    "noise": lambda t: t.suggest_categorical("noise", ["expansion", "constant"]),
    "penalty": lambda t: t.suggest_float("penalty", 0.1, 30.0, log=True),
    "learning_rate": lambda t: t.suggest_float("learning_rate", 0.01, 0.08, log=True),
    "n_restarts": lambda t: t.suggest_categorical("n_restarts", [0, 3]),
}
_DEFAULTS: dict[str, Any] = {
    "scale": "per_input", "degree": 2, "basis": "legendre", "covariance": "all",
    "scale_transform": "exponential", "input_scaler": "minmax", "input_range": 0.5,
    "noise": "expansion", "penalty": 3.0, "learning_rate": 0.03, "n_restarts": 0,
}
# Different characters of model that were good on some data: where a search begins.
_STARTS: tuple[dict[str, Any], ...] = (
    {},
    {"scale": "weighted", "degree": 3},
    {"degree": 0},
    {"learning_rate": 0.06},
    {"degree": 3},
    {"degree": 1, "penalty": 0.5},
    {"scale": "weighted", "degree": 3, "penalty": 0.3},
    {"scale": "shared", "degree": 3},
)
_ROUNDING = 1e-8  # of a number of steps between the ends of a range
_CHECKPOINTS = (100, 200, 300, 400)

_RATES = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1]
_ITERATIONS = [50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]
# What the paper's searches leave as it is.
_PAPER_SETUP = {name: value for name, value in PAPER.items()
                if name not in ("learning_rate", "max_iter", "initial_scale")}


def _range(half_width: float) -> tuple[float, float]:
    return (-half_width, half_width)


def suggest_auto(trial: BaseTrial, **own: Any) -> dict[str, Any]:
    """Suggest from the automatic space; settings given here are taken as they are.

    Examples
    --------
    Stationary or linear scales only, and another noise floor to choose from:

    >>> from pcegp import PCEGPSearchCV
    >>> from pcegp.search import spaces
    >>> def mine(trial):
    ...     return spaces.suggest_auto(
    ...         trial,
    ...         degree=trial.suggest_int("degree", 0, 1),
    ...         noise_floor=trial.suggest_float("noise_floor", 1e-8, 1e-3, log=True),
    ...     )
    >>> search = PCEGPSearchCV(space=mine)
    """
    settings = {name: own[name] if name in own else suggest(trial)
                for name, suggest in _AUTO.items()}
    # Interactions of three inputs cost most of the terms of a cubic and seldom help.
    most_inputs = {"max_interaction": 2} if settings["degree"] > 2 else {}
    settings = {**_AUTO_SETUP, **settings, **most_inputs, **own}
    most = settings.setdefault("max_iter", max(_CHECKPOINTS))
    settings.setdefault("checkpoints", (*(n for n in _CHECKPOINTS if n < most), most))
    return settings


def _paper(most_iterations: int) -> Suggest:
    iterations = [n for n in _ITERATIONS if n <= most_iterations]

    def suggest(trial: BaseTrial) -> dict[str, Any]:
        return _PAPER_SETUP | {
            "learning_rate": trial.suggest_categorical("learning_rate", _RATES),
            "max_iter": trial.suggest_categorical("max_iter", iterations),
            "initial_scale": tuple(
                trial.suggest_float(f"alpha_0 {name}", 0.1, 2.0, step=0.1)
                for name in COVARIANCES["all"]
            ),
        }

    return suggest


def suggest_general(trial: BaseTrial) -> dict[str, Any]:
    """Suggest for the paper's general algorithm (appendix F)."""
    noise_degree = trial.suggest_int("noise_degree", 0, 2)
    half_width = trial.suggest_float("input_range", 0.25, 1.0, step=0.25)
    return _PAPER_SETUP | {
        "degree": trial.suggest_int("degree", 0, 5),
        "noise": "expansion" if noise_degree else "constant",
        "noise_degree": noise_degree,
        "noise_delay": 0,
        "learning_rate": trial.suggest_categorical("learning_rate", _RATES),
        "penalty": trial.suggest_float("penalty", 1e-3, 10.0, log=True),
        "l1_ratio": trial.suggest_float("l1_ratio", 0.0, 1.0),
        "input_range": _range(half_width),
        "initial_scale": 1.0,
        "max_iter": 500,
        "checkpoints": (50, 100, 200, 300, 400, 500),
    }


@dataclass(frozen=True)
class Space:
    """A space and the search that suits it; the search's own parameters go first."""

    suggest: Suggest
    starts: tuple[Mapping[str, Any], ...] = ()  # of suggested values, tried first
    objective: str = "crps"
    n_trials: int = 40
    n_random: int = 12  # trials before TPE begins, starts included
    batch_size: int = 4
    racing: bool = True  # whether a hopeless trial ends before its last fold
    multivariate: bool = True  # TPE's densities
    ensemble: int = 5  # trials that are mixed to an answer

    def sampler(self, position: int, seed: int) -> TPESampler:
        """Make the sampler of the trial at a position: a start, then chance, then Parzen's."""
        options: dict[str, Any] = {
            # By position: Optuna's own count leaves out trials that failed.
            "n_startup_trials": sys.maxsize if position < self.n_random else 0,
            "multivariate": self.multivariate,
            # In a batch, trials that still run must not all be asked for at one place.
            "constant_liar": self.batch_size > 1,
            "seed": int(np.random.SeedSequence([seed, position]).generate_state(1)[0]),
        }
        if position < len(self.starts):
            return _StartSampler(self.starts[position], **options)
        return TPESampler(**options)


class _StartSampler(TPESampler):
    """A sampler that takes the values of a start, as far as the space offers them."""

    def __init__(self, start: Mapping[str, Any], **options: Any) -> None:
        # Parameters that are suggested together would pass the start by.
        super().__init__(**options | {"multivariate": False})
        self._start = start

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Take the value of the start, or one at random."""
        if param_name in self._start:
            value = self._start[param_name]
            if _offers(param_distribution, value):
                return value
        return super().sample_independent(study, trial, param_name, param_distribution)


def _offers(distribution: Any, value: Any) -> bool:
    """Tell whether a start is in the space at all; a space of the user's own may lack it."""
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    if not isinstance(value, Real) or not distribution.low <= value <= distribution.high:
        return False
    steps = (value - distribution.low) / (distribution.step or 1)
    return distribution.step is None or abs(steps - round(steps)) < _ROUNDING


_PAPERS_SEARCH: dict[str, Any] = {
    "objective": "rmse", "n_trials": 200, "n_random": 100, "batch_size": 1, "racing": False,
    "multivariate": False, "ensemble": 1,
}
SPACES = {
    "auto": Space(suggest_auto, tuple(_DEFAULTS | start for start in _STARTS)),
    "paper": Space(_paper(1000), **_PAPERS_SEARCH),
    "paper_wine": Space(_paper(500), **_PAPERS_SEARCH),
    "general": Space(suggest_general, **_PAPERS_SEARCH),
}


def resolve(space: Any) -> Space:
    """Make a space from its name or a function; a space is one."""
    if isinstance(space, Space):
        return space
    if callable(space):
        return Space(space, (_DEFAULTS,))
    if isinstance(space, str) and space in SPACES:
        return SPACES[space]
    if isinstance(space, str):
        raise unknown_name("space", space, SPACES)
    raise SettingError(f"space={space!r} must be a name or a function that takes a trial")
