"""Gaussian-process regression with a polynomial local scale and noise."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pcegp import _aliases

if TYPE_CHECKING:
    from pcegp import datasets
    from pcegp.estimators import PCEGPMixture, PCEGPRegressor, load
    from pcegp.inspection import diagnose, explain, report
    from pcegp.search import PCEGPSearchCV, nested_cv

__version__ = version("pcegp")

_aliases.install()

__all__ = [
    "PCEGPMixture", "PCEGPRegressor", "PCEGPSearchCV", "__version__", "datasets", "diagnose",
    "explain", "load", "nested_cv", "report",
]

# Loaded on first use, so that `import pcegp` and the command line's help stay quick.
_HOMES = {
    "estimators": ("PCEGPMixture", "PCEGPRegressor", "load"),
    "inspection": ("diagnose", "explain", "report"),
    "search": ("PCEGPSearchCV", "nested_cv"),
}


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("pcegp.datasets")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"pcegp.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
