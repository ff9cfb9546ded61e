"""R2 in any unit of the target, and numbers that a floating-point number cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score

from pcegp import PCEGPMixture, PCEGPRegressor
from pcegp.errors import DataError, DataWarning, NumericalWarning, SettingError

RNG = np.random.default_rng(8)
X = RNG.uniform(size=(20, 2))
Y = X[:, 0] + X[:, 1] ** 2


def fitted(y):
    return PCEGPRegressor(max_iter=3, degree=1, n_draws=0).fit(X, y)


@pytest.mark.parametrize("unit", [2.0**-900, 1.0, 2.0**900])
def test_the_score_does_not_depend_on_the_unit(unit):
    model = fitted(Y)
    expected = r2_score(Y, model.predict(X))
    assert model.score(X, Y) == expected
    assert fitted(unit * Y).score(X, unit * Y) == pytest.approx(expected)
    mixture = PCEGPMixture([PCEGPRegressor(max_iter=3, n_draws=0)] * 2)
    assert mixture.fit(X, unit * Y).score(X, unit * Y) == pytest.approx(
        mixture.fit(X, Y).score(X, Y))


def test_the_score_of_one_row_is_not_defined():
    with pytest.warns(DataWarning, match="R2 of one row is not defined"):
        assert np.isnan(fitted(Y).score(X[:1], Y[:1]))


@pytest.mark.parametrize("y", [Y[:5], Y[:1], np.column_stack([Y, Y]), np.tile(Y, (20, 1)),
                               Y.reshape(4, 5), Y[None]])
def test_a_target_of_another_shape_is_refused(y):
    with pytest.raises(DataError, match=r"y has shape \(.*, and the predictions have \(20,\)"):
        fitted(Y).score(X, y)
    several = fitted(np.column_stack([Y, Y]))
    with pytest.raises(DataError, match=r"and the predictions have \(20, 2\)"):
        several.score(X, y[:, :1] if y.ndim == 2 else y)


def test_one_target_may_be_a_column():
    assert fitted(Y).score(X, Y[:, None]) == fitted(Y).score(X, Y)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_a_covariance_beyond_numbers_is_said(unit):
    model = fitted(unit * Y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    with pytest.warns(NumericalWarning, match="beyond the range of floating-point numbers"):
        model.predict(X, return_cov=True)


def test_weights_that_count_as_few_rows_are_said():
    with pytest.warns(DataWarning, match=r"the weights of 20 rows sum to 0.2, .* a mean of 1"):
        PCEGPRegressor(max_iter=3, n_draws=0).fit(X, Y, np.full(20, 0.01))


@pytest.mark.parametrize("seed", [-1, 1.5, "one", 2**32])
def test_a_seed_that_is_none_is_named(seed):
    for work in (lambda: PCEGPRegressor(max_iter=2, random_state=seed).fit(X, Y),
                 lambda: fitted(Y).sample_y(X, random_state=seed)):
        with pytest.raises(SettingError, match=r"random_state=.* must be a whole number"):
            work()
