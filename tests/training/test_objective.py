"""The objective: the laws of its priors, its value and gradient, and what is left of it."""

from __future__ import annotations

import numpy as np
import pytest

from laws import prior_laws
from pcegp.inference import Exact
from pcegp.training import PRIORS, ElasticNet, Normal, Objective
from small_models import make_data, make_likelihood, make_process, numeric_gradient

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (12, 2))
Y = RNG.normal(size=12)
NET = ElasticNet(2.0, 0.25)


@pytest.mark.parametrize(
    "prior",
    [*(make() for make in PRIORS.values()), Normal(3.0), ElasticNet(1.0, 1.0), NET],
    ids=repr,
)
@prior_laws.each()
def test_laws(law, prior):
    law(prior)


@pytest.fixture
def objective():
    process = make_process(X, ("squared_exponential", "matern32"), noise_degree=1)
    centre = RNG.normal(size=process.n_parameters)
    return Objective.of(make_likelihood(process, X, Y), (NET, Normal(3.0)), centre)


def test_loss_is_likelihood_elastic_net_and_normal_prior(objective):
    process = objective.likelihood.process
    theta, centre = RNG.normal(size=process.n_parameters), objective.terms[1].centre
    parts = process.parameters(theta)

    def net(alpha, weight):
        return 2.0 * weight * (0.25 * np.abs(alpha).sum() + 0.75 * (alpha**2).sum())

    centred = process.parameters(theta - centre)
    expected = objective.likelihood(theta).nll
    # Two fields of five non-constant terms; two non-constant terms of the noise.
    expected += net(parts.coefficients[..., 1:], np.sqrt(2 * 5))
    expected += net(parts.noise[1:], np.sqrt(2))
    for part in (centred.log_variances, centred.log_shapes, centred.coefficients[..., 0]):
        expected += 1.5 * (part**2).sum()
    expected += 1.5 / 9 * centred.noise[0] ** 2
    assert objective(theta).loss == pytest.approx(expected, rel=1e-12)
    assert objective.loss(objective.likelihood(theta).nll, theta) == objective(theta).loss


def test_the_gradient_is_that_of_the_loss(objective):
    theta = RNG.normal(size=objective.likelihood.process.n_parameters)
    value = objective(theta)
    numeric = numeric_gradient(lambda theta: objective(theta).loss, theta)
    scale = np.abs(numeric).max()
    found = objective.full_gradient(value, theta)
    np.testing.assert_allclose(found, numeric, rtol=1e-6, atol=1e-6 * scale)
    kinks = objective.terms[0].kink_gradient(theta)
    np.testing.assert_allclose(value.gradient, found - kinks, rtol=1e-12)


def test_what_cannot_be_computed_is_infinitely_bad(objective):
    value = objective(np.full(objective.likelihood.process.n_parameters, np.nan))
    assert value.loss == np.inf
    assert value.evaluation is None
    assert not value.gradient.any()


def test_beyond_the_box_only_the_priors_change(objective):
    theta = RNG.normal(size=objective.likelihood.process.n_parameters)
    theta[0] = 100.0  # the logarithm of a variance
    edge = np.clip(theta, *objective.bounds)
    assert edge[0] < 100.0
    assert objective(theta).evaluation.nll == objective(edge).evaluation.nll
    assert objective(theta).loss == objective.loss(objective(edge).evaluation.nll, theta)
    assert objective(theta).gradient[0] > objective(edge).gradient[0]


def test_restricted_it_moves_only_what_is_free(objective):
    theta = RNG.normal(size=objective.likelihood.process.n_parameters)
    free = np.arange(theta.size) % 3 == 0
    other = theta.copy()
    other[free] += 0.1
    loss, gradient = objective.restricted(free, theta)(other[free])
    assert loss == objective(other).loss
    np.testing.assert_array_equal(gradient, objective(other).gradient[free])


def test_deviations_are_those_of_the_priors_and_one_without(objective):
    process, likelihood = objective.likelihood.process, objective.likelihood
    parts = process.parameters(objective.deviations())
    np.testing.assert_allclose(parts.log_variances, 1 / np.sqrt(3.0))
    np.testing.assert_allclose(parts.coefficients[..., 1:], 0.5 * 10**-0.25)
    assert (Objective(likelihood, ()).deviations() == 1.0).all()


def test_proximal_steps_are_those_of_the_kinks_alone(objective):
    theta = RNG.normal(size=objective.likelihood.process.n_parameters)
    step = np.full_like(theta, 0.1)
    np.testing.assert_array_equal(objective.prox(theta, step), objective.terms[0].prox(theta, step))
    smooth = Objective.of(objective.likelihood, (ElasticNet(2.0), Normal()), theta)
    assert objective.has_kink
    assert not smooth.has_kink
    np.testing.assert_array_equal(smooth.prox(theta, step), theta)


def test_it_knows_its_rows_and_its_box(objective):
    assert objective.n_rows == 12
    np.testing.assert_array_equal(objective.bounds, objective.likelihood.process.bounds())
    some = Exact().bind(objective.likelihood.process, make_data(X, Y).rows(slice(5)))
    assert Objective(some, objective.terms).n_rows == 5
