"""Shares of the variation and folding: the paper's formula, and scales that are known."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.inspection import variance_shares
from pcegp.inspection.nonstationarity import folding
from pcegp.numerics import pairwise
from small_models import make_likelihood, make_process, some_parameters

X = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 2))
POINTS = np.vstack([X, [[-0.5, -0.5], [0.5, 0.5]]])


def posterior(scale, coefficients):
    process = make_process(POINTS, "squared_exponential", scale, degree=1)
    theta = process.initial(np.ones(1))
    process.parameters(theta).coefficients[0, :, 1:] = coefficients
    return make_likelihood(process, POINTS, POINTS[:, 0]).posterior(theta)


def test_shared_scale_gives_the_papers_formula():
    fitted = posterior("shared", [[0.6, 0.2]])
    axis = np.linspace(-0.5, 0.5, 50)
    grid = np.array([(a, b) for a in axis for b in axis])
    scale = fitted.local_scale(grid)[0, 0].reshape(50, 50)
    along = np.array([scale.var(axis=0).mean(), scale.var(axis=1).mean()])
    np.testing.assert_allclose(variance_shares(fitted), along / along.sum(), atol=1e-3)


@pytest.mark.parametrize("scale", ["shared", "per_input"])
def test_an_input_without_influence_has_no_share(scale):
    fitted = posterior(scale, [0.6, 0.0])
    np.testing.assert_allclose(variance_shares(fitted), [1.0, 0.0], atol=1e-12)


def test_a_constant_scale_has_no_shares():
    fitted = posterior("per_input", [0.0, 0.0])
    np.testing.assert_array_equal(variance_shares(fitted), [0.0, 0.0])


def test_the_prior_correlation_is_that_of_the_covariance_matrix():
    process = make_process(POINTS, transform="exponential")
    theta = some_parameters(process, 1)
    fitted = make_likelihood(process, POINTS, POINTS[:, 0]).posterior(theta)
    A, B = X[:20], X[20:]
    K = pairwise.cross(fitted.warped(A), fitted.warped(B), process.components(fitted.parameters))
    expected = K.diagonal() / fitted.prior_variance
    np.testing.assert_allclose(fitted.prior_correlation(A, B), expected, rtol=1e-12)
    np.testing.assert_allclose(fitted.prior_correlation(A, A), 1.0, rtol=1e-12)


def test_a_warp_that_folds_is_found():
    """l(x) = 8 p_1(x), so that x and -x are the same point to the model."""
    x = np.linspace(-0.5, 0.5, 50)[:, None]
    process = make_process(x, "squared_exponential", degree=1)
    theta = process.initial(np.ones(1))
    process.parameters(theta).coefficients[0, 0] = [0.0, 8.0]
    found = folding(make_likelihood(process, x, x[:, 0] ** 2).posterior(theta))
    assert found.share > 0.1
    np.testing.assert_allclose(found.pairs[0].sum(), 0.0, atol=0.05)


def test_a_stationary_process_folds_nothing():
    assert folding(posterior("shared", [[0.0, 0.0]])).share == 0.0
