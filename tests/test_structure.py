"""The shape of the package: imports run one way, heavy parts stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pcegp

ROOT = Path(pcegp.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# A package may import from those before it; a top module counts as a package of its own.
PACKAGES = [
    "errors", "_typing", "_kinds", "_progress", "_aliases", "_registry", "metrics", "numerics",
    "preprocessing",
    "polynomials", "kernels", "inference", "training", "io", "estimators", "search", "inspection",
    "datasets", "benchmarks", "cli",
]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path) for path in MODULES}


def imports_of(path: Path) -> set[str]:
    """Names of the package's modules that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pcegp":
            base = node.module.removeprefix("pcegp").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".removeprefix(".")
                found.add(full if full in NAMES else base)
    return found - {""}


@pytest.mark.parametrize("path", [p for p in MODULES if p.parent != ROOT], ids=name_of)
def test_packages_import_one_way(path):
    package = name_of(path).split(".")[0]
    for other in imports_of(path):
        home = other.split(".")[0]
        assert home == package or PACKAGES.index(home) < PACKAGES.index(package), other


def test_every_package_is_in_the_list():
    assert {name.split(".")[0] for name in NAMES} - {"__init__", "__main__"} <= {*PACKAGES, ""}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_cycle_inside_a_package(package):
    graph = {}
    for path in MODULES:
        name = name_of(path)
        if name.startswith(f"{package}."):
            graph[name] = {other for other in imports_of(path) if other.startswith(f"{package}.")}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_few_modules_stand_at_the_top_and_every_package_says_its_purpose():
    assert len(list(ROOT.glob("*.py"))) <= 10
    for init in ROOT.glob("*/__init__.py"):
        assert len((ast.get_docstring(ast.parse(init.read_text())) or "").splitlines()) == 1, init


def test_no_package_imports_a_private_module_of_another():
    for path in MODULES:
        for other in imports_of(path):
            home, *rest = other.split(".")
            if home != name_of(path).split(".")[0]:
                assert not any(part.startswith("_") for part in rest), (path, other)


def packages_named_in(path: Path) -> set[str]:
    """Names of modules that a module imports, by a statement or as text: `needed("pyarrow")`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return {name.split(".")[0] for name in found if name.replace(".", "_").isidentifier()}


NAMED = {name_of(path): packages_named_in(path) for path in MODULES}


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("sklearn", {"estimators", "search", "datasets", "metrics", "benchmarks"}),
        ("optuna", {"search", "inspection.search_plots"}),
        ("sqlalchemy", {"search.storage"}),
        ("joblib", {"estimators.mixture", "search.loop", "benchmarks.executors"}),
        ("numba", {"numerics", "kernels.functions"}),
        ("pyarrow", {"io.readers", "io.writers"}),
        ("openpyxl", {"io.readers", "io.writers", "datasets"}),
        ("matplotlib", {"inspection.plots", "inspection.search_plots", "benchmarks"}),
        ("sympy", {"inspection.formulas", "kernels.transforms"}),
        ("plotly", {"inspection.report_page"}),
        ("jinja2", {"inspection.report_page", "benchmarks.results_page"}),
        ("rich", {"_progress"}),
        ("typer", {"cli.app", "cli.bench", "cli.options", "benchmarks.output_faults"}),
        ("torch", {"benchmarks"}),
        ("gpytorch", {"benchmarks"}),
        ("gpboost", {"benchmarks"}),
        ("catboost", {"benchmarks"}),
        ("distributed", {"benchmarks.executors"}),
        ("pandas", {"datasets"}),
    ],
)
def test_heavy_packages_are_imported_only_where_they_belong(package, allowed):
    users = {name for name, packages in NAMED.items() if package in packages}
    homes = {home for home in allowed for name in users if f"{name}.".startswith(f"{home}.")}
    strangers = {name for name in users
                 if not any(f"{name}.".startswith(f"{home}.") for home in allowed)}
    assert not strangers
    assert homes == allowed, "places that import it no more"


@pytest.mark.parametrize("statement", ["import pcegp", "from pcegp import PCEGPRegressor"])
def test_a_plain_import_loads_neither_benchmarks_nor_tables(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    unwanted = ("pcegp.benchmarks", "pcegp.cli", "pcegp.io", "optuna", "matplotlib", "torch")
    assert not [name for name in loaded if name.startswith(unwanted)]


@pytest.mark.parametrize(
    ("alias", "home"),
    [("pcegp.covariance", "pcegp.kernels.functions"), ("pcegp.plots", "pcegp.inspection.plots"),
     ("pcegp.elementary", "pcegp.numerics.elementary"), ("pcegp.spaces", "pcegp.search.spaces"),
     ("pcegp.search_plots", "pcegp.inspection.search_plots"),
     ("pcegp.regressor", "pcegp.estimators.regressor"),
     ("pcegp.baselines", "pcegp.benchmarks.baselines")],
)
def test_documented_paths_lead_to_the_module_itself(alias, home):
    code = (f"import importlib; a = importlib.import_module({alias!r}); "
            f"b = importlib.import_module({home!r}); assert a is b and b.__spec__.name == {home!r}")
    subprocess.run([sys.executable, "-c", code], check=True)
