"""An average of posteriors is the mixture of what they predict."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.inference import Averaged, averaged
from small_models import make_likelihood, make_process, some_parameters

RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, (25, 2))
Y = np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=25)
NEW = RNG.uniform(-0.4, 0.4, (7, 2))
WEIGHTS = np.array([0.5, 0.3, 0.2])


@pytest.fixture(scope="module")
def members():
    """Posteriors of three structures."""
    out = []
    for seed, settings in enumerate(({"degree": 0}, {"degree": 1, "scale": "shared"},
                                     {"covariances": "matern32", "noise_degree": 1})):
        process = make_process(X, transform="exponential", **settings)
        theta = some_parameters(process, seed)
        process.parameters(theta).noise[0] = np.log(0.04 * (1 + seed))
        out.append(make_likelihood(process, X, Y).posterior(theta))
    return tuple(out)


@pytest.fixture(scope="module")
def mixture(members):
    return averaged(members, WEIGHTS)


@pytest.mark.parametrize("include_noise", [True, False])
def test_mean_and_variance_are_those_of_draws_of_the_members(members, mixture, include_noise):
    means, variances = np.array([each.mean_and_variance(NEW, include_noise)
                                 for each in members]).swapaxes(0, 1)
    mean, variance = mixture.mean_and_variance(NEW, include_noise)
    expected = sum(w * m for w, m in zip(WEIGHTS, means, strict=True))
    second = sum(w * (v + m**2) for w, v, m in zip(WEIGHTS, variances, means, strict=True))
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    np.testing.assert_allclose(variance, second - expected**2, rtol=1e-9)
    np.testing.assert_allclose(mixture.mean(NEW), mean, rtol=1e-12)


@pytest.mark.parametrize("include_noise", [True, False])
def test_the_covariance_is_that_of_the_mixture(members, mixture, include_noise):
    mean, covariance = mixture.mean_and_covariance(NEW, include_noise)
    second = np.zeros((7, 7))
    for weight, member in zip(WEIGHTS, members, strict=True):
        own_mean, own = member.mean_and_covariance(NEW, include_noise)
        second += weight * (own + np.outer(own_mean, own_mean))
    np.testing.assert_allclose(covariance, second - np.outer(mean, mean), atol=1e-12)
    again, variance = mixture.mean_and_variance(NEW, include_noise)
    np.testing.assert_allclose(mean, again, rtol=1e-12)
    np.testing.assert_allclose(covariance.diagonal(), variance, rtol=1e-9)
    np.testing.assert_array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12 * covariance.max()


def test_leaving_one_out_is_mixed_as_predictions_are(members, mixture):
    means, variances = np.array([each.leave_one_out() for each in members]).swapaxes(0, 1)
    mean, variance = mixture.leave_one_out()
    np.testing.assert_allclose(mean, WEIGHTS @ means, rtol=1e-12)
    np.testing.assert_allclose(variance, WEIGHTS @ (variances + means**2) - mean**2, rtol=1e-9)


def test_members_that_differ_spread_further_than_each_of_them_on_average(members, mixture):
    _, variance = mixture.mean_and_variance(NEW)
    each = WEIGHTS @ np.array([member.mean_and_variance(NEW)[1] for member in members])
    assert (variance > each).all()


def test_one_member_is_itself(members):
    assert averaged(members[:1], np.ones(1)) is members[0]


def test_equal_members_are_one_of_them(members):
    same = averaged((members[0],) * 3, WEIGHTS)
    assert isinstance(same, Averaged)
    for mixed, alone in zip(same.mean_and_covariance(NEW), members[0].mean_and_covariance(NEW),
                            strict=True):
        np.testing.assert_allclose(mixed, alone, rtol=1e-12, atol=1e-14)


def test_all_of_the_weight_leaves_nothing_to_the_others(members):
    one = averaged(members, np.array([0.0, 1.0, 0.0]))
    for mixed, alone in zip(one.mean_and_variance(NEW), members[1].mean_and_variance(NEW),
                            strict=True):
        np.testing.assert_allclose(mixed, alone, rtol=1e-12)


def test_what_they_were_asked_leaves_the_members_as_they_are(members, mixture):
    before = [member.mean_and_covariance(NEW)[1].copy() for member in members]
    for _ in range(2):
        mixture.mean_and_covariance(NEW)
    for member, covariance in zip(members, before, strict=True):
        np.testing.assert_array_equal(member.mean_and_covariance(NEW)[1], covariance)


def test_the_noise_is_what_predictions_hold(members, mixture):
    _, with_noise = mixture.mean_and_variance(NEW)
    _, without = mixture.mean_and_variance(NEW, include_noise=False)
    np.testing.assert_allclose(mixture.noise_variance(NEW), with_noise - without, rtol=1e-9)
    each = np.array([member.noise_variance(NEW) for member in members])
    np.testing.assert_allclose(mixture.noise_variance(NEW), WEIGHTS @ each, rtol=1e-12)
