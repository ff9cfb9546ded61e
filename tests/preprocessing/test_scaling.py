"""Scaling there and back, over the whole range of floating-point numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from pcegp.errors import DataError, SettingError
from pcegp.preprocessing.scaling import fit_input_scaler, fit_target_scaler, settled

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
ONES = np.ones(20)
magnitudes = st.integers(-300, 300)


@pytest.mark.parametrize(
    ("name", "peer"),
    [("minmax", MinMaxScaler((-0.5, 0.5))), ("standard", StandardScaler())],
)
def test_equal_to_scikit_learn(name, peer):
    ours = fit_input_scaler(name, X, (-0.5, 0.5), ONES).transform(X)
    np.testing.assert_allclose(ours, peer.fit_transform(X), rtol=1e-12, atol=1e-14)


def test_none_and_custom_scalers():
    np.testing.assert_array_equal(fit_input_scaler("none", X, (0, 1), ONES).transform(X), X)
    custom = fit_input_scaler(StandardScaler(), X, (0, 1), ONES)
    np.testing.assert_allclose(custom.transform(X), StandardScaler().fit_transform(X))


@given(magnitudes)
def test_inputs_of_any_magnitude_scale_alike(exponent):
    ours = fit_input_scaler("minmax", X * 10.0**exponent, (-0.5, 0.5), ONES)
    reference = fit_input_scaler("minmax", X, (-0.5, 0.5), ONES)
    np.testing.assert_allclose(
        ours.transform(X * 10.0**exponent), reference.transform(X), rtol=1e-10, atol=1e-12
    )


@given(st.integers(-290, 290), st.sampled_from([0.0, 1e6]))
def test_targets_come_back(exponent, offset):
    y = (X[:, 0] + offset) * 10.0**exponent
    scaler = fit_target_scaler(y, ONES)
    standardised = scaler.transform(y)
    assert abs(standardised.mean()) < 1e-6
    assert standardised.std() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(scaler.mean(standardised), y, rtol=1e-12)
    spread = 10.0**exponent * X[:, 0].std()
    assert scaler.deviation(np.ones(1))[0] == pytest.approx(spread, rel=1e-6)


def test_constant_targets_keep_their_magnitude():
    for value in (0.0, -7.0, 1e-30):
        scaler = fit_target_scaler(np.full(20, value), ONES)
        np.testing.assert_array_equal(scaler.transform(np.full(20, value)), 0.0)
        assert scaler.mean(np.zeros(1))[0] == value
        assert scaler.deviation(np.ones(1))[0] == pytest.approx(abs(value) or 1.0)


def test_weights_are_repeats():
    weights = np.array([3.0] + [1.0] * 19)
    rows = np.concatenate([[0, 0], np.arange(20)])
    for name in ("minmax", "standard"):
        weighted = fit_input_scaler(name, X, (-0.5, 0.5), weights)
        repeated = fit_input_scaler(name, X[rows], (-0.5, 0.5), np.ones(22))
        np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), rtol=1e-12)
    weighted, repeated = fit_target_scaler(X[:, 0], weights), fit_target_scaler(
        X[rows, 0], np.ones(22)
    )
    assert weighted.center == pytest.approx(repeated.center)
    assert weighted.width == pytest.approx(repeated.width)


@pytest.mark.parametrize(
    ("function", "message"),
    [(lambda A: A * np.nan, "FunctionTransformer returned NaN"),
     (lambda A: A[:, :2], "must keep the shape")],
)
def test_a_custom_scaler_that_breaks_the_data_is_named(function, message):
    scaler = fit_input_scaler(FunctionTransformer(function), X, (0, 1), ONES)
    with pytest.raises(DataError, match=message):
        scaler.transform(X)


def test_unknown_scaler_lists_the_known_ones():
    with pytest.raises(SettingError, match="minmax, standard, none"):
        fit_input_scaler("robust", X, (0, 1), ONES)


@given(arrays(np.float64, (7, 3), elements=st.floats(-1e6, 1e6)), st.integers(-60, 60))
def test_settled_numbers_are_near_and_stay(A, power):
    near = settled(A)
    assert (np.abs(near - A) <= 2.0**-32 * np.abs(A).max(axis=0)).all()
    np.testing.assert_array_equal(settled(near), near)
    np.testing.assert_array_equal(settled(np.ldexp(A, power)), np.ldexp(near, power))


def test_an_offset_does_not_blur_the_standardised_target():
    y = np.ldexp(np.arange(20.0) ** 2 % 7, -20)
    plain, shifted = fit_target_scaler(y, ONES), fit_target_scaler(y + 2.0**30, ONES)
    np.testing.assert_array_equal(plain.transform(y), shifted.transform(y + 2.0**30))
