"""Monotone maps of inputs: their order, their range, their weights and their units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pcegp.errors import SettingError
from pcegp.preprocessing import LINEAR, MONOTONE, MonotoneMap, fit_monotone
from pcegp.preprocessing.maps import fit_inputs

RNG = np.random.default_rng(0)
COLUMNS = {
    "uniform": RNG.uniform(-0.5, 0.5, 50),
    "skewed": np.exp(2.0 * RNG.normal(size=50)),
    "to the left": -np.exp(RNG.normal(size=50)),
    "heavy tails": RNG.standard_t(1, 50),
    "binary": np.repeat([0.0, 1.0], [40, 10]),
    "counts": RNG.poisson(2.0, 50).astype(float),
    "one outlier": np.append(RNG.uniform(size=49), 1e6),
}
X = np.column_stack(list(COLUMNS.values()))
ONES = np.ones(50)
BENT = [name for name in MONOTONE if name != "linear"]


def by_name(name, inputs=X, weights=ONES):
    return fit_monotone(name, inputs, weights)


@pytest.mark.parametrize("name", MONOTONE)
def test_each_map_keeps_the_order_and_the_range_of_every_column(name):
    mapped = by_name(name).transform(X)
    for before, after in zip(X.T, mapped.T, strict=True):
        order = np.argsort(before, kind="stable")
        assert (np.diff(after[order]) >= 0).all()
        # What differs by more than rounding stays apart.
        apart = np.diff(before[order]) > 1e-9 * np.ptp(before)
        assert (np.diff(after[order])[apart] > 0).all()
    for end in (np.min, np.max):
        np.testing.assert_allclose(end(mapped, axis=0), end(X, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", BENT)
@given(column=arrays(float, st.integers(2, 30), elements=st.floats(-0.5, 0.5)))
def test_whatever_the_scaled_column_its_order_stays_and_nothing_is_lost(name, column):
    column = np.concatenate([column, [-0.5, 0.5]])[:, None]  # as "minmax" leaves it
    mapped = by_name(name, column, np.ones(len(column))).transform(column)[:, 0]
    assert np.isfinite(mapped).all()
    assert (np.diff(mapped[np.argsort(column[:, 0], kind="stable")]) >= -1e-12).all()


@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize("small", [1e-30, 1e-105, 1e-216, 2.3e-308, 5e-324])
def test_a_crowd_next_to_nothing_wide_is_mapped_in_silence(name, small):
    column = np.array([[0.0], [small], [1.0]])
    mapped = by_name(name, column, np.ones(3)).transform(column)[:, 0]
    assert np.isfinite(mapped).all()
    assert (np.diff(mapped) >= 0).all()


def test_a_linear_map_changes_nothing():
    assert by_name("linear") is LINEAR
    assert LINEAR.is_linear
    assert LINEAR.transform(X) is X


@pytest.mark.parametrize("name", BENT)
def test_a_weight_of_two_equals_two_rows(name):
    weights = np.append([2.0, 3.0, 1.0, 4.0], np.ones(46))
    rows = np.repeat(np.arange(50), weights.astype(int))
    weighted, repeated = by_name(name, X, weights), by_name(name, X[rows], np.ones(len(rows)))
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", BENT)
def test_the_order_of_rows_does_not_matter(name):
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_allclose(by_name(name, X[order]).transform(X), by_name(name).transform(X),
                               rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize("unit", [1e-9, 2.54, 1e12])
def test_units_do_not_matter_once_columns_are_scaled(name, unit):
    def spread(columns):
        scaled = fit_inputs(columns, "minmax", (-0.5, 0.5), ONES).transform(columns)
        return by_name(name, scaled).transform(scaled)

    np.testing.assert_allclose(spread(unit * X + unit), spread(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", MONOTONE)
def test_outside_of_the_training_range_it_goes_on_and_stays_outside(name):
    fitted = by_name(name)
    lowest, highest = X.min(axis=0), X.max(axis=0)
    steps = np.array([0.0, 1e-3, 0.1, 0.5, 1.0, 10.0, 1e3])[:, None] * (highest - lowest)
    above, below = fitted.transform(highest + steps), fitted.transform(lowest - steps)
    assert np.isfinite(above).all()
    assert np.isfinite(below).all()
    assert (np.diff(above, axis=0) > 0).all()
    assert (np.diff(below, axis=0) < 0).all()
    assert (above[1:] > highest).all()
    assert (below[1:] < lowest).all()


@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize("far", [1e20, 1e90, 1e300])
def test_however_far_outside_a_row_is_mapped_in_silence(name, far):
    fitted = by_name(name)
    above, below = fitted.transform(np.array([X.max(axis=0) + far, X.min(axis=0) - far]))
    assert np.isfinite(above).all()
    assert np.isfinite(below).all()
    assert (above > X.max(axis=0)).all()
    assert (below < X.min(axis=0)).all()


@pytest.mark.parametrize("name", BENT)
def test_a_skewed_column_is_spread(name):
    column = X[:, 1:2]
    mapped = by_name(name, column).transform(column)

    def share_in_the_lowest_tenth(values):
        return np.mean(values < values.min() + 0.1 * np.ptp(values))

    assert share_in_the_lowest_tenth(mapped) < 0.8 * share_in_the_lowest_tenth(column)


def test_the_likeliest_power_of_normal_values_changes_next_to_nothing():
    column = np.random.default_rng(2).normal(size=(2000, 1))
    fitted = by_name("power", column, np.ones(2000))
    assert fitted.power[0] == pytest.approx(1.0, abs=0.2)
    straight = np.corrcoef(fitted.transform(column)[:, 0], column[:, 0])[0, 1]
    assert straight > 0.999


@pytest.mark.parametrize("name", BENT)
def test_a_constant_column_stays_as_it_is(name):
    column = np.full((50, 1), 3.0)
    np.testing.assert_allclose(by_name(name, column).transform(column), column, rtol=1e-12)


@pytest.mark.parametrize("name", MONOTONE)
def test_made_again_from_its_columns_it_is_the_same_map(name):
    fitted = by_name(name)
    again = MonotoneMap.of(fitted.name, np.array(fitted.columns))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))


def test_another_name_is_refused():
    with pytest.raises(SettingError, match="linear, power, asinh"):
        by_name("logarithm")
