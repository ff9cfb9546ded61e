"""The evidence: exact where it is known, and the determinant that of the whole Hessian."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal

from pcegp.inference import Evaluation
from pcegp.kernels import SCALES
from pcegp.training import LatentObjective, Strengths, minimise
from pcegp.training.evidence import curvature, evidence
from small_models import make_likelihood, make_process

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (30, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=30)
Y = (Y - Y.mean()) / Y.std()


class Linear:
    """The likelihood of y = B theta + noise, whose evidence is known."""

    def __init__(self, B, y, deviation):
        self.B, self.y, self.deviation = B, y, deviation
        ends = np.full(B.shape[1], np.inf)
        self.process = SimpleNamespace(bounds=lambda: (-ends, ends))

    def __call__(self, theta):
        apart = (self.y - self.B @ theta) / self.deviation
        nll = 0.5 * apart @ apart + len(apart) * np.log(self.deviation * np.sqrt(2 * np.pi))
        return Evaluation(nll, -self.B.T @ apart / self.deviation, None, None, 0.0)


def linear_objective(n_parameters, seed=0):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(40, n_parameters))
    centre, root = rng.normal(size=n_parameters), rng.uniform(0.5, 2.0, n_parameters)
    y = B @ (centre + root * rng.normal(size=n_parameters)) + 0.5 * rng.normal(size=40)
    objective = LatentObjective(Linear(B, y, 0.5), centre, csr_array(np.diag(root)))
    truth = multivariate_normal(B @ centre, (B * root**2) @ B.T + 0.25 * np.eye(40)).logpdf(y)
    return objective, truth


@pytest.mark.parametrize("n_parameters", [1, 3, 20])
def test_a_linear_model_has_its_known_evidence(n_parameters):
    objective, truth = linear_objective(n_parameters)
    optimum = minimise(objective, [np.zeros(n_parameters)], 400, 400)
    assert evidence(objective, optimum).log_evidence == pytest.approx(truth, abs=1e-2)


def process_objective(scale, covariances, strengths):
    process = make_process(X, covariances, scale, 2, "exponential", noise_degree=1)
    centre = process.initial(np.full(len(process.covariances), 2.0))
    return LatentObjective.of(make_likelihood(process, X, Y), centre, strengths, 1.0)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("covariances", ["matern52", ("matern52", "squared_exponential")])
@pytest.mark.parametrize("penalty", [inf, 1.0])
def test_the_determinant_is_that_of_the_whole_hessian(scale, covariances, penalty):
    objective = process_objective(scale, covariances, Strengths(penalty, penalty))
    optimum = minimise(objective, [np.zeros(objective.size)], 400, 1000)
    h, columns = 1e-4, []
    for direction in np.eye(objective.size):
        up, down = (objective(optimum.w + sign * h * direction).gradient for sign in (1, -1))
        columns.append((up - down) / (2 * h))
    eigenvalues = np.linalg.eigvalsh(np.array(columns))
    assert eigenvalues[0] > 0.0
    # Where the loss is flatter than the prior, no more than half of the prior's counts.
    expected = np.maximum(eigenvalues, 0.5)
    found = curvature(objective, optimum)
    assert found.log_determinant == pytest.approx(np.log(expected).sum(), rel=0.02)
    assert found.n_determined == pytest.approx((1.0 - 1.0 / expected).sum(), rel=0.02)


def test_the_same_optimum_has_the_same_evidence():
    objective = process_objective("per_input", "matern52", Strengths(1.0))
    optimum = minimise(objective, [np.zeros(objective.size)], 400, 1000)
    assert evidence(objective, optimum).log_evidence == evidence(objective, optimum).log_evidence


def test_where_no_optimum_was_reached_there_is_no_evidence():
    objective = process_objective("per_input", "matern52", Strengths(1.0))
    early = minimise(objective, [np.zeros(objective.size)], 1, 400)
    assert not early.is_reached
    assert evidence(objective, early).log_evidence == -inf


def test_what_says_nothing_about_the_data_costs_next_to_nothing():
    """Noise that may vary, of data whose noise does not: less evidence, but little less."""
    plain, free = (process_objective("shared", "matern52", Strengths(inf, strength))
                   for strength in (inf, 1e6))
    found = [evidence(each, minimise(each, [np.zeros(each.size)], 400, 1000)).log_evidence
             for each in (plain, free)]
    assert found[1] == pytest.approx(found[0], abs=0.1)
