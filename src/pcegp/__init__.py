"""Gaussian-process regression with a polynomial local scale and noise."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcegp.diagnostics import diagnose as diagnose
    from pcegp.explanation import explain as explain
    from pcegp.html_report import report as report
    from pcegp.mixture import PCEGPMixture as PCEGPMixture
    from pcegp.mixture import load as load
    from pcegp.nested import nested_cv as nested_cv
    from pcegp.regressor import PCEGPRegressor as PCEGPRegressor
    from pcegp.search import PCEGPSearchCV as PCEGPSearchCV

__version__ = version("pcegp")

# Loaded on first use, so that `import pcegp` and the command line's help stay quick.
_HOMES = {
    "PCEGPMixture": "pcegp.mixture",
    "PCEGPRegressor": "pcegp.regressor",
    "PCEGPSearchCV": "pcegp.search",
    "diagnose": "pcegp.diagnostics",
    "explain": "pcegp.explanation",
    "load": "pcegp.mixture",
    "nested_cv": "pcegp.nested",
    "report": "pcegp.html_report",
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
