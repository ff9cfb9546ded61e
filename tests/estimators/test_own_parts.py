"""A part that its user wrote and that does not work is named in one sentence, before training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pcegp import PCEGPRegressor
from pcegp.errors import SettingError
from pcegp.inference import Exact
from pcegp.kernels import CovarianceFunction, Transform, compiled
from pcegp.polynomials import Legendre
from pcegp.training import Term

RNG = np.random.default_rng(4)
X = RNG.uniform(size=(20, 2))
Y = X.sum(axis=1)


@compiled
def half(D, n, shape, value, slope, shape_slope):
    for j in range(n):
        value[j] = 0.5 / (1.0 + D[j])
        slope[j] = -value[j] / (1.0 + D[j])


class Odd(Transform):
    name = "odd"
    reach = (-np.inf, np.inf)
    text = "{0}"

    def value(self, u, offset=None):
        return u

    def pull_back(self, u, value, gradient):
        return gradient

    def inverse(self, value):
        return value


class TooShort(Odd):
    def value(self, u, offset=None):
        return u[..., 1:]


class Changes(Odd):
    def value(self, u, offset=None):
        u += 1.0
        return u.copy()


class Raises(Odd):
    def pull_back(self, u, value, gradient):
        raise KeyError("u")


class NotOne(Legendre):
    name = "not one"

    def values(self, x, degree):
        return 2.0 * super().values(x, degree)


class NoSupport(Legendre):
    name = "no support"
    support = (1.0, -1.0)


@dataclass(frozen=True)
class Prior:
    term: type

    def bind(self, process, centre):
        return self.term()


class Vector(Term):
    def value(self, theta):
        return theta

    def gradient(self, theta):
        return theta

    def precision(self):
        return np.ones(3)


class Negative(Vector):
    def value(self, theta):
        return 0.0

    def precision(self):
        return -np.ones(NUMBER)


#: A model of few parameters: the same with either optimizer.
FEW = {"max_iter": 3, "degree": 0, "covariance": "matern32", "noise": "constant"}
NUMBER = len(PCEGPRegressor(**FEW).fit(X, Y).model_.outputs[0].base.theta)


class Bytes(Exact):
    def bytes_needed(self, n, d):
        return "many"


class Scaler:
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        raise ZeroDivisionError("no")


@pytest.mark.parametrize("optimizer", ["lbfgs", "nadam"])
@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"covariance": CovarianceFunction("plain", len)}, "covariance 'plain' has no compiled"),
        ({"covariance": CovarianceFunction("half", half)}, "'half' is 0.5 at distance 0: it must"),
        ({"scale_transform": TooShort()}, "value of scale_transform 'odd' gave an array of shape"),
        ({"scale_transform": Changes()}, "scale_transform 'odd' changes the array"),
        ({"noise_transform": Raises(), "noise": "auto"},
         "pull_back of noise_transform 'odd' raised KeyError: 'u'"),
        ({"basis": NotOne()}, "basis 'not one' is not 1 at degree 0"),
        ({"basis": NoSupport()}, "support of basis 'no support' is"),
        ({"prior": Prior(Vector)}, "value of prior Prior gave an array of shape"),
        ({"prior": Prior(Negative)}, "precision of prior Prior is negative"),
        ({"prior": Prior(dict)}, "value of prior Prior raised AttributeError"),
        ({"inference": Bytes()}, "bytes_needed of inference 'exact' gave"),
        ({"input_scaler": Scaler()}, "input_scaler Scaler raised ZeroDivisionError: no"),
    ],
)
def test_a_part_that_does_not_work_is_named(parameters, text, optimizer, monkeypatch):
    for name in ("fit", "fit_by_evidence"):
        monkeypatch.setattr(f"pcegp.estimators.regressor.{name}",
                            lambda *_: pytest.fail("too late"))
    with pytest.raises(SettingError) as found:
        PCEGPRegressor(**{**FEW, "optimizer": optimizer, **parameters}).fit(X, Y)
    assert text in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("optimizer", ["lbfgs", "nadam"])
def test_a_part_that_works_changes_nothing(optimizer):
    settings = {"max_iter": 3, "optimizer": optimizer}
    own = PCEGPRegressor(scale_transform=Odd(), **settings).fit(X, Y)
    ours = PCEGPRegressor(scale_transform="identity", **settings).fit(X, Y)
    np.testing.assert_allclose(own.predict(X), ours.predict(X), rtol=1e-9)
