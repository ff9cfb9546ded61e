"""The vectorisable exp and log against NumPy over their whole range."""

from __future__ import annotations

import numpy as np
from numba import vectorize

from pcegp.numerics import elementary


@vectorize(["float64(float64)"])
def exp(x):
    return elementary.exp(x)


@vectorize(["float64(float64)"])
def log(x):
    return elementary.log(x)


def test_exp_over_its_range():
    x = -np.concatenate([np.linspace(0, 708, 200_001), np.logspace(-300, 2.85, 20_001)])
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=1e-14, atol=0)


def test_exp_is_exact_at_its_ends():
    assert exp(0.0) == exp(-0.0) == 1.0
    assert (exp(np.array([-708.1, -1e4, -1e300, -np.inf])) == 0.0).all()



def test_log_over_its_range():
    x = np.concatenate([1 + np.logspace(-15, 0, 50_001), np.logspace(0, 308, 200_001)])
    np.testing.assert_allclose(log(x), np.log(x), rtol=1e-14, atol=0)


def test_log_is_exact_at_one():
    assert log(1.0) == 0.0
