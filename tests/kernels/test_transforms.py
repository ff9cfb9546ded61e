"""Transforms: their laws, and what is special about single ones."""

from __future__ import annotations

import numpy as np
import pytest

from laws import transform_laws
from pcegp.errors import SettingError
from pcegp.kernels import TRANSFORMS, transforms


@pytest.mark.parametrize("name", TRANSFORMS)
@transform_laws.each()
def test_laws(law, name):
    law(TRANSFORMS[name])


@pytest.mark.parametrize("name", ["shift", "softplus", "sigmoid", "exponential"])
def test_positive_at_the_training_points(name):
    assert (TRANSFORMS[name].value(np.linspace(-30, 30, 101)[None]) > 0).all()


def test_shift_leaves_a_positive_field_alone_and_lifts_a_negative_one_to_its_lowest():
    shift = TRANSFORMS["shift"]
    positive, negative = np.array([[0.5, 2.0]]), np.array([[-0.5, 2.0]])
    np.testing.assert_array_equal(shift.value(positive), positive)
    np.testing.assert_allclose(shift.value(negative), [[0.01, 2.51]])
    with pytest.raises(SettingError, match="shift"):
        shift.inverse(-1.0)


def test_a_known_name_cannot_be_registered_again():
    with pytest.raises(SettingError, match="exists already"):
        transforms.register(TRANSFORMS["sigmoid"])
