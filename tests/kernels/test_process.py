"""The process before data: parameters, warp, noise, and the weights of its priors."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.errors import SettingError
from pcegp.kernels import LOG_BOUND, TRANSFORMS
from small_models import make_likelihood, make_process, some_parameters

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (14, 2))
Y = RNG.normal(size=14)


def test_weighted_with_equal_weights_is_shared_and_per_input_with_equal_fields_too():
    shared = make_process(X, scale="shared")
    theta = some_parameters(shared, 7)
    reference = make_likelihood(shared, X, Y)(theta).nll
    ours = shared.parameters(theta)
    for scale in ("weighted", "per_input"):
        process = make_process(X, scale=scale)
        other = np.zeros(process.n_parameters)
        parts = process.parameters(other)
        for mine, theirs in zip(parts, ours, strict=True):
            if mine.shape == theirs.shape or mine.ndim == 3:
                mine[...] = theirs
        assert make_likelihood(process, X, Y)(other).nll == pytest.approx(reference, rel=1e-12)


def test_noise_never_falls_below_its_floor():
    process = make_process(X, noise_degree=2, noise_transform="identity", noise_floor=1e-3)
    parts = process.parameters(np.full(process.n_parameters, -1.0))
    assert (process.noise(parts, process.design(X).Phi_noise).variance >= 1e-3).all()


@pytest.mark.parametrize("transform", ["softplus", "exponential"])
def test_initial_scale_must_be_reachable(transform):
    process = make_process(X, transform=transform)
    with pytest.raises(SettingError, match=r"initial_scale: .*not positive"):
        process.initial(np.zeros(5))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_starts_have_the_scale_and_noise_they_say(transform):
    process = make_process(X, transform=transform)
    theta = process.initial(np.full(5, 0.7))
    parts, design = process.parameters(theta), process.design(X)
    np.testing.assert_allclose(process.warp(parts, design).scale, 0.7)
    np.testing.assert_allclose(process.noise(parts, design.Phi_noise).variance, 0.1 + 1e-6)


@pytest.mark.parametrize("scale", ["shared", "weighted", "per_input"])
def test_the_box_holds_logarithms_and_nothing_else(scale):
    process = make_process(X, scale=scale, noise_degree=1)
    lower, upper = process.bounds()
    np.testing.assert_array_equal(lower, -upper)
    parts = process.parameters(upper)
    for logs in (parts.log_variances, parts.log_shapes, parts.log_weights):
        assert (logs == LOG_BOUND).all()
    assert np.isinf(parts.coefficients).all()
    assert np.isinf(parts.noise).all()


def test_every_parameter_has_one_prior():
    process = make_process(X, scale="weighted", noise_degree=1)
    penalised, centred = process.penalty_weights() > 0.0, process.prior_weights() > 0.0
    assert (penalised ^ centred).all()
    assert (penalised[process.is_varying_noise()]).all()
    assert process.is_varying_noise().sum() == 2


def test_vectors_side_by_side_keep_their_order():
    process = make_process(X, scale="weighted", degree=1)
    thetas = RNG.normal(size=(3, process.n_parameters))
    joined = process.side_by_side(thetas)
    for s, theta in enumerate(thetas):
        alone = process.parameters(theta)
        np.testing.assert_array_equal(joined.coefficients[5 * s : 5 * s + 5], alone.coefficients)
        np.testing.assert_array_equal(joined.log_shapes[5 * s : 5 * s + 5], alone.log_shapes)
