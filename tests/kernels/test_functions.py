"""Covariance functions: their laws, scikit-learn's values, and a new one by its name."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic

from laws import covariance_laws
from pcegp.errors import SettingError
from pcegp.kernels import COVARIANCES, functions
from small_models import BUILT_IN


@pytest.mark.parametrize("name", COVARIANCES)
@covariance_laws.each()
def test_laws(law, name):
    law(COVARIANCES[name])


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
    np.testing.assert_allclose(functions.get(name).evaluate(distance)[0], kernel(X), atol=1e-13)


def test_they_are_known_by_their_names():
    assert tuple(functions.COVARIANCES)[:5] == BUILT_IN
    assert all(functions.get(name).name == name for name in BUILT_IN)


@pytest.mark.parametrize("name", ["rbf", 3, None, ["matern32"]])
def test_unknown_name_lists_the_known_ones(name):
    with pytest.raises(SettingError, match=r"covariance=.* is not known: .*matern32"):
        functions.get(name)


def test_a_known_name_cannot_be_registered_again():
    with pytest.raises(SettingError, match="exists already"):
        functions.register(functions.get("matern32"))
