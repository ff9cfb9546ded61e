"""What draws of the parameters add to the variance of predictions, and what they leave alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

import pcegp
from pcegp import PCEGPRegressor
from pcegp.inference import with_uncertainty
from pcegp.inference.parameter_uncertainty import INFLATION, OWN_SHARE
from small_models import make_likelihood, make_process, some_parameters

RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, (30, 2))
Y = np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=30)
NEW = RNG.uniform(-0.3, 0.3, (7, 2))


@pytest.fixture(scope="module")
def models():
    """A likelihood, its posterior, and that posterior with three draws."""
    process = make_process(X, transform="exponential", degree=1, noise_degree=1)
    likelihood = make_likelihood(process, X, Y)
    theta = some_parameters(process, 1)
    process.parameters(theta).noise[0] = np.log(0.04)
    posterior = likelihood.posterior(theta)
    thetas = theta + 0.1 * np.random.default_rng(2).normal(size=(3, theta.size))
    return likelihood, posterior, with_uncertainty(posterior, likelihood, thetas)


def test_the_mean_stays_and_the_variance_grows_by_the_distances_of_the_draws(models):
    likelihood, certain, uncertain = models
    mean, variance = uncertain.mean_and_variance(NEW, include_noise=False)
    plain_mean, plain = certain.mean_and_variance(NEW, include_noise=False)
    np.testing.assert_array_equal(mean, plain_mean)
    np.testing.assert_array_equal(uncertain.mean(NEW), certain.mean(NEW))
    means = np.array([likelihood.posterior(theta).mean(NEW) for theta in uncertain.others.thetas])
    own, typical = ((means - mean) ** 2).mean(axis=0), uncertain.typical_ratio * plain
    expected = plain + INFLATION * (OWN_SHARE * own + (1 - OWN_SHARE) * typical)
    np.testing.assert_allclose(variance, np.minimum(expected, certain.prior_variance), rtol=1e-9)
    assert (variance < certain.prior_variance).any()
    _, noisy = uncertain.mean_and_variance(NEW)
    np.testing.assert_allclose(noisy - variance, certain.noise_variance(NEW), rtol=1e-9)


def test_the_typical_ratio_is_the_median_over_rows_left_out(models):
    """Each row really left out, at the parameters of the model and of each draw."""
    likelihood, posterior, uncertain = models
    ratios = []
    for i in range(len(Y)):
        rest = np.arange(len(Y)) != i
        without = make_likelihood(likelihood.process, X[rest], Y[rest])
        own, *others = map(without.posterior, (posterior.theta, *uncertain.others.thetas))
        mean, variance = own.mean_and_variance(X[i : i + 1], include_noise=False)
        ratios.append(np.mean([(o.mean(X[i : i + 1]) - mean) ** 2 for o in others]) / variance)
    expected = np.median(ratios) / (chi2.median(3) / 3)
    assert uncertain.typical_ratio == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("include_noise", [True, False])
def test_joint_predictions_agree_and_stay_a_covariance(models, include_noise):
    points = np.vstack([NEW, RNG.uniform(-3, 3, (30, 2))])
    mean, covariance = models[2].mean_and_covariance(points, include_noise)
    again, variance = models[2].mean_and_variance(points, include_noise)
    np.testing.assert_allclose(mean, again, rtol=1e-12)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12 * covariance.max()


def test_leave_one_out_knows_the_spread_too(models):
    _, certain, uncertain = models
    mean, variance = uncertain.leave_one_out()
    plain_mean, plain = certain.leave_one_out()
    np.testing.assert_allclose(mean, plain_mean, rtol=1e-12)
    assert (variance >= plain).all()
    assert variance.mean() > 1.001 * plain.mean()


def test_far_away_draws_add_nothing(models):
    _, variance = models[2].mean_and_variance(np.full((1, 2), 1e6), include_noise=False)
    assert variance[0] == pytest.approx(models[1].prior_variance, rel=1e-9)


def test_without_draws_it_is_the_posterior_itself(models):
    likelihood, posterior, uncertain = models
    assert with_uncertainty(posterior, likelihood, ()) is posterior
    # A known ratio is not computed again.
    known = with_uncertainty(posterior, likelihood, uncertain.others.thetas, 0.25)
    assert known.typical_ratio == 0.25


def test_draws_are_seeded_saved_and_left_out_where_they_must(tmp_path):
    settings = {"optimizer": "nadam", "max_iter": 20, "n_draws": 8, "checkpoints": [10]}
    one, other = (PCEGPRegressor(**settings).fit(X, Y) for _ in range(2))
    loaded = pcegp.load(one.save(tmp_path / "model.pcegp"))
    _, std = one.predict(NEW, return_std=True)
    for model in (other, loaded):
        assert (model.predict(NEW, return_std=True)[1] == std).all()
    assert len(loaded.model_.outputs[0].posterior.others.thetas) == 8
    earlier = one.at_checkpoint(10).model_.outputs[0]
    assert earlier.posterior is earlier.base
    again = PCEGPRegressor(**settings | {"random_state": 1}).fit(X, Y)
    assert (again.predict(NEW, return_std=True)[1] != std).all()


def test_a_model_without_its_draws_is_the_one_that_never_had_any():
    drawn = PCEGPRegressor(optimizer="nadam", max_iter=20, n_draws=3).fit(X, Y)
    never = PCEGPRegressor(optimizer="nadam", max_iter=20, n_draws=0).fit(X, Y)
    certain = drawn.without_draws()
    for mine, its in zip(certain.predict(X, return_std=True), never.predict(X, return_std=True),
                         strict=True):
        assert (mine == its).all()
    assert (drawn.predict(X, return_std=True)[1] > certain.predict(X, return_std=True)[1]).all()
    assert never.without_draws() is never
