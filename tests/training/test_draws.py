"""Draws of the parameters: near the result, from the right density, and what they add."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

import pcegp
from pcegp import PCEGPRegressor
from pcegp.inference.exact import OWN, REACH
from pcegp.kernels.process import Likelihood
from pcegp.training import starts
from pcegp.training.hmc import draw
from pcegp.training.optimiser import Options, Run

RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, (40, 2))
Y = np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=40)
NEW = RNG.uniform(-0.4, 0.4, (7, 2))


@pytest.fixture
def run(make_structure):
    structure = make_structure(X, transform="exponential", degree=1, noise_degree=1)
    likelihood = Likelihood(structure, X, Y)
    theta = starts.start(structure, np.full(5, 2.0))
    out = Run(likelihood, Options(max_iter=150, penalty=3.0, prior=1.0), theta, anchor=theta)
    out.advance(150)
    return out


def test_the_gradient_is_that_of_the_loss(run):
    theta = run.theta + 0.05 * RNG.normal(size=run.theta.size)
    gradient = run.gradient(run.likelihood(theta), theta)
    for k in RNG.integers(0, theta.size, 10):
        step = np.zeros_like(theta)
        step[k] = 1e-5
        up, down = theta + step, theta - step
        slope = (run.loss(run.likelihood(up).nll, up) - run.loss(run.likelihood(down).nll, down))
        assert gradient[k] == pytest.approx(slope / 2e-5, rel=1e-4, abs=1e-5)


def test_without_data_the_draws_are_the_prior(make_structure):
    """One point with enormous noise says nothing: the chain must find the prior's widths."""
    structure = make_structure(X[:1], transform="exponential", degree=0, noise_floor=1e6)
    likelihood = Likelihood(structure, X[:1], np.zeros(1))
    theta = starts.start(structure, np.full(5, 2.0))
    run = Run(likelihood, Options(prior=4.0), theta, anchor=theta)
    found = np.array(draw(run, theta, 1000, np.random.default_rng(0)))
    coefficients = np.array([structure.parameters(row).coefficients.ravel() for row in found])
    start = structure.parameters(theta).coefficients.ravel()
    np.testing.assert_allclose(coefficients.mean(axis=0), start, atol=0.1)
    np.testing.assert_allclose(coefficients.std(axis=0), 0.5, rtol=0.15)


def test_draws_explain_the_data_about_as_well(run):
    theta = run.result
    best = run.loss(run.likelihood(theta).nll, theta)
    for row in draw(run, theta, 8, np.random.default_rng(1)):
        assert run.loss(run.likelihood(row).nll, row) < best + 0.5 * theta.size + 20.0
        assert np.isfinite(row).all()


def test_what_the_l1_part_switched_off_stays_off(run):
    theta = run.result.copy()
    theta[-3:] = 0.0
    assert all((row[-3:] == 0.0).all() for row in draw(run, theta, 3, np.random.default_rng(1)))


def test_the_mean_stays_and_the_variance_grows_by_what_the_draws_leave_open():
    with_draws = PCEGPRegressor(max_iter=60, n_draws=8).fit(X, Y)
    without = PCEGPRegressor(max_iter=60, n_draws=0).fit(X, Y)
    mean, std = with_draws.predict(NEW, return_std=True, include_noise=False)
    plain_mean, plain_std = without.predict(NEW, return_std=True, include_noise=False)
    np.testing.assert_array_equal(mean, plain_mean)
    posterior = with_draws.posteriors_[0]
    others = [pcegp.fitting.at_parameters(posterior, theta) for theta in posterior.draws.thetas]
    scaled, target = with_draws._inputs.transform(NEW), with_draws._targets[0]
    means = np.array([target.mean(other.mean(scaled)) for other in others])
    own, usual = ((means - mean) ** 2).mean(axis=0), posterior.draws.usual * plain_std**2
    expected = plain_std**2 + REACH * (OWN * own + (1 - OWN) * usual)
    np.testing.assert_allclose(std**2, expected, rtol=1e-9)
    _, noisy = with_draws.predict(NEW, return_std=True)
    _, plain_noisy = without.predict(NEW, return_std=True)
    np.testing.assert_allclose(noisy**2 - std**2, plain_noisy**2 - plain_std**2, rtol=1e-9)


def test_what_is_usual_is_the_median_over_rows_left_out():
    """Each row really left out, at the parameters of the model and of each draw."""
    model = PCEGPRegressor(max_iter=60, n_draws=3).fit(X, Y)
    p = model.posteriors_[0]
    ratios = []
    for i in range(len(p.y)):
        rest = np.arange(len(p.y)) != i
        rows = p.X[rest], p.y[rest], p.weights[rest]
        own, *others = (pcegp.fitting.rebuilt(p.structure, *rows, theta, 1)
                        for theta in (p.theta, *p.draws.thetas))
        mean, variance = own.mean_and_variance(p.X[i : i + 1], include_noise=False)
        ratios.append(np.mean([(o.mean(p.X[i : i + 1]) - mean) ** 2 for o in others]) / variance)
    expected = np.median(ratios) / (chi2.median(3) / 3)
    assert p.draws.usual == pytest.approx(expected, rel=1e-6)


def test_joint_predictions_agree_and_stay_a_covariance():
    model = PCEGPRegressor(max_iter=30, n_draws=4).fit(X, Y)
    points = np.vstack([NEW, RNG.uniform(-3, 3, (30, 2))])
    with pytest.warns(pcegp.errors.ExtrapolationWarning):
        _, covariance = model.predict(points, return_cov=True, include_noise=False)
    with pytest.warns(pcegp.errors.ExtrapolationWarning):
        _, std = model.predict(points, return_std=True, include_noise=False)
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12 * covariance.max()


def test_leave_one_out_knows_the_spread_too():
    with_draws = PCEGPRegressor(max_iter=60, n_draws=8).fit(X, Y)
    mean, std = with_draws.loo_predict()
    plain_mean, plain_std = PCEGPRegressor(max_iter=60, n_draws=0).fit(X, Y).loo_predict()
    np.testing.assert_allclose(mean, plain_mean, rtol=1e-12)
    assert std.mean() > 1.001 * plain_std.mean()


def test_draws_are_seeded_saved_and_left_out_where_they_must(tmp_path):
    settings = {"max_iter": 20, "n_draws": 8, "checkpoints": [10]}
    one, other = (PCEGPRegressor(**settings).fit(X, Y) for _ in range(2))
    loaded = pcegp.load(one.save(tmp_path / "model.pcegp"))
    _, std = one.predict(NEW, return_std=True)
    for model in (other, loaded):
        assert (model.predict(NEW, return_std=True)[1] == std).all()
    assert len(loaded.posteriors_[0].draws.thetas) == 8
    assert one.at_checkpoint(10).posteriors_[0].draws is None
    again = PCEGPRegressor(max_iter=20, n_draws=8, random_state=1).fit(X, Y)
    assert (again.predict(NEW, return_std=True)[1] != std).all()


def test_far_away_draws_add_nothing():
    model = PCEGPRegressor(max_iter=30, n_draws=8).fit(X, Y)
    with pytest.warns(pcegp.errors.ExtrapolationWarning):
        _, std = model.predict(np.full((1, 2), 1e6), return_std=True, include_noise=False)
    prior = model._targets[0].deviation(np.sqrt(model.posteriors_[0].prior_variance))
    assert std[0] == pytest.approx(prior, rel=1e-9)


def test_without_draws_it_is_the_model_that_never_had_any():
    drawn = PCEGPRegressor(max_iter=30, n_draws=3).fit(X, Y)
    never = PCEGPRegressor(max_iter=30, n_draws=0).fit(X, Y)
    certain = drawn.without_draws()
    for mine, its in zip(certain.predict(X, return_std=True), never.predict(X, return_std=True),
                         strict=True):
        assert (mine == its).all()
    assert (drawn.predict(X, return_std=True)[1] > certain.predict(X, return_std=True)[1]).all()
    assert never.without_draws() is never
