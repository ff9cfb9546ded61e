"""Import paths that the documentation has named, for modules that now live in packages.

`from pcegp.covariance import register` and `import pcegp.plots` give the very module that
stands in the table.
"""

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

ALIASES = {
    "pcegp.baselines": "pcegp.benchmarks.baselines",
    "pcegp.covariance": "pcegp.kernels.functions",
    "pcegp.elementary": "pcegp.numerics.elementary",
    "pcegp.plots": "pcegp.inspection.plots",
    "pcegp.regressor": "pcegp.estimators.regressor",
    "pcegp.search_plots": "pcegp.inspection.search_plots",
    "pcegp.spaces": "pcegp.search.spaces",
}


class _Aliases(Loader):
    """A finder and loader of the modules of the table."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in ALIASES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._original = import_module(ALIASES[spec.name]).__spec__
        return sys.modules[ALIASES[spec.name]]

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the alias here; the module keeps its own name.
        module.__spec__ = self._original


def install() -> None:
    """Let Python's import system know the table, once."""
    if not any(isinstance(finder, _Aliases) for finder in sys.meta_path):
        sys.meta_path.append(_Aliases())
