"""Laws that every part of one kind obeys: one battery for each kind.

A law takes the part and asserts. The test modules run each battery on every part that is
registered; whoever adds a part runs it on that one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from pcegp.errors import NotPositiveDefiniteError, SettingError
from pcegp.inference import (
    COVARIANCE,
    DRAWS,
    EVERY_STEP,
    LEAVE_ONE_OUT,
    Inference,
    from_dict,
)
from pcegp.kernels import SCALES, CovarianceFunction, Process, Transform
from pcegp.polynomials import Polynomials
from pcegp.training import Prior
from small_models import make_data, make_process, numeric_gradient, some_parameters


class Battery:
    """The laws of one kind of part."""

    def __init__(self) -> None:
        self.laws: list[Callable[[Any], None]] = []

    def __call__(self, law: Callable[[Any], None]) -> Callable[[Any], None]:
        """Add a law, as a decorator."""
        self.laws.append(law)
        return law

    def each(self) -> pytest.MarkDecorator:
        """Run a test with each `law`."""
        return pytest.mark.parametrize("law", self.laws, ids=lambda law: law.__name__)

    def check(self, part: Any) -> None:
        """Hold a part to all laws."""
        for law in self.laws:
            law(part)


covariance_laws, family_laws, transform_laws, prior_laws, engine_laws = (
    Battery() for _ in range(5)
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (14, 2))
Y = RNG.normal(size=14)
NEW = RNG.uniform(-0.5, 0.5, (9, 2))
WEIGHTS = np.array([1, 2, 3] + [1] * 11, dtype=float)


# Covariance functions


@covariance_laws
def one_at_zero_then_falling(part: CovarianceFunction) -> None:
    value, slope, _ = part.evaluate(np.concatenate([[0.0], np.logspace(-8, 3, 400)]))
    assert value[0] == 1.0
    assert (np.diff(value) <= 0).all()
    assert (value >= 0).all()
    assert (slope <= 0).all()


@covariance_laws
def slope_equals_finite_differences(part: CovarianceFunction) -> None:
    at, h = np.linspace(0.2, 9, 50), 1e-5
    numeric = (part.evaluate(at + h)[0] - part.evaluate(at - h)[0]) / (2 * h)
    np.testing.assert_allclose(part.evaluate(at)[1], numeric, rtol=1e-7, atol=1e-11)


@covariance_laws
def shape_slope_equals_finite_differences(part: CovarianceFunction) -> None:
    if part.initial_shape is None:
        return
    at, h, shape = np.linspace(0.2, 9, 50), 1e-5, 1.7 * part.initial_shape
    numeric = (part.evaluate(at, shape + h)[0] - part.evaluate(at, shape - h)[0]) / (2 * h)
    np.testing.assert_allclose(part.evaluate(at, shape)[2], numeric, rtol=1e-7, atol=1e-11)


@covariance_laws
def positive_semidefinite_at_warped_points(part: CovarianceFunction) -> None:
    process = make_process(X, part, "per_input", 3)
    for seed in range(5):
        theta = 3.0 * np.random.default_rng(seed).normal(size=process.n_parameters)
        Z = process.warp(process.parameters(theta), process.design(X)).Z[0].T
        C = part.evaluate(cdist(Z, Z, "sqeuclidean"))[0]
        assert np.linalg.eigvalsh(C).min() > -1e-10 * len(C)


@covariance_laws
def finite_at_any_distance(part: CovarianceFunction) -> None:
    value, slope, shape_slope = part.evaluate(np.array([0.0, 1e-300, 1e10, 1e30, 1e32]))
    for out in (value, slope, shape_slope):
        assert np.isfinite(out).all()
    assert value[-1] < 1e-6


@covariance_laws
def pickled_and_back_it_is_the_same_function(part: CovarianceFunction) -> None:
    again, at = pickle.loads(pickle.dumps(part)), np.linspace(0, 5, 11)  # noqa: S301
    assert (again.name, again.initial_shape) == (part.name, part.initial_shape)
    np.testing.assert_array_equal(again.evaluate(at), part.evaluate(at))


# Families of polynomials


@family_laws
def orthonormal_under_its_quadrature(part: Polynomials) -> None:
    nodes, weights = part.quadrature(30)
    values = part.values(nodes, 10)
    np.testing.assert_allclose((values * weights[:, None]).T @ values, np.eye(11), atol=1e-10)


@family_laws
def density_integrates_to_one_and_fits_the_quadrature(part: Polynomials) -> None:
    low, high = part.support
    total, _ = integrate.quad(part.density, low, high)
    second, _ = integrate.quad(lambda x: x**2 * part.density(x), low, high)
    nodes, weights = part.quadrature(10)
    assert total == pytest.approx(1.0, abs=1e-7)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert second == pytest.approx(weights @ nodes**2, rel=1e-6)


@family_laws
def degree_zero_is_one(part: Polynomials) -> None:
    x = part.quadrature(7)[0].reshape(7, 1)
    np.testing.assert_allclose(part.values(x, 4)[..., 0], 1.0, rtol=1e-14)
    np.testing.assert_allclose(part.powers(4)[0], [1, 0, 0, 0, 0], rtol=1e-14)
    assert part.values(x, 4).shape == (7, 1, 5)


@family_laws
def powers_have_the_same_values(part: Polynomials) -> None:
    low, high = (np.clip(end, -1, 1) for end in part.support)
    x = np.linspace(low, high, 25)
    powers = np.vander(x, 8, increasing=True)
    np.testing.assert_allclose(part.values(x, 7), powers @ part.powers(7).T, atol=1e-9)


@family_laws
def named_and_hashable(part: Polynomials) -> None:
    assert isinstance(part, Polynomials)
    assert isinstance(part.name, str)
    assert hash(part) == hash(part)  # arrays are cached by it
    assert part.norm(0) == pytest.approx(1.0)


# Transforms


def _reachable_values(part: Transform) -> list[float]:
    low, high = part.reach
    return [value for value in (0.05, 0.5, 0.9, 3.0) if low < value < high]


@transform_laws
def inverse_of_a_constant(part: Transform) -> None:
    for value in _reachable_values(part):
        u = np.full((1, 4), part.inverse(value))
        np.testing.assert_allclose(part.value(u), value, rtol=1e-12)


@transform_laws
def what_is_out_of_reach_is_refused_and_can_be_moved_into_it(part: Transform) -> None:
    low, high = part.reach
    for value in [end for end in (low, low - 1.0, high, high + 1.0) if np.isfinite(end)]:
        with pytest.raises(SettingError, match=part.name):
            part.inverse(value)
    for value in part.reachable(np.array([0.5, 3.0, 100.0])):
        assert np.isfinite(part.inverse(float(value)))


@transform_laws
def pull_back_equals_finite_differences(part: Transform) -> None:
    for level in (-0.5, 3.0):
        rng = np.random.default_rng(0)
        u, weight = level + rng.normal(size=(2, 6)), rng.normal(size=(2, 6))

        def weighted(flat: np.ndarray, weight: np.ndarray = weight) -> float:
            return float(np.sum(weight * part.value(flat.reshape(2, 6))))

        numeric = numeric_gradient(weighted, u.ravel()).reshape(2, 6)
        found = part.pull_back(u, part.value(u), weight)
        np.testing.assert_allclose(found, numeric, rtol=1e-7, atol=1e-8)


@transform_laws
def new_points_are_mapped_as_the_training_points_are(part: Transform) -> None:
    u = np.random.default_rng(0).normal(size=(2, 1, 7))
    assert part.offset(u).shape == (2, 1, 1)
    np.testing.assert_array_equal(part.value(u[..., 3:], part.offset(u)), part.value(u)[..., 3:])


@transform_laws
def its_text_and_its_sympy_form_say_the_same(part: Transform) -> None:
    import sympy

    numbers = np.linspace(-2.0, 2.0, 9)[None]
    expected = part.value(numbers, np.zeros((1, 1)))
    names = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "u": numbers}
    compiled = compile(part.text.format("u"), "text", "eval")
    np.testing.assert_allclose(eval(compiled, names), expected, rtol=1e-12)  # noqa: S307
    u = sympy.Symbol("u")
    symbolic = sympy.lambdify(u, part.sympy(u), "numpy")(numbers)
    np.testing.assert_allclose(symbolic, expected, rtol=1e-12)


@transform_laws
def it_is_linear_where_it_says_so(part: Transform) -> None:
    if part.is_linear:
        u = np.random.default_rng(0).normal(size=(1, 9))
        assert np.ptp(part.value(u) - u) < 1e-14


@transform_laws
def it_stays_finite_and_in_its_reach(part: Transform) -> None:
    u = np.array([[-1e6, 0.0, 1e6]])
    value = part.value(u)
    assert np.isfinite(value).all()
    assert np.isfinite(part.pull_back(u, value, np.ones_like(u))).all()
    value = part.value(np.linspace(-30, 30, 101)[None])
    assert (value > part.reach[0]).all()
    assert (value < part.reach[1]).all()


# Priors


def _bound(part: Prior) -> tuple[Any, np.ndarray, np.ndarray]:
    """A term, its centre and some parameters, none of which is zero."""
    process = make_process(X, degree=1, transform="exponential", noise_degree=1)
    centre = process.initial(np.full(5, 2.0))
    theta = centre + np.random.default_rng(1).normal(size=centre.size)
    return part.bind(process, centre), centre, theta


@prior_laws
def gradient_equals_finite_differences(part: Prior) -> None:
    """Away from a kink; there the slope of the kink is told apart."""
    term, _, theta = _bound(part)
    numeric = numeric_gradient(term.value, theta)
    found = term.gradient(theta) + term.kink_gradient(theta)
    np.testing.assert_allclose(found, numeric, rtol=1e-7, atol=1e-7 * (1 + np.abs(numeric).max()))
    if not term.has_kink:
        assert not term.kink_gradient(theta).any()


@prior_laws
def nothing_is_better_than_the_centre(part: Prior) -> None:
    term, centre, theta = _bound(part)
    assert isinstance(part, Prior)
    assert isinstance(term.value(theta), float)
    assert term.value(theta) > term.value(centre)
    np.testing.assert_allclose(term.gradient(centre), 0.0, atol=1e-12)


@prior_laws
def prox_is_the_minimiser(part: Prior) -> None:
    """At x = prox(theta), 0 is in the slopes of |x - theta|^2 / (2 step) + the part with kinks."""
    term, _, theta = _bound(part)
    step = np.random.default_rng(2).uniform(0.01, 0.5, theta.size)
    found = term.prox(theta, step)
    if not term.has_kink:
        np.testing.assert_array_equal(found, theta)
        return
    pull, at = (theta - found) / step, found != 0.0
    assert not at.all()
    np.testing.assert_allclose(term.kink_gradient(found)[at], pull[at], atol=1e-9)
    right, left = term.kink_gradient(found + 1e-12), term.kink_gradient(found - 1e-12)
    assert (left[~at] <= pull[~at]).all()
    assert (pull[~at] <= right[~at]).all()
    assert not term.kink_gradient(np.zeros_like(theta)).any()


@prior_laws
def precision_is_the_curvature(part: Prior) -> None:
    """At the centre, and of what has no kink: one with a kink only says its natural units."""
    term, centre, _ = _bound(part)
    assert (term.precision() >= 0).all()
    if term.has_kink:
        return
    curvature = np.empty_like(centre)
    for i in range(centre.size):
        step = np.zeros_like(centre)
        step[i] = 1e-5
        curvature[i] = (term.gradient(centre + step) - term.gradient(centre - step))[i] / 2e-5
    np.testing.assert_allclose(term.precision(), curvature, rtol=1e-6, atol=1e-9)


# Engines of inference


def assert_gradient(part: Inference, process: Process, data: Any, theta: np.ndarray) -> None:
    """Hold the gradient of a likelihood to finite differences."""
    likelihood = part.bind(process, data)
    numeric = numeric_gradient(lambda theta: likelihood(theta).nll, theta)
    scale = np.abs(numeric).max()
    np.testing.assert_allclose(likelihood(theta).gradient, numeric, rtol=1e-6, atol=1e-6 * scale)


@engine_laws
def gradient_in_every_parameter(part: Inference) -> None:
    """With five covariance functions, repeated points, weights and every kind of scale."""
    points = np.vstack([X, X[:3]])
    y = np.concatenate([Y, Y[:3] + 0.1])
    weights = np.random.default_rng(3).integers(1, 4, len(y)).astype(float)
    for scale in SCALES:
        process = make_process(points, scale=scale, transform="softplus", noise_degree=1)
        assert_gradient(part, process, make_data(points, y, weights), some_parameters(process, 2))


@engine_laws
def degree_zero_is_scikit_learns_gp(part: Inference) -> None:
    for scale, scales in (("shared", [3.0]), ("per_input", [3.0, 0.7])):
        process = make_process(X, "squared_exponential", scale, degree=0)
        theta = np.zeros(process.n_parameters)
        parts = process.parameters(theta)
        parts.log_variances[...] = np.log(1.3)
        parts.coefficients[0, :, 0] = scales
        parts.noise[0] = np.log(0.2 - process.noise_floor)
        likelihood = part.bind(process, make_data(X, Y))
        kernel = ConstantKernel(1.3) * RBF(np.broadcast_to(1 / np.array(scales), 2))
        peer = GaussianProcessRegressor(kernel + WhiteKernel(0.2), optimizer=None, alpha=0.0)
        peer.fit(X, Y)
        nll = -peer.log_marginal_likelihood_value_
        assert likelihood(theta).nll == pytest.approx(nll, rel=1e-8)
        mean, variance = likelihood.posterior(theta).mean_and_variance(NEW)
        peer_mean, peer_std = peer.predict(NEW, return_std=True)
        np.testing.assert_allclose(mean, peer_mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(np.sqrt(variance), peer_std, rtol=1e-8)


def _conditioned(part: Inference, **settings: Any) -> tuple[Any, Any]:
    """A likelihood of weighted rows, and its posterior at some parameters."""
    process = make_process(X, noise_degree=1, **settings)
    likelihood = part.bind(process, make_data(X, Y, WEIGHTS))
    return likelihood, likelihood.posterior(some_parameters(process, 9))


@engine_laws
def a_posterior_is_what_the_likelihood_saw(part: Inference) -> None:
    likelihood, posterior = _conditioned(part)
    assert posterior.nll == pytest.approx(likelihood(posterior.theta).nll, rel=1e-9)
    assert posterior.engine.name == part.name
    assert posterior.process is likelihood.process
    np.testing.assert_array_equal(posterior.data.X, X)
    np.testing.assert_array_equal(posterior.data.weights, WEIGHTS)
    before, made = posterior.mean_and_variance(NEW), likelihood.n_factorisations
    likelihood(posterior.theta + 0.1)  # writes into the workspace, not into the posterior
    np.testing.assert_array_equal(posterior.mean_and_variance(NEW), before)
    assert likelihood.n_factorisations == made + 1


@engine_laws
def a_posterior_keeps_its_own_parameters(part: Inference) -> None:
    likelihood, first = _conditioned(part)
    theta = first.theta.copy()
    posterior = likelihood.posterior(theta)
    theta += 1.0
    np.testing.assert_array_equal(posterior.theta, first.theta)
    np.testing.assert_array_equal(posterior.mean(NEW), first.mean(NEW))


@engine_laws
def a_weight_of_two_is_two_rows(part: Inference) -> None:
    rows = np.repeat(np.arange(len(Y)), WEIGHTS.astype(int))
    process = make_process(X, degree=1, noise_degree=1)
    theta = some_parameters(process, 8)
    weighted = part.bind(process, make_data(X, Y, WEIGHTS))
    repeated = part.bind(process, make_data(X[rows], Y[rows]))
    assert weighted(theta).nll == pytest.approx(repeated(theta).nll, rel=1e-9)
    np.testing.assert_allclose(
        weighted(theta).gradient, repeated(theta).gradient, rtol=1e-6, atol=1e-8
    )
    found, expected = (like.posterior(theta).mean_and_variance(NEW)
                       for like in (weighted, repeated))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@engine_laws
def the_order_of_rows_does_not_matter(part: Inference) -> None:
    likelihood, posterior = _conditioned(part)
    order = np.random.default_rng(5).permutation(len(Y))
    shuffled = part.bind(likelihood.process, likelihood.data.rows(order))
    theta = posterior.theta
    assert shuffled(theta).nll == pytest.approx(posterior.nll, rel=1e-10)
    np.testing.assert_allclose(
        shuffled(theta).gradient, likelihood(theta).gradient, rtol=1e-7, atol=1e-8
    )
    np.testing.assert_allclose(
        shuffled.posterior(theta).mean_and_variance(NEW), posterior.mean_and_variance(NEW),
        rtol=1e-8, atol=1e-10,
    )


@engine_laws
def noise_adds_exactly_the_noise_variance(part: Inference) -> None:
    _, posterior = _conditioned(part)
    mean, with_noise = posterior.mean_and_variance(NEW)
    _, without = posterior.mean_and_variance(NEW, include_noise=False)
    np.testing.assert_allclose(mean, posterior.mean(NEW), rtol=1e-12)
    np.testing.assert_allclose(with_noise - without, posterior.noise_variance(NEW), rtol=1e-9)
    assert (without >= 0).all()
    assert (without <= posterior.prior_variance * (1 + 1e-12)).all()


@engine_laws
def far_away_the_prior_returns(part: Inference) -> None:
    _, posterior = _conditioned(part)
    far = np.array([[1e90, -1e90]])
    mean, variance = posterior.mean_and_variance(far)
    assert abs(mean[0]) < 1e-6
    expected = posterior.prior_variance + posterior.noise_variance(far)[0]
    assert variance[0] == pytest.approx(expected, rel=1e-6)


@engine_laws
def with_little_noise_the_data_are_interpolated(part: Inference) -> None:
    process = make_process(X)
    theta = process.initial(np.full(5, 2.0))
    process.parameters(theta).noise[0] = np.log(1e-9)
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    mean, variance = part.bind(process, make_data(X, y)).posterior(theta).mean_and_variance(X)
    np.testing.assert_allclose(mean, y, atol=1e-3)
    assert (variance < 1e-4).all()


@engine_laws
def covariances_where_provided_have_the_variances(part: Inference) -> None:
    _, posterior = _conditioned(part)
    if COVARIANCE not in part.provides:
        with pytest.raises(SettingError, match=part.name):
            posterior.mean_and_covariance(NEW)
        return
    for include_noise in (True, False):
        mean, variance = posterior.mean_and_variance(NEW, include_noise)
        mean_again, covariance = posterior.mean_and_covariance(NEW, include_noise)
        np.testing.assert_allclose(mean_again, mean, rtol=1e-12)
        np.testing.assert_allclose(covariance.diagonal(), variance, rtol=1e-9)
        np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
        assert np.linalg.eigvalsh(covariance).min() > -1e-12 * covariance.max()


@engine_laws
def leave_one_out_where_provided_equals_leaving_out(part: Inference) -> None:
    likelihood, posterior = _conditioned(part)
    evaluation = likelihood(posterior.theta)
    if EVERY_STEP not in part.provides:
        assert evaluation.loo_residual is None
        assert evaluation.loo_variance is None
    if LEAVE_ONE_OUT not in part.provides:
        with pytest.raises(SettingError, match=part.name):
            posterior.leave_one_out()
        return
    mean, variance = posterior.leave_one_out()
    if EVERY_STEP in part.provides:
        np.testing.assert_allclose(evaluation.loo_residual, Y - mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(evaluation.loo_variance, variance, rtol=1e-8)
    for i in np.flatnonzero(WEIGHTS == 1.0):
        rest = likelihood.data.rows(np.delete(np.arange(len(Y)), i))
        refit = part.bind(likelihood.process, rest).posterior(posterior.theta)
        expected, spread = refit.mean_and_variance(X[i : i + 1])
        assert mean[i] == pytest.approx(expected[0], rel=1e-8, abs=1e-10)
        assert variance[i] == pytest.approx(spread[0], rel=1e-8)


@engine_laws
def draws_where_provided_predict_what_their_posteriors_do(part: Inference) -> None:
    if DRAWS not in part.provides:
        return
    likelihood, posterior = _conditioned(part)
    thetas = posterior.theta + 0.1 * np.random.default_rng(6).normal(size=(3, posterior.theta.size))
    design = likelihood.process.design(NEW, with_noise=False)
    means = likelihood.means(thetas).at(design, likelihood.threads)
    residuals = likelihood.residuals_left_out(thetas)
    for theta, mean, residual in zip(thetas, means, residuals, strict=True):
        np.testing.assert_allclose(mean, likelihood.posterior(theta).mean(NEW), rtol=1e-10)
        np.testing.assert_allclose(residual, likelihood(theta).loo_residual, rtol=1e-8, atol=1e-10)


@engine_laws
def parameters_without_a_covariance_are_a_named_error(part: Inference) -> None:
    likelihood, posterior = _conditioned(part)
    with pytest.raises(NotPositiveDefiniteError, match="raise noise_floor"):
        likelihood(np.full_like(posterior.theta, np.nan))


@engine_laws
def memory_grows_with_the_rows(part: Inference) -> None:
    rows = (10, 100, 1000, 10_000)
    needed, held = ([count(n, 2) for n in rows] for count in (part.bytes_needed, part.bytes_held))
    for counts in (needed, held):
        assert all(isinstance(count, int) for count in counts)
        assert counts[0] > 0
        assert (np.diff(counts) > 0).all()
    assert (np.array(held) <= needed).all()


@engine_laws
def described_and_made_again_it_is_the_same(part: Inference) -> None:
    again = from_dict(part.to_dict())
    assert isinstance(part, Inference)
    assert type(again) is type(part)
    assert again.to_dict() == part.to_dict()
    assert (again.name, again.provides) == (part.name, part.provides)
    (_, posterior), (_, same) = _conditioned(part), _conditioned(again)
    np.testing.assert_array_equal(same.mean_and_variance(NEW), posterior.mean_and_variance(NEW))

