"""Laws of covariance functions: correlation at 0, decay, slopes, positive definiteness."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic

from pcegp import PCEGPRegressor
from pcegp.errors import SettingError
from pcegp.kernels import functions as covariance
from pcegp.kernels.functions import CovarianceFunction, compiled

BUILT_IN = covariance.names()[:5]
D = np.concatenate([[0.0], np.logspace(-8, 3, 400)])

by_name = pytest.mark.parametrize("name", BUILT_IN)


@by_name
def test_one_at_zero_then_falling(name):
    value, slope, _ = covariance.get(name).evaluate(D)
    assert value[0] == 1.0
    assert (np.diff(value) <= 0).all()
    assert (value >= 0).all()
    assert (slope <= 0).all()


@by_name
def test_slope_equals_central_difference(name):
    function, at, h = covariance.get(name), np.linspace(0.2, 9, 50), 1e-5
    _, slope, _ = function.evaluate(at)
    numeric = (function.evaluate(at + h)[0] - function.evaluate(at - h)[0]) / (2 * h)
    np.testing.assert_allclose(slope, numeric, rtol=1e-7)


def test_shape_slope_equals_central_difference():
    function, at, h = covariance.get("rational_quadratic"), np.linspace(0.2, 9, 50), 1e-5
    _, _, shape_slope = function.evaluate(at, 1.7)
    numeric = (function.evaluate(at, 1.7 + h)[0] - function.evaluate(at, 1.7 - h)[0]) / (2 * h)
    np.testing.assert_allclose(shape_slope, numeric, rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("squared_exponential", RBF(1.0)),
        ("absolute_exponential", Matern(1.0, nu=0.5)),
        ("matern32", Matern(1.0, nu=1.5)),
        ("matern52", Matern(1.0, nu=2.5)),
        ("rational_quadratic", RationalQuadratic(1.0, alpha=1.0)),
    ],
)
def test_equal_to_scikit_learn(name, kernel):
    X = np.random.default_rng(0).normal(size=(40, 3))
    distance = cdist(X, X, "sqeuclidean")
    np.testing.assert_allclose(covariance.get(name).evaluate(distance)[0], kernel(X), atol=1e-13)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(SettingError, match=r"covariance='rbf' is not known: .*matern32"):
        covariance.resolve("rbf")


@pytest.mark.parametrize("chosen", [[], ["matern32", "matern32"]])
def test_empty_or_repeated_choice_is_refused(chosen):
    with pytest.raises(SettingError, match="covariance"):
        covariance.resolve(chosen)


@compiled
def _cauchy(D, n, shape, value, slope, shape_slope):
    for j in range(n):
        f = 1.0 / (1.0 + D[j])
        value[j] = f
        slope[j] = -f * f


@pytest.fixture
def cauchy():
    yield covariance.register(CovarianceFunction("cauchy", _cauchy))
    del covariance._REGISTRY["cauchy"]


def test_a_new_covariance_function_is_one_function(cauchy):
    """What docs/covariances.md shows: register it, then use it by its name."""
    value, slope, _ = cauchy.evaluate(np.array([0.0, 1.0, 3.0]))
    np.testing.assert_allclose(value, [1, 1 / 2, 1 / 4])
    np.testing.assert_allclose(slope, [-1, -1 / 4, -1 / 16])

    x = np.linspace(0, 1, 25)[:, None]
    y = np.sin(8 * x[:, 0])
    model = PCEGPRegressor(["cauchy", "matern52"], max_iter=80).fit(x, y)
    assert model.score(x, y) > 0.99
    assert pickle.loads(pickle.dumps(cauchy)) is cauchy  # noqa: S301


def test_a_known_name_cannot_be_registered_again(cauchy):
    with pytest.raises(SettingError, match="exists already"):
        covariance.register(cauchy)
