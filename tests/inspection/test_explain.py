"""Variance shares: the paper's formula, and what must come out for known scales."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.inference.exact import condition
from pcegp.inspection.nonstationarity import variance_shares
from pcegp.kernels.process import Likelihood
from pcegp.training import starts

X = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 2))
CORNERS = np.array([[-0.5, -0.5], [0.5, 0.5]])


def posterior(make_structure, scale, coefficients):
    points = np.vstack([X, CORNERS])
    structure = make_structure(points, "squared_exponential", scale, degree=1)
    theta = starts.start(structure, np.ones(1))
    structure.parameters(theta).coefficients[0, :, 1:] = coefficients
    return condition(Likelihood(structure, points, points[:, 0]), theta)


def test_shared_scale_gives_the_papers_formula(make_structure):
    fitted = posterior(make_structure, "shared", [[0.6, 0.2]])
    axis = np.linspace(-0.5, 0.5, 50)
    grid = np.array([(a, b) for a in axis for b in axis])
    scale = fitted.local_scale(grid)[0, 0].reshape(50, 50)
    along = np.array([scale.var(axis=0).mean(), scale.var(axis=1).mean()])
    np.testing.assert_allclose(variance_shares(fitted), along / along.sum(), atol=1e-3)


@pytest.mark.parametrize("scale", ["shared", "per_input"])
def test_an_input_without_influence_has_no_share(make_structure, scale):
    fitted = posterior(make_structure, scale, [0.6, 0.0])
    np.testing.assert_allclose(variance_shares(fitted), [1.0, 0.0], atol=1e-12)


def test_a_constant_scale_has_no_shares(make_structure):
    fitted = posterior(make_structure, "per_input", [0.0, 0.0])
    np.testing.assert_array_equal(variance_shares(fitted), [0.0, 0.0])
