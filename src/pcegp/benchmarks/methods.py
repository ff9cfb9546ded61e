"""Everything that is compared, and how much of it a budget allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from pcegp.benchmarks import baselines
from pcegp.errors import SettingError, unknown_name
from pcegp.estimators.presets import ALL_COVARIANCES


@dataclass(frozen=True)
class Budget:
    """How long a run of the benchmark may take."""

    n_repetitions: int
    n_folds: int  # of ten
    n_slow_folds: int  # for methods that take minutes per fold
    n_white_rows: int | None  # of Wine white, drawn at random; None for all
    n_rows: int | None  # of every data set
    patience: float  # share of the iterations of every method
    hhk_starts: int
    hhk_iterations: int
    gpboost_candidates: int | None
    gpboost_rounds: int
    n_trials: int  # of the search that tunes the paper's setup; 0 for settings in the middle
    speed_sizes: tuple[int, ...]


_FULL = Budget(10, 10, 10, None, None, 1.0, 10, 15_000, None, 1000, 200,
               (100, 500, 1000, 2000, 4400))
BUDGETS = {
    # Minutes: shows that everything runs, its figures mean nothing.
    "smoke": Budget(1, 1, 1, None, 150, 0.02, 1, 20, 1, 5, 0, (100,)),
    # Hours on two cores.
    "short": Budget(1, 10, 3, 1500, None, 1.0, 3, 1000, 4, 200, 0, (100, 500, 1000, 2000)),
    # The paper's with one repetition.
    "once": replace(_FULL, n_repetitions=1),
    # The paper's.
    "full": _FULL,
}


@dataclass(frozen=True)
class Method:
    """A compared method."""

    label: str
    make: Callable[[Budget, int], Any]  # from a budget and a seed
    paper: str | None = None  # its name in the paper's table
    needs: tuple[str, ...] = ()  # packages beyond our own
    slow: bool = False
    tells: tuple[str, ...] = ()  # attributes of the fitted model that go into the row
    first: str | None = None  # the method whose model is the first member of this mixture


def _steps(budget: Budget, iterations: int) -> int:
    return max(2, round(budget.patience * iterations))


def _ours(budget: Budget, seed: int, preset: str | None = None, iterations: int = 400,
          **settings: Any) -> Any:
    from pcegp.estimators import PCEGPRegressor

    make = PCEGPRegressor if preset is None else getattr(PCEGPRegressor, preset)
    return make(max_iter=_steps(budget, iterations), n_jobs=1, random_state=seed, **settings)


def _mixture(budget: Budget, seed: int) -> Any:
    from pcegp.estimators import PCEGPMixture, recommended

    members = recommended(max_iter=_steps(budget, 400), n_jobs=1, random_state=seed)
    return PCEGPMixture(members)


def _compared(
    name: str, settings: Callable[[Budget], dict[str, Any]]
) -> Callable[[Budget, int], Any]:
    """Make the maker of a baseline, from its name and its settings at a budget."""
    def make(budget: Budget, seed: int) -> Any:
        return getattr(baselines, name)(**settings(budget), random_state=seed)

    return make


_TORCH = ("torch", "gpytorch")
METHODS = {
    "pcegp": Method("PCEGP, default", _ours, "PCEGP"),
    "pcegp_mixture": Method("PCEGP, mixture", _mixture, "PCEGP", first="pcegp"),
    "pcegp_paper": Method("PCEGP, paper's setup", partial(_ours, preset="paper", iterations=300),
                          "PCEGP"),
    "gp": Method("GP", _compared("GPyTorchGP", lambda b: {"max_iter": _steps(b, 100)}), "GP",
                 _TORCH),
    "gp_ard": Method(
        "GP ARD", _compared("GPyTorchGP", lambda b: {"ard": True, "max_iter": _steps(b, 100)}),
        "GP ARD", _TORCH,
    ),
    "dgp": Method("DGP", _compared("GPyTorchDeepGP", lambda b: {"max_iter": _steps(b, 5000)}),
                  "DGP", _TORCH, slow=True),
    "gpboost": Method(
        "GPBoost", _compared("GPBoost", lambda b: {"n_candidates": b.gpboost_candidates,
                                                   "max_rounds": b.gpboost_rounds}),
        "GPBoost", ("gpboost",), slow=True, tells=("best_params_", "n_rounds_"),
    ),
    "hhk": Method(
        "HHK GP", _compared("HyperplaneGP", lambda b: {"n_starts": b.hhk_starts,
                                                       "max_iter": b.hhk_iterations}),
        "HHK GP", slow=True, tells=("n_leaves_", "n_unfinished_"),
    ),
    # Stationary: what remains of ours without the polynomials.
    "ard5": Method("five-kernel ARD GP", partial(
        _ours, covariance=ALL_COVARIANCES, input_map="linear", degree=0, noise="constant",
        n_restarts=3)),
    "catboost": Method(
        "CatBoost", _compared("CatBoostGaussian", lambda b: {"n_rounds": _steps(b, 1000)}),
        needs=("catboost",), tells=("n_rounds_",),
    ),
    "forest": Method("random forest",
                     _compared("ForestGaussian", lambda b: {"n_trees": _steps(b, 500)})),
}


def cuts(budget: Budget, names: Sequence[str]) -> list[str]:
    """Say what a budget takes away from methods, in sentences for readers of the figures."""
    out = []
    if budget.patience < 1.0:
        out.append(f"All methods train for {budget.patience:.0%} of their steps.")
    if "pcegp_paper" in names and not budget.n_trials:
        out.append("The paper's setup is not tuned here, as it was in the paper: its settings are "
                   "from the middle of the paper's table of bounds.")
    if "gpboost" in names and budget.gpboost_candidates is not None:
        out.append(f"GPBoost chooses from {budget.gpboost_candidates} points of its grid of 480, "
                   "drawn at random for every fold among those with rates of 0.01, 0.1 or 1 and "
                   "leaves of at most half the rows, with at most "
                   f"{budget.gpboost_rounds:,} rounds.")
    if "hhk" in names and budget.hhk_starts < _FULL.hhk_starts:
        out.append(f"HHK GP has {budget.hhk_starts} random starts of at most "
                   f"{budget.hhk_iterations:,} iterations, instead of {_FULL.hhk_starts} of "
                   f"{_FULL.hhk_iterations:,}.")
    return out


def chosen(names: list[str] | None) -> list[str]:
    """Choose the methods that a user names, or all; refused where a package is missing."""
    for name in names or ():
        if name not in METHODS:
            raise unknown_name("methods", name, METHODS)
    names = list(dict.fromkeys(names or METHODS))
    missing = {package for name in names for package in METHODS[name].needs
               if find_spec(package) is None}
    if missing:
        raise SettingError(
            f"{', '.join(sorted(missing))} not installed: pip install 'pcegp[bench]', or choose "
            "others by --methods"
        )
    return names
