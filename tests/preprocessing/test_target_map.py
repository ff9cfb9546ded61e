import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pcegp.preprocessing import TargetMap

RNG = np.random.default_rng(0)
Y = np.exp(RNG.normal(size=50))
Y = (Y - Y.mean()) / Y.std()
WEIGHTS = RNG.uniform(0.5, 2.0, 50)
#: Inside the training range, at its ends, and beyond both.
POINTS = np.array([-3.0, Y.min(), -0.5, 0.3, 1.7, Y.max(), 9.0])
BENDS = [0.0, 1e-3, 1.0, 30.0, -1.0, -100.0]


def made(bend, y=Y, weights=WEIGHTS):
    return TargetMap.fit(bend, y, weights)


@pytest.mark.parametrize("bend", BENDS)
def test_the_inverse_leads_back(bend):
    found = made(bend)
    np.testing.assert_allclose(found.inverse(found.transform(POINTS)), POINTS, rtol=1e-9)


@pytest.mark.parametrize("bend", BENDS)
def test_the_slope_is_the_derivative(bend):
    found, step = made(bend), 1e-6
    inside = np.array([-3.0, -0.5, 0.3, 1.7, 9.0])
    slope = (found.transform(inside + step) - found.transform(inside - step)) / (2.0 * step)
    np.testing.assert_allclose(np.exp(found.log_slope(inside)), slope, rtol=1e-7)


@pytest.mark.parametrize("bend", [1.0, -30.0])
def test_values_are_standardised_by_the_weights(bend):
    values = made(bend).transform(Y)
    mean = np.average(values, weights=WEIGHTS)
    assert mean == pytest.approx(0.0, abs=1e-12)
    assert np.average((values - mean) ** 2, weights=WEIGHTS) == pytest.approx(1.0, rel=1e-12)


def test_a_small_bend_changes_next_to_nothing():
    values, plain = made(1e-9).transform(Y), (Y - np.average(Y, weights=WEIGHTS))
    np.testing.assert_allclose(values, plain / np.sqrt(np.average(plain**2, weights=WEIGHTS)),
                               atol=1e-6)


def test_the_opposite_bend_is_the_mirror_image():
    mirrored = made(-10.0, -Y)
    np.testing.assert_allclose(mirrored.transform(-POINTS), -made(10.0).transform(POINTS),
                               rtol=1e-10)


@pytest.mark.parametrize("bend", BENDS)
def test_mean_and_variance_are_the_integrals_over_the_process(bend):
    found = made(bend)
    for mean, deviation in [(-0.5, 0.3), (0.4, 0.8), (1.0, 1e-4)]:
        def expected(power, centre=0.0, mean=mean, deviation=deviation):
            kinks = [(z - mean) / deviation for z in found.transform(np.array([Y.min(), Y.max()]))]
            inside = sorted(kink for kink in kinks if abs(kink) < 10.0)
            return quad(lambda xi: (float(found.inverse(np.array(mean + deviation * xi))) - centre)
                        ** power * norm.pdf(xi), -10.0, 10.0, points=inside, limit=200)[0]

        one, variance = expected(1), expected(2, expected(1))
        got, _, total = found.moments(np.array([mean]), np.array([deviation**2]))
        assert got[0] == pytest.approx(one, rel=1e-2, abs=1e-3)
        assert total[0] == pytest.approx(variance, rel=2e-2)


def test_noise_adds_to_the_variance_and_leaves_the_mean():
    found = made(30.0)
    mean, variance, noise = np.array([-0.2, 1.0]), np.array([0.2, 0.01]), np.array([0.1, 0.3])
    got, within, total = found.moments(mean, variance, noise)
    same, _, alone = found.moments(mean, variance + noise)
    np.testing.assert_allclose(got, same, rtol=1e-12)
    np.testing.assert_allclose(total, alone, rtol=1e-12)
    assert (within < total).all()
    # What is expected at a value of the process varies by `within`.
    values = mean[:, None] + np.sqrt(variance)[:, None] * np.random.default_rng(1).normal(
        size=(2, 200_000))
    expected = found.expected(values, noise)
    np.testing.assert_allclose(expected.mean(axis=1), got, atol=0.01)
    np.testing.assert_allclose(expected.var(axis=1), within, rtol=0.03)


@pytest.mark.parametrize("bend", [1.0, 30.0, -10.0])
def test_the_covariance_of_two_targets_is_that_of_their_draws(bend):
    found = made(bend)
    mean, total = np.array([-0.4, 0.6, 0.1]), np.array([0.3, 0.2, 0.5])
    half = 0.4 * np.random.default_rng(2).normal(size=(3, 3))
    shared = half @ half.T
    shared *= 0.15 / shared.max()
    drawn = np.random.default_rng(3).multivariate_normal(
        mean, shared + np.diag(total - shared.diagonal()), 400_000)
    got = found.covariance(mean, total, shared)
    expected = np.cov(found.inverse(drawn).T)
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(got[off], expected[off], atol=0.01)
    np.testing.assert_allclose(got.diagonal(), found.moments(
        mean, shared.diagonal(), total - shared.diagonal())[1], rtol=1e-9)


def test_without_variance_the_target_is_certain():
    mean, within, total = made(10.0).moments(np.array([0.3]), np.zeros(1))
    assert mean[0] == pytest.approx(float(made(10.0).inverse(np.array(0.3))), rel=1e-12)
    assert within[0] == total[0] == 0.0


def test_equal_targets_have_no_map():
    assert TargetMap.fit(10.0, np.zeros(4), np.ones(4)).is_linear
