"""The likelihood: its gradient for every combination of parts, and known special cases."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from pcegp.inference.exact import condition
from pcegp.kernels import functions as covariance
from pcegp.kernels import transforms
from pcegp.kernels.process import SCALES, Likelihood
from pcegp.numerics.pairwise import cross, project
from pcegp.numerics.threads import ALONE, Workers

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (14, 2))
Y = RNG.normal(size=14)
NAMES = covariance.names()[:5]
NOISES = [(0, "exponential"), *((1, name) for name in transforms.TRANSFORMS)]


def numeric_gradient(likelihood, theta, h=1e-5):
    """Central differences, extrapolated once (error h^4)."""

    def slope(i, h):
        up, down = theta.copy(), theta.copy()
        up[i] += h
        down[i] -= h
        return (likelihood(up).nll - likelihood(down).nll) / (2 * h)

    return np.array([(4 * slope(i, h) - slope(i, 2 * h)) / 3 for i in range(theta.size)])


def assert_gradient(likelihood, theta):
    gradient = likelihood(theta).gradient
    numeric = numeric_gradient(likelihood, theta)
    scale = np.abs(numeric).max()
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * scale)


def parameters(structure, seed):
    """Random parameters at which every field changes sign or comes close to it."""
    theta = 0.6 * np.random.default_rng(seed).normal(size=structure.n_parameters)
    parts = structure.parameters(theta)
    parts.coefficients[..., 0] += 1.0
    parts.noise[0] += 0.5
    return theta


@pytest.mark.parametrize(
    ("name", "transform", "scale", "noise"),
    list(product(NAMES, transforms.TRANSFORMS, SCALES, NOISES)),
)
def test_gradient_of_every_combination(make_structure, name, transform, scale, noise):
    structure = make_structure(
        X, name, scale, 2, transform, noise_degree=noise[0], noise_transform=noise[1]
    )
    assert_gradient(Likelihood(structure, X, Y), parameters(structure, 1))


@pytest.mark.parametrize("scale", SCALES)
def test_gradient_of_five_components_with_weights_and_repeated_points(make_structure, scale):
    repeated = np.vstack([X, X[:3]])
    y = np.concatenate([Y, Y[:3] + 0.1])
    structure = make_structure(repeated, NAMES, scale, 2, "softplus", noise_degree=1)
    weights = np.random.default_rng(3).integers(1, 4, len(y)).astype(float)
    assert_gradient(Likelihood(structure, repeated, y, weights), parameters(structure, 2))


def test_gradient_over_several_tiles_and_threads(make_structure):
    """More points than one tile holds, on one and on two threads: the same bits."""
    rng = np.random.default_rng(4)
    many = rng.uniform(-0.5, 0.5, (700, 3))
    y = np.sin(5 * many[:, 0])
    structure = make_structure(many, NAMES, degree=1)
    theta = parameters(structure, 5)
    crew = Workers(2)
    one, two = (Likelihood(structure, many, y, crew=c)(theta) for c in (ALONE, crew))
    crew.close()
    np.testing.assert_array_equal(one.gradient, two.gradient)
    assert one.nll == two.nll
    direction = rng.normal(size=theta.size)
    h = 1e-5
    likelihood = Likelihood(structure, many, y)
    numeric = (likelihood(theta + h * direction).nll - likelihood(theta - h * direction).nll) / (
        2 * h
    )
    assert one.gradient @ direction == pytest.approx(numeric, rel=1e-6)


def stationary(structure, scales, variance, noise):
    theta = np.zeros(structure.n_parameters)
    parts = structure.parameters(theta)
    parts.log_variances[...] = np.log(variance)
    parts.coefficients[0, :, 0] = scales
    parts.noise[0] = np.log(noise - structure.noise_floor)
    return theta


@pytest.mark.parametrize(
    ("scale", "scales"), [("shared", [3.0]), ("per_input", [3.0, 0.7])]
)
def test_degree_zero_is_scikit_learns_gp(make_structure, scale, scales):
    structure = make_structure(X, "squared_exponential", scale, degree=0)
    likelihood = Likelihood(structure, X, Y)
    theta = stationary(structure, scales, 1.3, 0.2)
    lengths = np.broadcast_to(1 / np.array(scales), 2)
    kernel = ConstantKernel(1.3) * RBF(lengths) + WhiteKernel(0.2)
    peer = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, Y)
    new = np.random.default_rng(6).uniform(-0.5, 0.5, (9, 2))

    assert likelihood(theta).nll == pytest.approx(-peer.log_marginal_likelihood_value_, rel=1e-8)
    mean, variance = condition(likelihood, theta).mean_and_variance(new)
    peer_mean, peer_std = peer.predict(new, return_std=True)
    np.testing.assert_allclose(mean, peer_mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(variance), peer_std, rtol=1e-8)


def test_weighted_with_equal_weights_is_shared_and_per_input_with_equal_fields_too(make_structure):
    shared = make_structure(X, NAMES, "shared", 2)
    theta = parameters(shared, 7)
    reference = Likelihood(shared, X, Y)(theta).nll
    ours = shared.parameters(theta)
    for scale in ("weighted", "per_input"):
        structure = make_structure(X, NAMES, scale, 2)
        other = np.zeros(structure.n_parameters)
        parts = structure.parameters(other)
        for mine, theirs in zip(parts, ours, strict=True):
            if mine.shape == theirs.shape or mine.ndim == 3:
                mine[...] = theirs
        assert Likelihood(structure, X, Y)(other).nll == pytest.approx(reference, rel=1e-12)


def test_a_weight_of_two_is_two_rows(make_structure):
    weights = np.array([1, 2, 3] + [1] * 11, dtype=float)
    rows = np.repeat(np.arange(14), weights.astype(int))
    structure = make_structure(X, NAMES, "per_input", 1, noise_degree=1)
    theta = parameters(structure, 8)
    weighted = Likelihood(structure, X, Y, weights)(theta)
    repeated = Likelihood(structure, X[rows], Y[rows])(theta)
    assert weighted.nll == pytest.approx(repeated.nll, rel=1e-9)
    np.testing.assert_allclose(weighted.gradient, repeated.gradient, rtol=1e-6, atol=1e-8)


def test_covariance_is_symmetric_and_positive_semidefinite_for_any_scale(make_structure):
    structure = make_structure(X, NAMES, "per_input", 3)
    for seed in range(5):
        theta = 3.0 * np.random.default_rng(seed).normal(size=structure.n_parameters)
        parts = structure.parameters(theta)
        Z = structure.warp(parts, structure.design(X)).Z
        C = cross(Z, Z, structure.components(parts))
        np.testing.assert_allclose(C, C.T, rtol=1e-12)
        assert np.linalg.eigvalsh(C).min() > -1e-10 * np.trace(C)


def test_noise_never_falls_below_its_floor(make_structure):
    structure = make_structure(X, NAMES, noise_degree=2, noise_transform="identity",
                               noise_floor=1e-3)
    parts = structure.parameters(np.full(structure.n_parameters, -1.0))
    assert (structure.noise(parts, structure.design(X).Phi_noise) >= 1e-3).all()


def test_leave_one_out_equals_leaving_each_point_out(make_structure):
    structure = make_structure(X, NAMES, noise_degree=1)
    theta = parameters(structure, 9)
    evaluation = Likelihood(structure, X, Y)(theta)
    for i in range(len(Y)):
        rest = np.delete(np.arange(len(Y)), i)
        posterior = condition(Likelihood(structure, X[rest], Y[rest]), theta)
        mean, variance = posterior.mean_and_variance(X[i : i + 1])
        assert evaluation.loo_residual[i] == pytest.approx(Y[i] - mean[0], rel=1e-8, abs=1e-10)
        assert evaluation.loo_variance[i] == pytest.approx(variance[0], rel=1e-8)


def test_projections_side_by_side_are_those_one_by_one(make_structure):
    X, new = RNG.uniform(-0.5, 0.5, (300, 3)), RNG.uniform(-0.5, 0.5, (7, 3))
    structure = make_structure(X, scale="weighted", degree=1, noise_degree=1)
    thetas = RNG.normal(size=(3, structure.n_parameters))
    duals = RNG.normal(size=(3, len(X)))
    together = structure.side_by_side(thetas)
    design, new_design = structure.design(X), structure.design(new)
    Z, Z_new = (structure.warp(together, d).Z for d in (design, new_design))
    found = project(Z_new, Z, structure.components(together), duals)
    for s, theta in enumerate(thetas):
        alone = structure.parameters(theta)
        Z, Z_new = (structure.warp(alone, d).Z for d in (design, new_design))
        expected = cross(Z_new, Z, structure.components(alone)) @ duals[s]
        np.testing.assert_allclose(found[s], expected, rtol=1e-12, atol=1e-12)
