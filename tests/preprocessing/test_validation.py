"""Bad input: one clear sentence, before anything expensive, and nothing changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from pcegp import PCEGPRegressor
from pcegp.errors import BasisTooLargeError, DataError, PCEGPError, SettingError
from pcegp.estimators import settings
from pcegp.polynomials import Jacobi, Legendre
from pcegp.preprocessing.validation import check_number, check_range

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(20, 3))
Y = X[:, 0]


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """Every fault here must be found before training starts."""

    def refuse(*_, **__):
        pytest.fail("training started")

    for name in ("fit", "fit_by_evidence"):
        monkeypatch.setattr(f"pcegp.estimators.regressor.{name}", refuse)


def spoiled(value, rows, column):
    out = X.copy()
    out[rows, column] = value
    return out


@pytest.mark.parametrize(
    ("value", "what"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")]
)
def test_inputs_that_are_not_finite_are_named(value, what):
    frame = pd.DataFrame(spoiled(value, [2, 7], 1), columns=["a", "age", "c"])
    with pytest.raises(DataError, match=rf"{what}: column 'age' holds 2 \(rows 2, 7\)"):
        PCEGPRegressor().fit(frame, Y)
    with pytest.raises(DataError, match=rf"{what}: column number 1 holds 2 \(rows 2, 7\)"):
        PCEGPRegressor().fit(frame.to_numpy(), Y)


def test_targets_that_are_not_finite_are_named():
    y = Y.copy()
    y[[3, 5]] = np.nan
    with pytest.raises(DataError, match=r"y contains NaN in 2 rows \(3, 5\)"):
        PCEGPRegressor().fit(X, y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_text_columns_are_listed(frame):
    data = frame({"size": X[:, 0], "colour": ["red"] * 20, "grade": ["a"] * 20})
    with pytest.raises(DataError, match=r"not numbers .*'colour', 'grade'.*OneHotEncoder"):
        PCEGPRegressor().fit(data, Y)


def test_masked_sparse_and_complex_inputs_are_refused():
    masked = np.ma.masked_greater(X, 0.9)
    with pytest.raises(DataError, match="masked entries"):
        PCEGPRegressor().fit(masked, Y)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        PCEGPRegressor().fit(sparse.csr_array(X), Y)
    for fill in (0.0, np.nan):
        frame = pd.DataFrame({"a": pd.arrays.SparseArray(X[:, 0], fill_value=fill)})
        with pytest.raises(DataError, match="but dense data is required: give X"):
            PCEGPRegressor().fit(frame, Y)
    with pytest.raises(ValueError, match="Complex"):
        PCEGPRegressor().fit(X + 1j, Y)


@pytest.mark.parametrize(
    ("inputs", "targets"),
    [(np.empty((0, 3)), np.empty(0)), (np.empty((20, 0)), Y), (X[:, 0], Y), (X[None], Y),
     (X, Y[:-1])],
    ids=["no rows", "no columns", "1-D", "3-D", "other length"],
)
def test_wrong_shapes_are_refused(inputs, targets):
    with pytest.raises(ValueError, match=r"Expected 2D|minimum of 1|dim 3|inconsistent numbers"):
        PCEGPRegressor().fit(inputs, targets)


def test_text_in_arrays_is_named_with_its_place():
    inputs = X.astype(object)
    inputs[3, 2] = "n/a"
    with pytest.raises(DataError, match=r"'n/a' in column number 2, row 3"):
        PCEGPRegressor().fit(inputs, Y)
    with pytest.raises(DataError, match="y is not numbers"):
        PCEGPRegressor().fit(X, ["a"] * 20)
    with pytest.raises(DataError, match="sample_weight is not numbers"):
        PCEGPRegressor().fit(X, Y, sample_weight=["a"] * 20)


def test_dates_and_masked_targets_are_refused():
    dates = np.full((20, 1), np.datetime64("2026-01-01"))
    with pytest.raises(DataError, match="X holds dates"):
        PCEGPRegressor().fit(dates, Y)
    with pytest.raises(DataError, match="y holds dates"):
        PCEGPRegressor().fit(X, dates[:, 0])
    with pytest.raises(DataError, match=r"not numbers .*'day'"):
        PCEGPRegressor().fit(pd.DataFrame({"a": X[:, 0], "day": dates[:, 0]}), Y)
    with pytest.raises(DataError, match="y has 1 masked"):
        PCEGPRegressor().fit(X, np.ma.array(Y, mask=[True] + [False] * 19))


def test_columns_of_one_name_are_refused():
    frame = pd.DataFrame(X, columns=["a", "b", "a"])
    with pytest.raises(DataError, match="several columns named a"):
        PCEGPRegressor().fit(frame, Y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.ones(3), "20 rows"), (-np.ones(20), "negative"), (np.full(20, np.nan), "not finite"),
     (np.zeros(20), "zero in every row"), (np.full(20, 1e-30), "scale them to a mean of 1"),
     (np.eye(20)[3] * 1e30, r"largest sample_weight is 1e\+30 \(row 3\)")],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(DataError, match=message):
        PCEGPRegressor().fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"covariance": "rbf"}, "squared_exponential, absolute_exponential, matern32"),
        ({"covariance": []}, "covariance is empty"),
        ({"covariance": ["matern32", "matern32"]}, "covariance names one of them twice"),
        ({"basis": "fourier"}, "hermite, legendre, jacobi, laguerre"),
        ({"basis": 3}, "hermite, legendre, jacobi, laguerre"),
        ({"basis": Jacobi}, "hermite, legendre, jacobi, laguerre"),
        ({"basis": ["legendre", "cosine"]}, "basis='cosine'"),
        ({"basis": []}, "basis is empty"),
        ({"basis": ["legendre", "legendre"]}, "basis names one of them twice"),
        ({"inference": "guess"}, "inference='guess' is not known"),
        ({"prior": "guess"}, "prior='guess' is not known"),
        ({"scale_transform": "relu"}, "identity, shift, softplus"),
        ({"noise_transform": "relu"}, "noise_transform='relu' is not known"),
        ({"scale": "ard"}, "shared, weighted, per_input"),
        ({"noise": "white"}, "auto, constant, expansion, none"),
        ({"optimizer": "adam"}, "lbfgs, nadam"),
        ({"input_map": "log"}, "auto, linear, power, asinh"),
        ({"penalty": "strong"}, "penalty='strong'"),
        ({"penalty": None}, "penalty=None"),
        ({"input_scaler": "robust"}, "minmax, standard, none"),
        ({"degree": -1}, "degree=-1"),
        ({"degree": 1.5}, "degree=1.5"),
        ({"noise": "expansion", "noise_degree": -1}, "noise_degree=-1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"learning_rate": np.nan}, "learning_rate=nan"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"penalty": -1.0}, "penalty=-1.0"),
        ({"l1_ratio": 1.1}, "l1_ratio=1.1"),
        ({"noise_floor": -1e-3}, "noise_floor=-0.001"),
        ({"hyperbolic": 0.0}, "hyperbolic=0.0"),
        ({"max_interaction": 0}, "max_interaction=0"),
        ({"initial_scale": [1.0, 2.0]}, "initial_scale has 2 values"),
        ({"initial_scale": np.ones((2, 2))}, "initial_scale has 4 values"),
        ({"initial_scale": np.nan}, "initial_scale=nan"),
        ({"n_restarts": -1}, "n_restarts=-1"),
        ({"warm_up_rows": 0}, "warm_up_rows=0"),
        ({"warm_up_rows": 100.5}, "warm_up_rows=100.5"),
        ({"patience": 0}, "patience=0"),
        ({"checkpoints": [500], "max_iter": 100, "optimizer": "nadam"}, "beyond max_iter=100"),
        ({"input_range": (0.5, -0.5)}, "input_range"),
        ({"input_range": "ab"}, "input_range"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"input_scaler": None}, "input_scaler=None"),
        ({"covariance": None}, "covariance=None"),
        ({"covariance": [3, 3]}, "covariance=3"),
        ({"checkpoints": 5}, "checkpoints=5"),
        ({"initial_scale": "x"}, "initial_scale='x'"),
        ({"scale_transform": ["a"]}, "scale_transform="),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(SettingError, match=message):
        PCEGPRegressor(**settings).fit(X, Y)


def test_a_basis_too_large_for_memory_is_refused():
    wide = RNG.uniform(size=(20, 40))
    model = PCEGPRegressor(degree=8, max_interaction=None)
    with pytest.raises(BasisTooLargeError, match=r"377,348,994 terms and needs .* MB"):
        settings.resolve(model.get_params()).process(wide)


def test_parts_are_found_by_name_or_taken_as_they_are():
    def resolved(**changes):
        return settings.resolve(PCEGPRegressor(**changes).get_params())

    assert resolved(basis="jacobi").families == (Jacobi(),)
    mixed = resolved(basis=["legendre", Jacobi(2, 1)]).families
    assert mixed == (Legendre(), Jacobi(2, 1))
    np.testing.assert_allclose(resolved().scales(9), 1.0)
    own = resolved(covariance=["matern32", "matern52"], initial_scale=[1.0, 4.0])
    np.testing.assert_allclose(own.scales(9), [1.0, 4.0])


def test_every_error_is_ours_and_a_value_error_where_scikit_learn_expects_one():
    for error in (DataError, SettingError, BasisTooLargeError):
        assert issubclass(error, PCEGPError)
        assert issubclass(error, ValueError)


@pytest.mark.parametrize("settings", [{"learning_rate": 10**400}, {"penalty": -(10**400)},
                                      {"input_range": (0, 10**400)}])
def test_integers_beyond_all_floats_are_no_settings(settings):
    with pytest.raises(SettingError, match=f"{next(iter(settings))}=.*0… must be") as found:
        PCEGPRegressor(**settings).fit(X, Y)
    assert len(str(found.value)) < 200


def test_large_integers_are_numbers_and_no_weights():
    assert check_number("a", 10**30, 0.0) == 1e30
    assert check_range("a", (0, 10**30)) == (0.0, 1e30)
    with pytest.raises(SettingError, match="at most 1"):
        check_number("a", 10**30, 0.0, 1.0)
    with pytest.raises(DataError, match="sample_weight is not numbers"):
        PCEGPRegressor().fit(X, Y, sample_weight=[10**400] * len(X))
