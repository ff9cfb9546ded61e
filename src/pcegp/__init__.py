"""Gaussian-process regression with a polynomial local scale and noise."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pcegp import _aliases

if TYPE_CHECKING:
    from pcegp.estimators import PCEGPMixture as PCEGPMixture
    from pcegp.estimators import PCEGPRegressor as PCEGPRegressor
    from pcegp.estimators import load as load
    from pcegp.inspection import diagnose as diagnose
    from pcegp.inspection import explain as explain
    from pcegp.inspection import report as report
    from pcegp.search import PCEGPSearchCV as PCEGPSearchCV
    from pcegp.search import nested_cv as nested_cv

__version__ = version("pcegp")

_aliases.install()

# Loaded on first use, so that `import pcegp` and the command line's help stay quick.
_HOMES = {
    "PCEGPMixture": "pcegp.estimators",
    "PCEGPRegressor": "pcegp.estimators",
    "PCEGPSearchCV": "pcegp.search",
    "diagnose": "pcegp.inspection",
    "explain": "pcegp.inspection",
    "load": "pcegp.estimators",
    "nested_cv": "pcegp.search",
    "report": "pcegp.inspection",
}

__all__ = [
    "PCEGPMixture", "PCEGPRegressor", "PCEGPSearchCV", "__version__", "datasets", "diagnose",
    "explain", "load", "nested_cv", "report",
]


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("pcegp.datasets")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
