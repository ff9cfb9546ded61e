"""The methods that the paper compares with, and what a user would pick instead."""

from typing import TYPE_CHECKING, Any

from pcegp.errors import needed

if TYPE_CHECKING:
    from pcegp.benchmarks.baselines.gpboost_regressor import GPBoost as GPBoost
    from pcegp.benchmarks.baselines.gpytorch_gps import GPyTorchDeepGP as GPyTorchDeepGP
    from pcegp.benchmarks.baselines.gpytorch_gps import GPyTorchGP as GPyTorchGP
    from pcegp.benchmarks.baselines.hyperplane import HyperplaneGP as HyperplaneGP
    from pcegp.benchmarks.baselines.trees import CatBoostGaussian as CatBoostGaussian
    from pcegp.benchmarks.baselines.trees import ForestGaussian as ForestGaussian

# Loaded on first use: each needs packages of its own.
_HOMES = {
    "CatBoostGaussian": "trees",
    "ForestGaussian": "trees",
    "GPBoost": "gpboost_regressor",
    "GPyTorchDeepGP": "gpytorch_gps",
    "GPyTorchGP": "gpytorch_gps",
    "HyperplaneGP": "hyperplane",
}

__all__ = [
    "CatBoostGaussian", "ForestGaussian", "GPBoost", "GPyTorchDeepGP", "GPyTorchGP",
    "HyperplaneGP",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(needed(f"{__name__}.{_HOMES[name]}", name), name)


def __dir__() -> list[str]:
    return __all__
