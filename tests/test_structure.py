"""The shape of the package: imports run one way, modules stay short, heavy parts stay out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pcegp

ROOT = Path(pcegp.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# A module may import only from lines above its own.
LAYERS = [
    {"errors"},
    {"files"},
    {"archive"},
    {"elementary", "intrinsics", "polynomials", "transforms", "metrics", "progress", "threads",
     "remembering", "tables", "memory", "datasets"},
    {"covariance", "encoding", "expansion", "tiles", "validation"},
    {"formulas", "scaling", "sobol", "linalg", "pairwise", "intervals"},
    {"inputs", "model"},
    {"posterior", "training"},
    {"starts", "nonstationarity", "draws"},
    {"settings", "smooth"},
    {"fitting"},
    {"saved"},
    {"fitted"},
    {"regressor"},
    {"mixture", "folds", "spaces"},
    {"splits", "studies"},
    {"sampling", "records"},
    {"racing", "selection"},
    {"problem"},
    {"entries"},
    {"finals"},
    {"tuning"},
    {"search"},
    {"nested"},
    {"explanation"},
    {"diagnostics", "views"},
    {"plots", "report_figures"},
    {"html_report", "search_plots"},
    {"table_models"},
    {"model_commands", "tune_command", "fit_command", "predict_command"},
    {"baselines.scaled", "baselines.gpytorch_models", "baselines.hyperplane_kernel"},
    {"baselines.gpytorch_regressors", "baselines.hyperplane_gp", "baselines.gpboost_regressor",
     "baselines.trees"},
    {"experiments.higdon", "experiments.file_faults", "experiments.stress",
     "experiments.methods", "experiments.results_file", "experiments.workers"},
    {"experiments.higdon_figure", "experiments.demo", "experiments.speed",
     "experiments.benchmark", "experiments.summary", "experiments.stress_peers"},
    {"experiments.speed_report", "experiments.results_page", "experiments.stress_report"},
    {"experiments.reproduce"},
    {"cli"},
    {"__main__"},
]
# The two sides of one layer that do know each other.
NEIGHBOURS = {("experiments.demo", "experiments.higdon_figure")}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports_of(path: Path) -> set[str]:
    """Names of the package's modules that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pcegp"):
            base = node.module.removeprefix("pcegp").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".removeprefix(".")
                found.add(full if (ROOT / f"{full.replace('.', '/')}.py").exists() else base)
    return found - {""}


@pytest.mark.parametrize("path", [p for p in MODULES if p.name != "__init__.py"], ids=name_of)
def test_imports_run_downwards(path):
    level = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    name = name_of(path)
    assert name in level, f"{name} has no place in LAYERS"
    for other in imports_of(path):
        assert level[other] < level[name] or (name, other) in NEIGHBOURS, f"{name} -> {other}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_stay_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("sklearn", {"fitted", "intervals", "regressor", "mixture", "search", "splits", "nested",
                     "explanation", "datasets", "baselines.scaled", "baselines.trees",
                     "baselines.gpboost_regressor",
                     "experiments.speed", "experiments.benchmark",
                     "experiments.stress_peers"}),
        ("optuna", {"spaces", "studies", "sampling", "records", "problem", "entries",
                    "finals", "tuning", "search", "search_plots"}),
        ("joblib", {"mixture", "entries", "finals", "tuning", "experiments.workers"}),
        ("pyarrow", {"tables"}),
        ("openpyxl", {"tables"}),
        ("matplotlib", {"plots", "search_plots", "experiments.higdon_figure",
                        "experiments.speed_report", "experiments.results_page"}),
        ("numba", {"covariance", "elementary", "intrinsics", "pairwise", "tiles"}),
        ("sympy", {"formulas"}),
        ("plotly", {"html_report"}),
        ("jinja2", {"html_report", "experiments.results_page"}),
        ("torch", {"baselines.gpytorch_models", "baselines.gpytorch_regressors",
                   "experiments.speed", "experiments.stress_peers"}),
        ("gpytorch", {"baselines.gpytorch_models", "baselines.gpytorch_regressors",
                      "experiments.speed"}),
        ("gpboost", {"baselines.gpboost_regressor", "experiments.stress_peers"}),
        ("catboost", {"baselines.trees"}),
        ("pandas", {"datasets"}),
    ],
)
def test_heavy_packages_are_imported_only_where_they_belong(package, allowed):
    users = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            if any(n.split(".")[0] == package for n in names):
                users.add(name_of(path))
    assert users <= allowed
