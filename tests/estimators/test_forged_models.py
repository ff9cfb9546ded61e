"""Model files whose digest fits and whose values lie: refused before anything is computed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pcegp
from pcegp import PCEGPMixture, PCEGPRegressor
from pcegp.errors import DataError, ModelFileError, OutOfMemoryError, SettingError
from pcegp.estimators import fit_named
from pcegp.io import Encoding, read_archive, write_archive
from small_models import quick

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(30, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=30)
NOT_OURS = ("format", "arrays")  # what the archive itself writes into the header


@pytest.fixture(scope="module")
def model():
    return PCEGPRegressor(optimizer="nadam", max_iter=10, checkpoints=[5], n_draws=1).fit(X, Y)


@pytest.fixture
def path(model, tmp_path):
    return model.save(tmp_path / "model.pcegp")


def never(*_, **__):
    raise AssertionError("something was computed")  # no error that a load turns into a refusal


def forge(path, change):
    """Change header and arrays of a file; its digest fits."""
    header, arrays = read_archive(path)
    header = {name: value for name, value in header.items() if name not in NOT_OURS}
    change(header, arrays)
    write_archive(path, header, arrays)


def forged(name, *values):
    """One case for each value at a place such as "targets.0.width" of the header."""
    *places, last = (int(part) if part.isdecimal() else part for part in name.split("."))

    def change(value):
        def work(header, arrays):
            at = header
            for place in places:
                at = at[place]
            at[last] = value
        return work

    return [pytest.param(change(value), id=f"{name}={value!r}") for value in values]


def array(name, change):
    def work(header, arrays):
        arrays[name] = np.asarray(change(arrays[name]), dtype=float)
    return pytest.param(work, id=name)


BIG = 10**9


@pytest.mark.parametrize("change", [
    *forged("shift", "0.5", None, True),
    *forged("targets.0.width", 0.0, -1.0, "1", None),
    *forged("targets.0.exponent", 1101, -5000, 1.5, 10**300),
    *forged("targets.0.center", "0", []),
    *forged("targets.0.origin", None, "0"),
    *forged("n_iter", BIG, -1, 9, 10.0, "10", True),
    *forged("n_outputs", 2, 0, True, 1.0),
    *forged("one_output", 1, None),
    *forged("features", "ab", [1, 2], ["a", "\ud800"]),
    *forged("fit_info", [], [None], [{}]),
    *forged("fit_info.0.interrupted", "no", None, 0),
    *forged("fit_info.0.condition_number", "1", -1.0),
    *forged("fit_info.0.n_factorisations", -1, 0.5),
    *forged("fit_info.0.unheard", 1),
    *forged("params.max_iter", 9),
    *forged("params.checkpoints", [4]),
    *forged("params.random_state", -1, "0", 2**32),
    *forged("params.verbose", "yes", []),
    *forged("params.input_scaler", "mine", None),
    array("factor", lambda a: -a),
    array("factor", lambda a: 0 * a),
    array("lower", lambda a: -2 * a),
    array("upper", lambda a: a / 2),
    array("exponent", lambda a: a + 0.5),
    array("exponent", lambda a: a + 1e6),
    array("active", lambda a: a + 1.0),
    array("weights", lambda a: -a),
    array("theta.0", lambda a: a + 100.0),
    array("draw.0.0", lambda a: a - 100.0),
    array("checkpoint.0.5", lambda a: a + 100.0),
    array("history.0.loss", lambda a: np.zeros(BIG // 10**6)),
    array("history.0.nll", lambda a: a[None]),
    array("usual.0", lambda a: -a),
    pytest.param(lambda h, a: a.update({"checkpoint.0.7": a["theta.0"]}), id="checkpoint"),
    pytest.param(lambda h, a: a.update({"theta.1": a["theta.0"]}), id="output"),
    pytest.param(lambda h, a: a.update({"unheard": a["y.0"]}), id="unheard"),
    pytest.param(lambda h, a: a.pop("history.0.loss"), id="no history"),
])
def test_values_made_to_mislead_are_refused_before_any_work(path, change, monkeypatch):
    forge(path, change)
    monkeypatch.setattr("pcegp.estimators.model_state.condition", never)
    with pytest.raises(ModelFileError, match=r"the file does not hold|unknown settings"):
        pcegp.load(path)


@pytest.fixture(scope="module")
def averaged():
    """A model whose predictions are an average, with a map that is not linear."""
    skewed = np.exp(3.0 * X)
    model = PCEGPRegressor(degree=1, noise="constant", max_iter=30,
                           input_map="power").fit(skewed, Y)
    assert len(model.fit_info_["members"]) > 1
    return model


@pytest.mark.parametrize("change", [
    *forged("structures", [], [[]], None, {}),
    *forged("structures.0", [], None, {}),
    *forged("structures.0.0", {}, None),
    *forged("structures.0.0.weight", 0.0, -1.0, 2.0, "1", None, True),
    *forged("structures.0.0.covariance", [], ["unheard"], "matern52", ["squared_exponential"]),
    *forged("structures.0.0.input_map", "linear", "unheard", "auto", None),
    *forged("structures.0.0.noise_degree", -1, 0.5, BIG, "0"),
    *forged("structures.0.0.unheard", 1),
    *forged("fit_info.0.members", None, [{}], [1], {}),
    *forged("fit_info.0.members.0.weight", -1.0, 2.0, None),
    *forged("fit_info.0.members.0.penalty", 0.0, "3"),
    *forged("fit_info.0.members.0.log_evidence", "1", []),
    *forged("fit_info.0.compared", None, [{}]),
    *forged("fit_info.0.converged", 1, None),
    array("map.0.0", lambda a: a[:3]),
    array("map.0.0", lambda a: a[:, :1]),
    array("map.0.0", lambda a: -a),
    array("map.0.0", lambda a: a * [[1.0], [0.0], [1.0], [1.0], [1.0]]),
    array("map.0.0", lambda a: np.add(a, [[0.0], [0.0], [100.0], [0.0], [0.0]])),
    array("map.0.0", lambda a: a[[0, 1, 2, 4, 3]]),
    array("map.0.0", lambda a: a * np.nan),
    array("member.0.1", lambda a: a[:-1]),
    array("member.0.1", lambda a: a + 100.0),
    array("member.0.1", lambda a: np.full_like(a, np.inf)),
    pytest.param(lambda h, a: a.pop("member.0.1"), id="no member"),
    pytest.param(lambda h, a: a.pop("map.0.0"), id="no map"),
    pytest.param(lambda h, a: a.update({"member.0.9": a["theta.0"]}), id="member"),
    pytest.param(lambda h, a: a.update({"map.0.9": a["map.0.0"]}), id="map"),
    pytest.param(lambda h, a: h.update(structures=[h["structures"][0] * 200]), id="many"),
    pytest.param(lambda h, a: h.pop("structures"), id="no structures"),
])
def test_structures_made_to_mislead_are_refused(averaged, tmp_path, change):
    path = averaged.save(tmp_path / "model.pcegp")
    rows = np.exp(3.0 * X)
    assert (pcegp.load(path).predict(rows) == averaged.predict(rows)).all()
    forge(path, change)
    with pytest.raises(ModelFileError, match=r"the file does not hold|unknown settings"):
        pcegp.load(path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("name", ["shift", "center", "width"])
def test_numbers_that_json_does_not_have_are_refused(path, name, value, monkeypatch):
    dumps = pcegp.io.archive.json.dumps
    header, arrays = read_archive(path)
    at = header if name == "shift" else header["targets"][0]
    at[name] = "HERE"
    monkeypatch.setattr("pcegp.io.archive.json.dumps",
                        lambda *a, **k: dumps(*a, **k).replace('"HERE"', value))
    write_archive(path, {k: v for k, v in header.items() if k not in NOT_OURS}, arrays)
    monkeypatch.setattr("pcegp.estimators.model_state.condition", never)
    with pytest.raises(ModelFileError, match=name):
        pcegp.load(path)


def test_members_of_different_data_are_no_mixture(model, tmp_path):
    mixture = PCEGPMixture([PCEGPRegressor(max_iter=2, n_draws=0)] * 2).fit(X, Y)
    path = mixture.save(tmp_path / "mixture")
    other = PCEGPRegressor(max_iter=2, n_draws=0).fit(X[:, :1], Y)
    mixture.estimators_[1] = other
    mixture.save(path)
    with pytest.raises(ModelFileError, match="different data"):
        pcegp.load(path)


@pytest.mark.parametrize("kind", ["outputs", "members"])
def test_the_memory_of_all_outputs_and_members_counts_together(kind, tmp_path, monkeypatch):
    """20 covariances of 60 x 60 are 576 kB, each of them 29 kB."""
    rows, y = np.tile(X, (2, 1)), np.tile(Y, 2)
    if kind == "outputs":
        model = quick(max_iter=1).fit(rows, np.tile(y[:, None], 20))
    else:
        model = PCEGPMixture([quick(max_iter=1)]).fit(rows, y)
        model.estimators_ = model.estimators_ * 20
    path = model.save(tmp_path / "model")
    assert path.stat().st_size < 500_000  # the file itself is not too large
    pcegp.load(path, max_gb=1e-3)
    monkeypatch.setattr("pcegp.estimators.model_state.condition", never)
    monkeypatch.setattr("pcegp.estimators.settings.make_basis", never)
    with pytest.raises(ModelFileError, match="20 covariances of up to 60 rows"):
        pcegp.load(path, max_gb=5e-4)


def test_loading_states_the_memory_that_it_needs(path, monkeypatch):
    monkeypatch.setattr("pcegp.numerics.resources.bytes_available", lambda: 30_000)
    monkeypatch.setattr("pcegp.estimators.model_state.condition", never)
    with pytest.raises(OutOfMemoryError, match=r"model\.pcegp needs"):
        pcegp.load(path)
    monkeypatch.setattr("pcegp.numerics.resources.bytes_available",
                        lambda: 3 * path.stat().st_size)
    with pytest.raises(OutOfMemoryError, match=r"to load .*model\.pcegp needs"):
        pcegp.load(path)


@pytest.mark.parametrize("make", [
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.mkdir(),
    lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
    lambda path: path.symlink_to(path),
], ids=["pipe", "device", "folder", "socket", "circle"])
@pytest.mark.filterwarnings("ignore:unclosed")
def test_what_is_no_file_is_refused_at_once(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    make(Path("odd"))
    with pytest.raises(ModelFileError, match=r"odd is a .*: give a model file"):
        pcegp.load("odd")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have(name):
    with pytest.raises(ModelFileError, match="no file can be called '") as found:
        pcegp.load(name)
    assert str(found.value).isprintable()


def test_a_file_that_tells_no_size_is_not_read_for_ever():
    with pytest.raises(ModelFileError, match="not a model file"):
        pcegp.load("/proc/self/status")


@pytest.mark.parametrize("change", [{"max_iter": 3}, {"degree": 2}, {"checkpoints": []}])
def test_parameters_changed_after_fit_do_not_replace_a_good_file(path, change):
    model, before = pcegp.load(path), path.read_bytes()
    model.set_params(**change)
    with pytest.raises(SettingError, match=r"changed after fit|goes beyond max_iter"):
        model.save(path)
    assert path.read_bytes() == before


def test_a_column_name_that_cannot_be_written_is_refused_at_fit():
    frame = pd.DataFrame(X, columns=pd.Index(["a", "\ud800"], dtype=object))
    with pytest.raises(DataError, match=r"'\\ud800' is no text"):
        PCEGPRegressor(max_iter=1).fit(frame, Y)


@pytest.fixture(scope="module")
def of_table():
    """A model of a table, with a column of numbers and one of two categories."""
    rows = np.column_stack([X[:, 0], X[:, 1] > 0.5, X[:, 1] <= 0.5])
    encoding = Encoding("y", ("a", "c"), {"c": ("u", "v")}, {"a": 0.5})
    model = fit_named(PCEGPRegressor(max_iter=2, n_draws=0), rows, Y, encoding.names)
    model.encoding_ = encoding
    return model


@pytest.mark.parametrize("change", [
    *forged("encoding.features", ["c", "a"], ["a", "b", "d"], ["a", "a", "a"], ["a"], [], None),
    *forged("encoding.target", "a", "c"),
    *forged("encoding.categories.c", ["v", "u"], ["u", "u"], ["u"], []),
    *forged("encoding.medians.a", "0.5", None),
    *forged("features", ["c=u", "a", "c=v"]),
])
def test_an_encoding_of_other_columns_is_refused(of_table, tmp_path, change, monkeypatch):
    path = of_table.save(tmp_path / "model.pcegp")
    assert pcegp.load(path).encoding_ == of_table.encoding_
    forge(path, change)
    monkeypatch.setattr("pcegp.estimators.model_state.condition", never)
    with pytest.raises(ModelFileError, match="the file does not hold"):
        pcegp.load(path)


def test_a_model_that_is_fitted_again_forgets_its_table(of_table, tmp_path):
    model = pcegp.load(of_table.save(tmp_path / "model.pcegp"))
    frame = pd.DataFrame(X, columns=["p", "q"])
    again = pcegp.load(model.fit(frame, Y).save(tmp_path / "model.pcegp"))
    assert not hasattr(again, "encoding_")
    assert list(again.feature_names_in_) == ["p", "q"]
