"""Model files: the same bits in another process, and no file that does harm."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from time import sleep
from warnings import catch_warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pcegp
from pcegp import PCEGPRegressor
from pcegp.errors import ExtrapolationWarning, FileError, ModelFileError, SettingError
from pcegp.io import archive
from pcegp.polynomials import Jacobi, Legendre

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a b": RNG.uniform(size=50), "ü": 1e6 * RNG.normal(size=50)})
Y = np.sin(8 * FRAME["a b"]) + 0.1 * RNG.normal(size=50)


@pytest.fixture(scope="module")
def model():
    return PCEGPRegressor(optimizer="nadam", degree=2, max_iter=20, n_draws=4,
                          checkpoints=[5, 10]).fit(FRAME, Y)


@pytest.fixture(scope="module")
def averaged():
    """A model of several structures, with maps that are not linear."""
    model = PCEGPRegressor(degree=1, max_iter=30).fit(np.exp(FRAME / [0.3, 1e6]), Y)
    maps = [each.process.input_map for each in model.model_.outputs[0].posterior.members]
    assert not all(each.is_linear for each in maps)
    return model


@pytest.fixture
def path(model, tmp_path):
    return model.save(tmp_path / "model.pcegp")


def test_a_loaded_model_is_the_same_to_the_last_bit(model, path):
    loaded = pcegp.load(path)
    assert loaded.get_params() == model.get_params()
    for ours, theirs in zip(loaded.predict(FRAME, return_std=True),
                            model.predict(FRAME, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.feature_names_in_, model.feature_names_in_)
    np.testing.assert_array_equal(loaded.loo_predict(), model.loo_predict())
    np.testing.assert_array_equal(loaded.at_checkpoint(5).predict(FRAME),
                                  model.at_checkpoint(5).predict(FRAME))
    assert loaded.fit_info_ == model.fit_info_
    assert loaded.log_marginal_likelihood_ == model.log_marginal_likelihood_
    for name, values in model.history_.items():
        np.testing.assert_array_equal(loaded.history_[name], values)


def test_a_loaded_average_is_the_same_to_the_last_bit(averaged, tmp_path):
    loaded = pcegp.load(averaged.save(tmp_path / "model.pcegp"))
    rows = np.exp(FRAME / [0.3, 1e6])
    assert loaded.get_params() == averaged.get_params()
    assert loaded.fit_info_ == averaged.fit_info_
    for ours, theirs in zip(loaded.model_.outputs[0].posterior.members,
                            averaged.model_.outputs[0].posterior.members, strict=True):
        np.testing.assert_array_equal(ours.theta, theirs.theta)
        np.testing.assert_array_equal(ours.process.input_map.columns,
                                      theirs.process.input_map.columns)
    for again in (loaded, pickle.loads(pickle.dumps(averaged))):  # noqa: S301
        for one, other in zip(again.predict(rows, return_cov=True),
                              averaged.predict(rows, return_cov=True), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(again.loo_predict(), averaged.loo_predict())
        np.testing.assert_array_equal(again.sample_y(rows, 2), averaged.sample_y(rows, 2))
        np.testing.assert_array_equal(again.noise_variance(rows), averaged.noise_variance(rows))
    again = tmp_path / "again.pcegp"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "model.pcegp").read_bytes()


def test_another_process_predicts_the_same_bits(model, path, tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    code = ("import sys, numpy, pandas, pcegp\n"
            "model, rows = pcegp.load(sys.argv[1]), pandas.read_csv(sys.argv[2])\n"
            "numpy.save(sys.argv[3], model.predict(rows))")
    out = tmp_path / "mean.npy"
    subprocess.run([sys.executable, "-c", code, path, tmp_path / "rows.csv", out], check=True)
    rows = pd.read_csv(tmp_path / "rows.csv")
    np.testing.assert_array_equal(np.load(out), model.predict(rows))


@pytest.mark.parametrize("params", [
    {"basis": [Jacobi(0.5, 2.0), Legendre()], "input_scaler": "standard"},
    {"scale": "weighted", "scale_transform": "softplus", "noise": "constant", "random_state": None},
    {"covariance": "matern52", "degree": 0, "input_range": (0, 1)},
    {"covariance": ["matern32", "matern52"], "noise": "none", "penalty": 2.0, "input_map": "asinh"},
    {"optimizer": "nadam", "n_draws": 2, "patience": 3, "l1_ratio": 0.5, "prior": 0.0},
    {"optimizer": "nadam", "input_map": "power", "covariance": "matern52"},
])
def test_every_kind_of_setting_comes_back(params, tmp_path):
    model = PCEGPRegressor(max_iter=5, **params).fit(FRAME, np.column_stack([Y, -Y]))
    loaded = pcegp.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    again = tmp_path / "again"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "m").read_bytes()


def test_what_cannot_be_kept_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(NotFittedError):
        PCEGPRegressor().save(tmp_path / "m")
    model = PCEGPRegressor(max_iter=2, input_scaler=StandardScaler()).fit(FRAME, Y)
    with pytest.raises(SettingError, match=r"input_scaler.*joblib"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_leaves_the_old_file(model, path):
    with pytest.raises(FileError, match="cannot write"):
        model.save(path / "inside")
    assert pcegp.load(path).n_iter_ == 20


def test_files_of_another_kind(tmp_path):
    for name, content in (("empty", b""), ("text", b"hello"), ("pickle", pickle.dumps([1]))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelFileError, match="not a model file"):
            pcegp.load(tmp_path / name)
    with pytest.raises(ModelFileError, match="cannot read"):
        pcegp.load(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="is a folder: give a model file"):
        pcegp.load(tmp_path)


def test_every_truncation_and_every_flipped_bit_is_found(path):
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for cut in rng.integers(0, len(whole), 150):
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelFileError):
            pcegp.load(path)
    for at, bit in zip(rng.integers(0, len(whole), 300), rng.integers(0, 8, 300), strict=True):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << bit
        path.write_bytes(flipped)
        with pytest.raises(ModelFileError):
            pcegp.load(path)


def sealed(data):
    """The same bytes with a digest that fits: a file made to mislead."""
    body = data[:-64]
    return body + sha256(body).hexdigest().encode()


@pytest.mark.parametrize("kind", ["model", "averaged"])
def test_mutations_with_a_fitting_digest_do_no_harm(kind, request, tmp_path):
    path = request.getfixturevalue(kind).save(tmp_path / "model.pcegp")
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    for at in rng.integers(0, len(whole) - 64, 300):
        changed = bytearray(whole)
        changed[at] = rng.integers(256)
        path.write_bytes(sealed(bytes(changed)))
        try:
            loaded = pcegp.load(path)
        except ModelFileError:
            continue
        with catch_warnings(action="ignore", category=ExtrapolationWarning):
            assert np.isfinite(loaded.predict(FRAME)).all()


def rewritten(path, change_header=None, change=None, **zip_options):
    """The file with another header, members or compression, and a fitting digest."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    if change_header is not None:
        header = json.loads(members["model.json"])
        change_header(header)
        members["model.json"] = json.dumps(header).encode()
    if change is not None:
        change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **zip_options) as new:
        for name, content in members.items():
            new.writestr(name, content)
        new.comment = b"sha256:" + b"0" * 64
    path.write_bytes(sealed(buffer.getvalue()))


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


class _Harm:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize("change", [
    lambda m: m.update({"arrays/X.npy": npy(np.zeros((3, 2), np.float32))}),
    lambda m: m.update({"arrays/X.npy": npy(np.array([_Harm()], dtype=object))}),
    lambda m: m.update({"arrays/X.npy": m["arrays/weights.npy"]}),
    lambda m: m.update({"arrays/X.npy": m["arrays/X.npy"][:-8]}),
    lambda m: m.update({"arrays/theta.0.npy": npy(np.zeros(3))}),
    lambda m: m.update({"arrays/X.npy": b"\x93NUMPY\x01\x00" + b"\xff\xff" + b" " * 70000}),
    lambda m: m.update({"../evil": b"x"}),
    lambda m: m.update({"arrays/../../evil.npy": npy(np.zeros(1))}),
    lambda m: m.update({"model.json": b"[" * 100_000}),
    lambda m: m.update({"model.json": b"\xff\xfe"}),
    lambda m: m.update({"model.json": b"[]"}),
    lambda m: m.pop("arrays/y.0.npy"),
    lambda m: m.pop("model.json"),
])
def test_members_made_to_mislead(path, change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rewritten(path, change=change)
    with pytest.raises(ModelFileError):
        pcegp.load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.pcegp"]


@pytest.mark.parametrize("change", [
    lambda h: h.update(format="1"),
    lambda h: h["params"].update(degree=10**9),
    lambda h: h["params"].update(degree=40, max_basis_gb=1e9),
    lambda h: h["params"].update(covariance="unknown"),
    lambda h: h["params"].update(unknown=1),
    lambda h: h["params"].update(basis={"__class__": "os.system"}),
    lambda h: h.update(n_outputs=10**12),
    lambda h: h.update(n_outputs=0),
    lambda h: h.update(targets=[]),
    lambda h: h.update(features=["a"]),
    lambda h: h.pop("params"),
    lambda h: h.pop("shift"),
])
def test_headers_made_to_mislead(path, change):
    rewritten(path, change)
    with pytest.raises(ModelFileError):
        pcegp.load(path)


def test_a_compressed_file_is_refused_before_it_grows(path):
    rewritten(path, change=lambda m: m.update({"arrays/X.npy": npy(np.zeros(10**6))}),
              compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2e6
    with pytest.raises(ModelFileError, match="stored plainly"):
        pcegp.load(path)


def test_a_newer_format_and_a_large_file_say_what_to_do(path):
    with pytest.raises(ModelFileError, match="max_gb"):
        pcegp.load(path, max_gb=1e-6)
    rewritten(path, lambda h: h.update(format=archive.FORMAT + 1))
    with pytest.raises(ModelFileError, match="update pcegp"):
        pcegp.load(path)


def test_killing_save_leaves_the_old_or_the_new_file(path):
    code = ("import sys, pcegp\n"
            "model = pcegp.load(sys.argv[1])\n"
            "earlier = model.at_checkpoint(5)\n"
            "print('ready', flush=True)\n"
            "while True:\n"
            "    earlier.save(sys.argv[1])\n"
            "    model.save(sys.argv[1])\n")
    rng = np.random.default_rng(2)
    for _ in range(3):  # `pcegp bench files` kills many more
        process = subprocess.Popen([sys.executable, "-c", code, str(path)],
                                   stdout=subprocess.PIPE)
        process.stdout.readline()
        sleep(rng.uniform(0, 0.05))
        process.kill()
        process.communicate()
        assert pcegp.load(path).n_iter_ in (5, 20)


def test_a_file_of_the_first_format_still_loads():
    model = pcegp.load(Path(__file__).parents[1] / "data" / "format1.pcegp")
    row = pd.DataFrame({"flow": [0.5], "load": [7.0]})
    mean, std = model.predict(row, return_std=True)
    assert mean == pytest.approx([7.7795894], rel=1e-7)  # as printed when it was made
    assert std == pytest.approx([0.49791334], rel=1e-7)
    assert model.at_checkpoint(5).n_iter_ == 5


def test_a_file_of_the_second_format_still_loads():
    model = pcegp.load(Path(__file__).parents[1] / "data" / "format2.pcegp")
    row = pd.DataFrame({"flow": [0.5], "load": [7.0]})
    means = [member.predict(row) for member in model.estimators_]
    # As printed when it was made, by a plain mean of both.
    assert np.mean(means, axis=0) == pytest.approx([7.30500376], rel=1e-8)
    # The intervals of models with draws, and how models are mixed, are the present ones.
    mean, std = model.predict(row, return_std=True)
    assert mean == pytest.approx([7.30500376], rel=1e-4)
    assert std == pytest.approx([0.48678087], rel=0.3)


def test_a_file_of_the_third_format_still_loads():
    model = pcegp.load(Path(__file__).parents[1] / "data" / "format3.pcegp")
    mean, std = model.predict(np.array([[0.5, 0.5]]), return_std=True)
    assert len(model.model_.outputs[0].posterior.others.thetas) == 2
    assert mean == pytest.approx([0.6400243399638], rel=1e-9)  # as printed when it was made
    assert std == pytest.approx([0.3084299070667], rel=0.3)


def test_a_file_of_the_fourth_format_still_loads():
    model = pcegp.load(Path(__file__).parents[1] / "data" / "format4.pcegp")
    mean, std = model.predict(np.array([[0.5, 0.5]]), return_std=True)
    assert mean == pytest.approx([1.09146285], rel=1e-7)  # as printed when it was made
    assert std == pytest.approx([0.18442935], rel=1e-6)
    assert model.warm_up_rows is None  # every step saw every row then


def test_a_file_of_the_fifth_format_still_loads():
    model = pcegp.load(Path(__file__).parents[1] / "data" / "format5.pcegp")
    mean, std = model.predict(np.array([[0.5, 0.5]]), return_std=True)
    assert mean == pytest.approx([0.3802995656015646], rel=1e-9)  # as printed when it was made
    assert std == pytest.approx([0.20557205355619942], rel=1e-9)
    assert model.at_checkpoint(10).predict([[0.5, 0.5]]) == pytest.approx([0.36788023], rel=1e-7)
    assert model.inference == "exact"


def test_a_file_of_the_sixth_format_still_loads():
    model = pcegp.load(Path(__file__).parents[1] / "data" / "format6.pcegp")
    mean, std = model.predict(np.array([[0.5, 0.5]]), return_std=True)
    assert mean == pytest.approx([1.0818634677816712], rel=1e-9)  # as printed when it was made
    assert std == pytest.approx([0.2543913006921153], rel=1e-9)
    earlier = model.at_checkpoint(10).predict([[0.5, 0.5]])
    assert earlier == pytest.approx([1.0119569190900755], rel=1e-9)
    # What came later is as it was then.
    assert (model.optimizer, model.input_map) == ("nadam", "linear")
    assert len(model.model_.outputs[0].posterior.others.thetas) == 2


def test_a_file_of_the_seventh_format_still_loads():
    model = pcegp.load(Path(__file__).parents[1] / "data" / "format7.pcegp")
    mean, std = model.predict(np.array([[0.3, 0.4], [0.8, 0.1]]), return_std=True)
    assert mean == pytest.approx([2.55726044, 0.41090701], rel=1e-7)  # as printed when it was made
    assert std == pytest.approx([0.29229419, 0.21806274], rel=1e-6)
    assert model.target_map == "linear"  # what came later is as it was then


def test_pipelines_are_kept_by_joblib_and_skops(tmp_path):
    pipeline = make_pipeline(StandardScaler(), PCEGPRegressor(max_iter=5))
    target = FRAME.sum(axis=1)
    pipeline.fit(FRAME, target)
    joblib.dump(pipeline, tmp_path / "pipeline.joblib")
    skops.io.dump(pipeline, tmp_path / "pipeline.skops")
    unknown = skops.io.get_untrusted_types(file=tmp_path / "pipeline.skops")
    assert unknown == ["pcegp.estimators.regressor.PCEGPRegressor"]
    for loaded in (joblib.load(tmp_path / "pipeline.joblib"),
                   skops.io.load(tmp_path / "pipeline.skops", trusted=unknown)):
        assert (loaded.predict(FRAME) == pipeline.predict(FRAME)).all()


def test_a_pickle_is_small_and_the_same(path):
    model = pcegp.load(path)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert (again.predict(FRAME) == model.predict(FRAME)).all()
    assert again.history_.keys() == model.history_.keys()
    twin = copy.copy(model)
    assert twin.model_ is model.model_
