"""Scores against numerical integration and their own definitions."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.metrics import r2_score

from pcegp import metrics

RNG = np.random.default_rng(0)
Y, MEAN, STD = RNG.normal(size=200), RNG.normal(size=200), RNG.uniform(0.5, 2, 200)


def test_point_scores_are_those_of_the_papers_appendix():
    errors = Y - MEAN
    assert metrics.mae(Y, MEAN) == pytest.approx(np.mean(np.abs(errors)))
    assert metrics.medae(Y, MEAN) == pytest.approx(np.median(np.abs(errors)))
    assert metrics.mse(Y, MEAN) == pytest.approx(np.mean(errors**2))
    assert metrics.rmse(Y, MEAN) == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert metrics.r2(Y, MEAN) == pytest.approx(1.0 - np.mean(errors**2) / np.var(Y))


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**-600, 1.0, 2.0**600, 2.0**900])
def test_scores_do_not_depend_on_the_unit(unit):
    with warnings.catch_warnings(action="error"):
        usual, found = metrics.scores(Y, MEAN, STD), metrics.scores(unit * Y, unit * MEAN,
                                                                    unit * STD)
    assert found["R2"] == usual["R2"] == r2_score(Y, MEAN)
    assert found["RMSE"] == unit * usual["RMSE"]
    assert usual["RMSE"] == np.sqrt(usual["MSE"])
    assert found["MSE"] == (0.0 if unit < 1.0 else np.inf if unit > 1.0 else usual["MSE"])
    both = metrics.r2(unit * np.column_stack([Y, MEAN]), unit * np.column_stack([MEAN, Y]))
    assert both == r2_score(np.column_stack([Y, MEAN]), np.column_stack([MEAN, Y]))


def test_r2_takes_weights_and_is_not_defined_of_one_row():
    counts = RNG.integers(1, 4, 200)
    assert metrics.r2(Y, MEAN, counts) == pytest.approx(
        metrics.r2(np.repeat(Y, counts), np.repeat(MEAN, counts)))
    assert np.isnan(metrics.r2(Y[:1], MEAN[:1]))


def test_importing_the_scores_does_not_load_scikit_learn():
    code = "import pcegp.metrics, sys; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nll_is_minus_the_mean_log_density():
    assert metrics.nll(Y, MEAN, STD) == pytest.approx(-stats.norm.logpdf(Y, MEAN, STD).mean())


@pytest.mark.parametrize("y", [-1.5, 0.2, 4.0])
def test_crps_is_the_integrated_squared_difference_of_distributions(y):
    below = integrate.quad(lambda t: stats.norm.cdf(t, 0.5, 1.3) ** 2, -20, y)[0]
    above = integrate.quad(lambda t: (1 - stats.norm.cdf(t, 0.5, 1.3)) ** 2, y, 20)[0]
    ours = metrics.crps(np.array([y]), np.array([0.5]), np.array([1.3]))
    assert ours == pytest.approx(below + above, rel=1e-6)


def test_coverage_of_a_true_model_is_its_level():
    y = MEAN + STD * np.random.default_rng(1).normal(size=200)
    assert metrics.coverage(y, MEAN, STD, 0.95) == pytest.approx(0.95, abs=0.04)
    assert metrics.coverage(y, MEAN, STD, 0.5) == pytest.approx(0.5, abs=0.1)


def test_scores_have_the_papers_names():
    assert {"MAE", "MedAE", "MSE", "RMSE", "R2", "NLL"} <= set(metrics.scores(Y, MEAN, STD))
