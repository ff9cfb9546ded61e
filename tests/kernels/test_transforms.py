"""Laws of the transforms: inverse, range, and the pull-back as a vector-Jacobian product."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.errors import SettingError
from pcegp.kernels import transforms

by_name = pytest.mark.parametrize("name", transforms.TRANSFORMS)


@by_name
def test_inverse_of_a_constant(name):
    transform = transforms.get(name)
    for value in (0.05, 0.5, 0.9):
        u = np.full((1, 4), transform.inverse(value))
        np.testing.assert_allclose(transform.value(u, transform.offset(u)), value, rtol=1e-12)


@by_name
@pytest.mark.parametrize("level", [-0.5, 3.0])
def test_pull_back_equals_finite_differences(name, level):
    transform, rng = transforms.get(name), np.random.default_rng(0)
    u, weight = level + rng.normal(size=(2, 6)), rng.normal(size=(2, 6))
    h, numeric = 1e-6, np.empty_like(u)
    for index in np.ndindex(u.shape):
        up, down = u.copy(), u.copy()
        up[index] += h
        down[index] -= h
        difference = transform.value(up, transform.offset(up)) - transform.value(
            down, transform.offset(down)
        )
        numeric[index] = np.sum(weight * difference) / (2 * h)
    value = transform.value(u, transform.offset(u))
    np.testing.assert_allclose(transform.pull_back(u, value, weight), numeric, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["shift", "softplus", "sigmoid", "exponential"])
def test_positive_at_the_training_points(name):
    transform = transforms.get(name)
    u = np.linspace(-30, 30, 101)[None]
    assert (transform.value(u, transform.offset(u)) > 0).all()


def test_shift_leaves_a_positive_field_alone_and_lifts_a_negative_one_to_its_lowest():
    shift = transforms.get("shift")
    positive, negative = np.array([[0.5, 2.0]]), np.array([[-0.5, 2.0]])
    np.testing.assert_array_equal(shift.value(positive, shift.offset(positive)), positive)
    np.testing.assert_allclose(shift.value(negative, shift.offset(negative)), [[0.01, 2.51]])


@pytest.mark.parametrize("name", ["softplus", "sigmoid", "exponential"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_unreachable_start_values_are_refused(name, value):
    with pytest.raises(SettingError, match=name):
        transforms.get(name).inverse(value)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(SettingError, match="identity, shift, softplus, sigmoid, exponential"):
        transforms.get("relu")


def test_extreme_fields_stay_finite():
    u = np.array([[-1e6, 0.0, 1e6]])
    for name in ("softplus", "sigmoid", "exponential"):
        transform = transforms.get(name)
        value = transform.value(u, transform.offset(u))
        assert np.isfinite(value).all()
        assert np.isfinite(transform.pull_back(u, value, np.ones_like(u))).all()
