"""Scaling there and back, over the whole range of floating-point numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from pcegp.errors import DataError, SettingError
from pcegp.preprocessing import fit_inputs, standardise
from pcegp.preprocessing.maps import fit_input_scaler

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
    scaler, values = standardise(y, ONES)
    assert abs(values.mean()) < 1e-6
    assert values.std() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(scaler.mean(scaler.transform(y)), y, rtol=1e-12)
    spread = 10.0**exponent * X[:, 0].std()
    assert scaler.deviation(np.ones(1))[0] == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize("value", [0.0, -7.0, 1e-30])
def test_constant_targets_keep_their_magnitude(value):
    scaler, values = standardise(np.full(20, value), ONES)
    np.testing.assert_array_equal(values, 0.0)
    assert scaler.mean(np.zeros(1))[0] == value
    assert scaler.deviation(np.ones(1))[0] == pytest.approx(abs(value) or 1.0)


def test_weights_are_repeats():
    weights = np.array([3.0] + [1.0] * 19)
    rows = np.concatenate([[0, 0], np.arange(20)])
    for name in ("minmax", "standard"):
        weighted = fit_input_scaler(name, X, (-0.5, 0.5), weights)
        repeated = fit_input_scaler(name, X[rows], (-0.5, 0.5), np.ones(22))
        np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), rtol=1e-12)
    (ours, _), (peer, _) = standardise(X[:, 0], weights), standardise(X[rows, 0], np.ones(22))
    assert (ours.center, ours.width) == pytest.approx((peer.center, peer.width))


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


@given(arrays(np.float64, 7, elements=st.integers(-(10**9), 10**9)), st.integers(-60, 60))
def test_targets_are_rounded_and_powers_of_two_do_not_matter(y, power):
    scaler, values = standardise(y, np.ones(7))
    exact = scaler.transform(y)
    assert (np.abs(values - exact) <= 2.0**-32 * np.abs(exact).max()).all()
    np.testing.assert_array_equal(standardise(np.ldexp(y, power), np.ones(7))[1], values)


@pytest.mark.parametrize("factor", [2.54, 1e-3, 7.0])
def test_the_same_target_in_other_units_is_the_same_to_the_last_bit(factor):
    values = standardise(X[:, 0], ONES)[1]
    np.testing.assert_array_equal(standardise(factor * X[:, 0], ONES)[1], values)


def test_an_offset_does_not_blur_the_standardised_target():
    y = np.ldexp(np.arange(20.0) ** 2 % 7, -20)
    plain, shifted = (standardise(target, ONES)[1] for target in (y, y + 2.0**30))
    np.testing.assert_array_equal(plain, shifted)


def test_columns_that_do_not_vary_are_left_out_and_come_back():
    columns = np.column_stack([X[:, 0], np.full(20, 7.0), X[:, 1]])
    inputs = fit_inputs(columns, "minmax", (-0.5, 0.5), ONES)
    scaled = inputs.transform(columns)
    np.testing.assert_array_equal(inputs.active, [True, False, True])
    np.testing.assert_array_equal(scaled.min(axis=0), inputs.lower)
    np.testing.assert_array_equal(scaled.max(axis=0), inputs.upper)
    np.testing.assert_allclose(inputs.inverse(scaled), columns, atol=1e-9)
    assert inputs.constant_columns(["a", "b", "c"]) == ["'b'"]
    assert not inputs.outside(columns, scaled).any()
    for beyond in (np.array([9.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])):
        row = columns[:1] + beyond
        assert inputs.outside(row, inputs.transform(row)).all()


def test_where_nothing_varies_there_is_one_column_of_zeros():
    inputs = fit_inputs(np.ones((20, 3)), "minmax", (-0.5, 0.5), ONES)
    np.testing.assert_array_equal(inputs.transform(np.ones((4, 3))), np.zeros((4, 1)))
    np.testing.assert_array_equal(inputs.inverse(np.zeros((4, 1))), np.ones((4, 3)))


@given(st.integers(-200, 200), st.sampled_from([1.0, 2.54, 1e-3]))
def test_the_same_rows_in_other_units_are_the_same_inputs(exponent, factor):
    """To the last bit: hundreds of steps of training would show it."""
    ours, other = X, X * factor * 2.0**exponent
    maps = [fit_inputs(A, "minmax", (-0.5, 0.5), ONES) for A in (ours, other)]
    np.testing.assert_array_equal(maps[0].transform(ours), maps[1].transform(other))
