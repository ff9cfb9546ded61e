"""Odd data and events, one test each; docs/faults.md lists them with what the user gets."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

import pcegp
from pcegp import PCEGPRegressor
from pcegp.errors import (
    DataError,
    DataWarning,
    FileError,
    NumericalWarning,
    PCEGPError,
    TrainingError,
)
from pcegp.metrics import rmse
from small_models import free, quick

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(11)
X = RNG.uniform(0, 1, (60, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.05 * RNG.normal(size=60)
NEW = RNG.uniform(0.1, 0.9, (9, 2))


def by_nadam(**changes):
    settings = {"optimizer": "nadam", "degree": 2, "max_iter": 30, "n_draws": 2}
    return PCEGPRegressor(**{**settings, **changes})


every_training = pytest.mark.parametrize("make", [quick, free, by_nadam])


def test_every_row_of_the_fault_table_names_a_test_that_exists():
    table = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+b?) \|.*\| `(test_\w+)::(\w+)` \|$", table, re.MULTILINE)
    numbers = [number for number, _, _ in rows]
    numbered = [str(n) for n in range(1, len(numbers))]
    assert numbers == [*numbered[:38], "38b", *numbered[38:]]
    for number, module, name in rows:
        (path,) = (ROOT / "tests").rglob(f"{module}.py")
        source = path.read_text(encoding="utf-8")
        assert f"def {name}(" in source, f"row {number}"


@every_training
def test_numbers_in_an_object_column_are_converted(make):
    mixed = np.array([[1, 2.5], ["3", 4], [5, "6e0"]], dtype=object)
    plain = mixed.astype(float)
    y = np.array([1.0, 2.0, 4.0])
    with pytest.warns(DataWarning):
        one, other = make().fit(mixed, y), make().fit(plain, y)
    assert (one.predict(plain) == other.predict(plain)).all()


@every_training
def test_all_columns_constant_is_a_constant_model(make):
    with pytest.warns(DataWarning, match="constant column"):
        model = make(max_iter=200).fit(np.ones((40, 2)), Y[:40])
    mean, std = model.predict(np.ones((1, 2)), return_std=True)
    assert mean[0] == pytest.approx(Y[:40].mean(), abs=0.2)
    assert std[0] == pytest.approx(Y[:40].std(), rel=0.3)


@every_training
def test_repeated_rows_with_other_targets_teach_the_noise(make):
    twice = np.vstack([X, X, X])
    y = np.concatenate([Y, Y, Y]) + 0.5 * RNG.normal(size=180)
    model = make(max_iter=200, noise="constant").fit(twice, y)
    assert np.sqrt(model.noise_variance(X[:1])[0]) == pytest.approx(0.5, rel=0.2)


@pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")
@every_training
def test_collinear_columns_cost_no_accuracy(make):
    third = X @ [1.0, 2.0]
    wide = np.column_stack([X, third, X[:, 0]])
    fresh = RNG.uniform(0, 1, (300, 2))
    truth = np.sin(5 * fresh[:, 0]) + fresh[:, 1]
    one = make(max_iter=200).fit(X, Y)
    other = make(max_iter=200).fit(wide, Y)
    also = np.column_stack([fresh, fresh @ [1.0, 2.0], fresh[:, 0]])
    assert rmse(truth, one.predict(fresh)) < 0.08  # of a range of 3
    assert rmse(truth, other.predict(also)) < 0.08


@pytest.mark.parametrize("exponent", [-300, -30, 30, 300])
@every_training
def test_columns_of_any_scale_predict_the_same(make, exponent):
    with np.errstate(all="raise"):
        scaled = make().fit(X * [10.0**exponent, 1.0], Y)
        mean, std = scaled.predict(NEW * [10.0**exponent, 1.0], return_std=True)
    plain_mean, plain_std = make().fit(X, Y).predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, plain_mean, rtol=1e-8)
    np.testing.assert_allclose(std, plain_std, rtol=1e-8)


@every_training
def test_a_large_offset_of_a_column_loses_only_rounding(make):
    offset = np.array([1e9, 0.0])
    shifted = make().fit(X + offset, Y).predict(NEW + offset)
    rounded = make().fit((X + offset) - offset, Y).predict((NEW + offset) - offset)
    np.testing.assert_allclose(shifted, rounded, rtol=1e-6)


@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e-12, 1e12, 1e30, 1e300])
@every_training
def test_targets_of_any_scale_are_equivariant(make, factor):
    mean, std = make().fit(X, Y).predict(NEW, return_std=True)
    scaled_mean, scaled_std = make().fit(X, factor * Y).predict(NEW, return_std=True)
    np.testing.assert_allclose(scaled_mean / factor, mean, rtol=1e-6)
    np.testing.assert_allclose(scaled_std / factor, std, rtol=1e-6)


@every_training
def test_a_large_offset_of_the_target_is_equivariant(make):
    mean, std = make().fit(X, (Y + 1e9) - 1e9).predict(NEW, return_std=True)
    shifted_mean, shifted_std = make().fit(X, Y + 1e9).predict(NEW, return_std=True)
    np.testing.assert_allclose(shifted_mean - 1e9, mean, atol=1e-6)
    np.testing.assert_allclose(shifted_std, std, rtol=1e-6)


@every_training
def test_an_outlier_of_a_billion_deviations_leaves_a_finite_model(make):
    y = Y.copy()
    y[7] = 1e9
    mean, std = make(max_iter=100).fit(X, y).predict(NEW, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@pytest.mark.parametrize("kind", ["binary", "counts", "heavy tails"])
@every_training
def test_unusual_columns_work(make, kind):
    column = {"binary": RNG.integers(0, 2, 60), "counts": RNG.poisson(3, 60),
              "heavy tails": RNG.standard_cauchy(60)}[kind]
    wide = np.column_stack([X, column])
    assert np.isfinite(make().fit(wide, Y).predict(wide)).all()


@pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")
@pytest.mark.parametrize("make", [quick, by_nadam])
def test_far_away_the_prior_returns(make):
    model = make(max_iter=100).fit(X, Y)
    far = X.mean(axis=0) + 1e6 * (NEW - X.mean(axis=0))
    mean, std = model.predict(far, return_std=True, include_noise=False)
    target, posterior = model.model_.outputs[0].target, model.model_.outputs[0].base
    np.testing.assert_allclose(mean, Y.mean(), rtol=1e-6)
    np.testing.assert_allclose(std, target.deviation(np.sqrt(posterior.prior_variance)), rtol=1e-6)


def test_no_rows_to_predict_is_scikit_learns_error():
    with pytest.raises(ValueError, match="0 sample"):
        quick().fit(X, Y).predict(np.empty((0, 2)))


def test_a_scaler_that_spoils_the_data_is_named():
    spoiling = FunctionTransformer(lambda Z: np.where(Z > 0.5, np.nan, Z))
    with pytest.raises(DataError, match="FunctionTransformer"):
        quick(input_scaler=spoiling).fit(X, Y)
    narrowing = FunctionTransformer(lambda Z: Z[:, :1])
    with pytest.raises(DataError, match="FunctionTransformer"):
        quick(input_scaler=narrowing).fit(X, Y)


@pytest.mark.filterwarnings("ignore::pcegp.errors.NumericalWarning")
@pytest.mark.parametrize("make", [quick, by_nadam])
def test_five_hundred_points_within_rounding_of_each_other(make):
    close = 0.5 + 1e-12 * RNG.normal(size=(500, 2))
    model = make(max_iter=10, noise_floor=0.0).fit(close, RNG.normal(size=500))
    mean, std = model.predict(close, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_a_start_without_a_finite_likelihood_is_a_named_error():
    model = by_nadam(initial_scale=1e300, scale_transform="identity", max_iter=3)
    with pytest.raises(TrainingError, match=r"noise_floor.*initial_scale"):
        model.fit(X, Y)


@pytest.mark.parametrize("make", [quick, free])
def test_a_start_at_which_all_rows_are_unrelated_leaves_a_finite_model(make):
    model = make(initial_scale=1e300, scale_transform="identity", max_iter=3).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(std).all()


@pytest.mark.parametrize("optimizer", ["lbfgs", "nadam"])
def test_a_variance_below_rounding_is_never_zero(optimizer):
    grid = np.linspace(0, 1, 40)[:, None]
    model = PCEGPRegressor(covariance="squared_exponential", degree=0, noise="expansion",
                           noise_transform="identity", noise_floor=0.0, max_iter=100,
                           optimizer=optimizer)
    with pytest.warns(NumericalWarning, match="singular to rounding"):
        model.fit(grid, grid[:, 0])
    for include_noise in (True, False):
        _, std = model.predict(grid, return_std=True, include_noise=include_noise)
        assert (std > 0).all()


def test_a_full_disk_is_named_and_the_old_file_stays(tmp_path):
    model = quick().fit(X, Y)
    path = tmp_path / "model.pcegp"
    model.save(path)
    before = path.read_bytes()
    code = (
        "import resource, signal, sys, pcegp\n"
        "model = pcegp.load(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"  # as if the disk were full
        "try:\n"
        "    model.save(sys.argv[1])\n"
        "except pcegp.errors.FileError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True,
                          check=True)
    assert str(path) in done.stdout
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.pcegp"]


def test_a_path_that_takes_no_file_is_named():
    with pytest.raises(FileError, match="/dev/null"):
        quick().fit(X, Y).save("/dev/null/model.pcegp")


def test_two_processes_that_save_to_one_path_leave_a_whole_file(tmp_path):
    path = tmp_path / "model.pcegp"
    quick().fit(X, Y).save(path)
    code = ("import sys, pcegp\n"
            "model = pcegp.load(sys.argv[1])\n"
            "for _ in range(60): model.save(sys.argv[1])\n")
    savers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    while any(saver.poll() is None for saver in savers):
        assert np.isfinite(pcegp.load(path).predict(NEW)).all()
    assert [saver.returncode for saver in savers] == [0, 0]
    assert [p.name for p in tmp_path.iterdir()] == ["model.pcegp"]


def test_what_is_refused_leaves_the_users_data_alone():
    bad = X.copy()
    bad[3, 1] = np.nan
    before = bad.copy()
    with pytest.raises(PCEGPError):
        quick().fit(bad, Y)
    np.testing.assert_array_equal(bad, before)


@every_training
def test_laguerre_polynomials_start_at_the_corner_of_the_box(make):
    model = make(basis="laguerre", degree=2).fit(X - 5.0, Y)
    other = make(basis="laguerre", degree=2).fit(X + 5.0, Y)
    np.testing.assert_allclose(model.predict(NEW - 5.0), other.predict(NEW + 5.0), rtol=1e-6)
    with pytest.raises(PCEGPError, match="alpha"):
        pcegp.polynomials.Jacobi(-1.5, 0.0)
