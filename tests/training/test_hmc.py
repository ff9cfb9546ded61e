"""Draws of the parameters: near the result, and from the right density."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.inference import Exact
from pcegp.training import Descent, ElasticNet, Normal, Objective, Options, hmc
from small_models import make_likelihood, make_process

RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, (40, 2))
Y = np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=40)


@pytest.fixture(scope="module")
def trained():
    """An objective, and the parameters that training found."""
    process = make_process(X, transform="exponential", degree=1, noise_degree=1)
    start = process.initial(np.full(5, 2.0))
    objective = Objective.of(make_likelihood(process, X, Y), (ElasticNet(3.0), Normal()), start)
    descent = Descent(objective, Options(Exact()), start)
    descent.advance(150)
    return objective, descent.state.result


def test_without_data_the_draws_are_the_prior():
    """One point with enormous noise says nothing: the chain must find the prior's widths."""
    process = make_process(X[:1], transform="exponential", degree=0, noise_floor=1e6)
    theta = process.initial(np.full(5, 2.0))
    objective = Objective.of(make_likelihood(process, X[:1], np.zeros(1)), (Normal(4.0),), theta)
    found = np.array(hmc.draw(objective, theta, 250, np.random.default_rng(0)))
    coefficients = np.array([process.parameters(row).coefficients.ravel() for row in found])
    start = process.parameters(theta).coefficients.ravel()
    np.testing.assert_allclose(coefficients.mean(axis=0), start, atol=0.1)
    np.testing.assert_allclose(coefficients.std(axis=0), 0.5, rtol=0.15)


def test_draws_explain_the_data_about_as_well(trained):
    objective, theta = trained
    best = objective(theta).loss
    for row in hmc.draw(objective, theta, 8, np.random.default_rng(1)):
        assert objective(row).loss < best + 0.5 * theta.size + 20.0
        assert np.isfinite(row).all()


def test_the_same_seed_gives_the_same_draws(trained):
    objective, theta = trained
    one, same, other = (hmc.draw(objective, theta, 2, np.random.default_rng(seed))
                        for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (np.array(one) != np.array(other)).any()


def test_what_the_l1_part_switched_off_stays_off(trained):
    objective, theta = trained[0], trained[1].copy()
    theta[-3:] = 0.0
    drawn = hmc.draw(objective, theta, 3, np.random.default_rng(1))
    assert all((row[-3:] == 0.0).all() for row in drawn)


def test_draws_stay_in_the_box(trained):
    objective, theta = trained[0], trained[1].copy()
    _, upper = objective.bounds
    theta[np.isfinite(upper)] = upper[np.isfinite(upper)]
    for row in hmc.draw(objective, theta, 2, np.random.default_rng(1)):
        assert (np.abs(row) <= upper).all()


def test_many_rows_have_shorter_chains(trained, monkeypatch):
    n_gradients = hmc.n_gradients
    assert n_gradients(4, 2000) == 4 * n_gradients(4, 2001) == 4 * n_gradients(1, 2000)
    for many, expected in ((40, 192), (39, 48)):
        monkeypatch.setattr(hmc, "_MANY_ROWS", many)
        seen = []
        hmc.draw(*trained, 2, np.random.default_rng(0), seen.append)
        assert seen[-1] == n_gradients(2, 40) == expected
