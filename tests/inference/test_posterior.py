"""Laws of the conditioned process: std, covariance, samples, blocks and far-away points."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pcegp import PCEGPRegressor
from pcegp.inference import exact as posterior
from pcegp.inference.exact import condition, with_draws
from pcegp.kernels.process import Likelihood
from pcegp.numerics import cholesky as linalg
from pcegp.numerics import threads
from pcegp.training import starts

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (30, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1]
NEW = RNG.uniform(-0.5, 0.5, (17, 2))


@pytest.fixture
def trained(make_structure):
    structure = make_structure(X, noise_degree=1)
    theta = starts.start(structure, np.full(5, 2.0))
    theta += 0.1 * np.random.default_rng(1).normal(size=theta.size)
    return condition(Likelihood(structure, X, Y), theta)


@pytest.mark.parametrize("include_noise", [True, False])
def test_variance_is_the_diagonal_of_the_covariance(trained, include_noise):
    mean, variance = trained.mean_and_variance(NEW, include_noise)
    mean2, covariance = trained.mean_and_covariance(NEW, include_noise)
    np.testing.assert_allclose(covariance.diagonal(), variance, rtol=1e-9)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    np.testing.assert_allclose(mean, mean2, rtol=1e-12)
    np.testing.assert_allclose(mean, trained.mean(NEW), rtol=1e-12)


def test_noise_adds_exactly_the_noise_variance(trained):
    _, with_noise = trained.mean_and_variance(NEW)
    _, without = trained.mean_and_variance(NEW, include_noise=False)
    np.testing.assert_allclose(with_noise - without, trained.noise_variance(NEW), rtol=1e-9)


def test_blocks_do_not_change_the_result(trained, monkeypatch):
    whole = trained.mean_and_variance(NEW)
    monkeypatch.setattr(posterior, "_BLOCK_NUMBERS", 100)
    parts = trained.mean_and_variance(NEW)
    np.testing.assert_allclose(np.array(parts), np.array(whole), rtol=1e-13)


def test_threads_do_not_change_the_result(trained, monkeypatch):
    thetas = trained.theta + 0.1 * RNG.normal(size=(3, trained.theta.size))
    model = with_draws(trained, Likelihood(trained.structure, X, Y), thetas)
    whole = model.mean_and_variance(NEW)
    monkeypatch.setattr(threads, "_POINTS_PER_THREAD", 1)
    with threadpool_limits(2, user_api="blas"), model._workers(len(NEW)) as crew:
        assert crew.count == 2
        np.testing.assert_array_equal(model.mean_and_variance(NEW), whole)


def test_far_away_the_prior_returns(trained):
    far = np.array([[1e90, -1e90]])
    mean, variance = trained.mean_and_variance(far)
    assert abs(mean[0]) < 1e-6
    expected = trained.prior_variance + trained.noise_variance(far)[0]
    assert variance[0] == pytest.approx(expected, rel=1e-6)


def test_with_little_noise_the_data_are_interpolated(make_structure):
    structure = make_structure(X)
    theta = starts.start(structure, np.full(5, 2.0))
    structure.parameters(theta).noise[0] = np.log(1e-9)
    mean, variance = condition(Likelihood(structure, X, Y), theta).mean_and_variance(X)
    np.testing.assert_allclose(mean, Y, atol=1e-3)
    assert (variance < 1e-4).all()


def test_samples_have_the_posterior_moments(trained):
    mean, covariance = trained.mean_and_covariance(NEW)
    draws = trained.sample(NEW, 20_000, np.random.default_rng(2))
    spread = np.sqrt(covariance.diagonal())
    assert (np.abs(draws.mean(axis=1) - mean) < 5 * spread / np.sqrt(20_000)).all()
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.05 * spread.max() ** 2)


def test_jitter_ladder_reports_what_it_added():
    singular = np.ones((4, 4))
    factor, jitter = linalg.cholesky(
        np.zeros((4, 4)), lambda C: np.copyto(C, singular), np.empty((4, 4))
    )
    assert 0 < jitter <= 1e-6
    L = np.tril(factor)
    np.testing.assert_allclose(L @ L.T, singular + jitter * np.eye(4), rtol=1e-12)


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(linalg.NotPositiveDefiniteError):
        linalg.cholesky(
            np.zeros((2, 2)), lambda C: np.copyto(C, np.array([[1.0, 2], [2, 1]])), np.empty((2, 2))
        )


def test_solves_against_numpy():
    A = RNG.normal(size=(6, 6))
    C = A @ A.T + np.eye(6)
    workspace = np.empty((6, 6))
    factor, jitter = linalg.cholesky(np.zeros((6, 6)), lambda W: np.copyto(W, C), workspace)
    y, B = RNG.normal(size=6), RNG.normal(size=(3, 6))
    assert jitter == 0.0
    np.testing.assert_allclose(linalg.solve(factor, y), np.linalg.solve(C, y))
    half = linalg.half_solve(factor, B.copy())
    np.testing.assert_allclose(half @ half.T, B @ np.linalg.solve(C, B.T))
    assert linalg.log_determinant(factor) == pytest.approx(np.linalg.slogdet(C)[1])
    dual, lower = linalg.solve_and_invert(factor.copy(), y, workspace)
    np.testing.assert_allclose(dual, np.linalg.solve(C, y))
    inverse = np.tril(lower)
    np.testing.assert_allclose(inverse, np.tril(np.linalg.inv(C)))


@pytest.mark.parametrize("noise_floor", [1e-2, 1e-6, 1e-10])
def test_the_condition_number_is_that_of_the_covariance(noise_floor):
    X = RNG.uniform(size=(40, 2))
    model = PCEGPRegressor(max_iter=3, noise_floor=noise_floor).fit(X, np.sin(5 * X[:, 0]))
    factor = np.tril(model.posteriors_[0].factor)
    exact = np.linalg.cond(factor @ factor.T, 1)
    estimate = model.fit_info_["condition_number"]
    assert 0.1 * exact <= estimate <= 1.001 * exact  # LAPACK's estimate is a lower bound
