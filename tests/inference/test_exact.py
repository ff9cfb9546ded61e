"""The exact engine: its gradient for every combination of parts, tiles, blocks and threads."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from inference.toy_engine import Toy
from laws import assert_gradient
from pcegp.errors import NotPositiveDefiniteError
from pcegp.inference import Exact, exact, with_uncertainty
from pcegp.kernels import SCALES, TRANSFORMS
from pcegp.numerics import Threads, resources
from small_models import BUILT_IN, make_data, make_likelihood, make_process, some_parameters

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (14, 2))
Y = RNG.normal(size=14)
NEW = RNG.uniform(-0.5, 0.5, (17, 2))
NOISES = [(0, "exponential"), *((1, name) for name in TRANSFORMS)]


@pytest.mark.parametrize(
    ("name", "transform", "scale", "noise"), list(product(BUILT_IN, TRANSFORMS, SCALES, NOISES))
)
def test_gradient_of_every_combination(name, transform, scale, noise):
    process = make_process(
        X, name, scale, 2, transform, noise_degree=noise[0], noise_transform=noise[1]
    )
    assert_gradient(Exact(), process, make_data(X, Y), some_parameters(process, 1))


@pytest.mark.parametrize("scale", SCALES)
def test_equal_to_plain_scipy(scale):
    process = make_process(X, scale=scale, transform="shift", noise_degree=1)
    theta = some_parameters(process, 1)
    data = make_data(X, Y, RNG.integers(1, 4, len(Y)).astype(float))
    ours, plain = Exact().bind(process, data), Toy().bind(process, data)
    assert ours(theta).nll == pytest.approx(plain(theta).nll, rel=1e-10)
    np.testing.assert_allclose(ours(theta).gradient, plain(theta).gradient, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        ours.posterior(theta).mean_and_variance(NEW), plain.posterior(theta).mean_and_variance(NEW),
        rtol=1e-8, atol=1e-10,
    )


def test_gradient_over_several_tiles_and_threads():
    """More points than one tile holds, on one and on two threads: the same bits."""
    rng = np.random.default_rng(4)
    many = rng.uniform(-0.5, 0.5, (700, 3))
    y = np.sin(5 * many[:, 0])
    process = make_process(many, degree=1)
    theta = some_parameters(process, 5)
    likelihood, several = make_likelihood(process, many, y), Threads(2)
    one, two = likelihood(theta), Exact().bind(process, likelihood.data, several)(theta)
    several.close()
    np.testing.assert_array_equal(one.gradient, two.gradient)
    assert one.nll == two.nll
    direction, h = rng.normal(size=theta.size), 1e-5
    up, down = (likelihood(theta + step * direction).nll for step in (h, -h))
    assert one.gradient @ direction == pytest.approx((up - down) / (2 * h), rel=1e-6)


@pytest.fixture
def trained():
    process = make_process(X, noise_degree=1)
    likelihood = make_likelihood(process, X, Y)
    return likelihood, likelihood.posterior(some_parameters(process, 3))


def test_blocks_do_not_change_the_result(trained, monkeypatch):
    likelihood, posterior = trained
    uncertain = with_uncertainty(posterior, likelihood, [posterior.theta + 0.1])
    for model in (posterior, uncertain):
        whole = model.mean_and_variance(NEW)
        with monkeypatch.context() as patch:
            patch.setattr(exact, "_BLOCK_NUMBERS", 100)
            np.testing.assert_allclose(model.mean_and_variance(NEW), whole, rtol=1e-13)


def test_threads_do_not_change_the_result(trained, monkeypatch):
    likelihood, posterior = trained
    thetas = posterior.theta + 0.1 * RNG.normal(size=(3, posterior.theta.size))
    model = with_uncertainty(posterior, likelihood, thetas)
    whole = model.mean_and_variance(NEW)
    monkeypatch.setattr(resources, "_POINTS_PER_THREAD", 1)
    with threadpool_limits(2, user_api="blas"), posterior._threads(len(NEW), 4) as threads:
        assert threads.count == 2
        np.testing.assert_array_equal(model.mean_and_variance(NEW), whole)


def test_all_ways_to_factor_are_tried_and_the_jitter_is_told():
    same = np.zeros((5, 2))
    process = make_process(same, "squared_exponential", degree=0, noise_floor=0.0)
    theta = np.zeros(process.n_parameters)
    process.parameters(theta).noise[0] = -50.0
    likelihood = make_likelihood(process, same, np.arange(5.0))
    assert 0.0 < likelihood(theta).jitter <= 1e-6
    assert likelihood.posterior(theta).jitter == likelihood(theta).jitter
    assert likelihood.n_factorisations == 3  # all attempts are one


def test_no_factor_at_all_is_a_named_error(trained, monkeypatch):
    monkeypatch.setattr("pcegp.numerics.cholesky.ATTEMPTS", ())
    with pytest.raises(NotPositiveDefiniteError, match="raise noise_floor"):
        trained[0](trained[1].theta)


def test_the_condition_number_is_that_of_the_covariance(trained):
    factor = np.tril(trained[1].factor)
    expected = np.linalg.cond(factor @ factor.T, 1)
    assert 0.1 * expected <= trained[1].condition_number() <= 1.001 * expected
