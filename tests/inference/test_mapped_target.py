import numpy as np
import pytest

from pcegp.inference import Exact, MappedTarget, averaged, mapped
from pcegp.preprocessing import TargetMap
from small_models import make_data, make_process, some_parameters

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (30, 2))
Y = np.exp(1.5 * np.sin(4.0 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=30))
Y = (Y - Y.mean()) / Y.std()
NEW = RNG.uniform(-0.4, 0.4, (5, 2))


@pytest.fixture(scope="module")
def posterior():
    return conditioned(10.0)


def conditioned(bend, rows=slice(None), target_map=None):
    process = make_process(X)
    found = target_map or TargetMap.fit(bend, Y, np.ones(30))
    data = make_data(X[rows], found.transform(Y[rows]))
    of_map = Exact().bind(process, data).posterior(some_parameters(process, 1))
    return mapped(of_map, found, Y[rows])


def test_without_a_bend_it_is_the_posterior_itself():
    assert not isinstance(conditioned(0.0), MappedTarget)
    assert isinstance(conditioned(1.0), MappedTarget)


def test_a_slight_bend_changes_predictions_slightly():
    for got, plain in zip(conditioned(1e-7).mean_and_variance(NEW),
                          conditioned(0.0).mean_and_variance(NEW), strict=True):
        np.testing.assert_allclose(got, plain, rtol=1e-5, atol=1e-6)


def test_the_mean_is_the_same_with_and_without_noise(posterior):
    mean, total = posterior.mean_and_variance(NEW)
    same, within = posterior.mean_and_variance(NEW, include_noise=False)
    np.testing.assert_array_equal(mean, same)
    np.testing.assert_array_equal(posterior.mean(NEW), mean)
    np.testing.assert_allclose(posterior.noise_variance(NEW), total - within, rtol=1e-12)


@pytest.mark.parametrize("include_noise", [True, False])
def test_the_covariance_has_the_variance_on_its_diagonal_and_is_one(posterior, include_noise):
    mean, covariance = posterior.mean_and_covariance(NEW, include_noise)
    same, variance = posterior.mean_and_variance(NEW, include_noise)
    np.testing.assert_allclose(mean, same, rtol=1e-9)
    np.testing.assert_allclose(covariance.diagonal(), variance, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12


@pytest.mark.parametrize("include_noise", [True, False])
def test_draws_have_these_means_and_covariances(posterior, include_noise):
    drawn = posterior.sample(NEW, 100_000, np.random.default_rng(1), include_noise)
    mean, covariance = posterior.mean_and_covariance(NEW, include_noise)
    deviation = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose((drawn.mean(axis=1) - mean) / deviation, 0.0, atol=0.02)
    np.testing.assert_allclose(np.cov(drawn) / np.outer(deviation, deviation),
                               covariance / np.outer(deviation, deviation), atol=0.05)


def test_draws_of_an_average_are_those_of_its_members(posterior):
    both = averaged((posterior, conditioned(0.0)), np.array([0.7, 0.3]), 0.01)
    drawn = both.sample(NEW, 100_000, np.random.default_rng(2))
    mean, covariance = both.mean_and_covariance(NEW)
    deviation = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose((drawn.mean(axis=1) - mean) / deviation, 0.0, atol=0.02)
    np.testing.assert_allclose(drawn.std(axis=1) / deviation, 1.0, atol=0.03)
    np.testing.assert_array_equal(both.targets, Y)


def test_a_left_out_target_is_predicted_by_the_others(posterior):
    mean, variance = posterior.leave_one_out()
    for i in (0, 7, 29):
        others = np.arange(30) != i
        model = conditioned(10.0, others, posterior.target_map)
        one, spread = model.mean_and_variance(X[[i]])
        assert mean[i] == pytest.approx(one[0], rel=1e-7)
        assert variance[i] == pytest.approx(spread[0], rel=1e-7)


def test_the_likelihood_is_that_of_the_target():
    """Densities of a variable and of its map differ by the slope of the map."""
    found = conditioned(10.0)
    step = 1e-5
    slopes = (found.target_map.transform(Y[1:-1] + step)
              - found.target_map.transform(Y[1:-1] - step)) / (2.0 * step)
    ends = found.target_map.log_slope(Y[[0, -1]]).sum()
    assert found.log_likelihood == pytest.approx(
        np.log(slopes).sum() + ends - found.of_map.nll, rel=1e-6)
