"""Latent variables: the same parameters, the same slopes, and what is tied or held."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from pcegp.kernels import SCALES
from pcegp.training import LatentObjective, Normal, Strengths
from pcegp.training.latent import Metric
from small_models import make_likelihood, make_process, numeric_gradient

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (20, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=20)
PAIR = ("matern52", "rational_quadratic")
FREE = Strengths(1.0, 1.0)


def objective_of(
    scale="per_input", strengths=FREE, covariances=PAIR, prior=1.0, others=(), **settings
):
    settings = {"degree": 2, "transform": "exponential", "noise_degree": 1, **settings}
    process = make_process(X, covariances, scale, **settings)
    centre = process.initial(np.full(len(process.covariances), 2.0))
    return LatentObjective.of(
        make_likelihood(process, X, Y), centre, strengths, prior, others)


def somewhere(objective, seed=1):
    """Latent variables as the prior draws them, somewhat nearer to its centre."""
    return 0.5 * np.random.default_rng(seed).normal(size=objective.size)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("covariances", ["matern52", PAIR])
@pytest.mark.parametrize("strengths", [FREE, Strengths(), Strengths(0.3, inf, True)])
def test_the_gradient_equals_finite_differences(scale, covariances, strengths):
    objective = objective_of(scale, strengths, covariances)
    w = somewhere(objective)
    numeric = numeric_gradient(lambda w: objective(w).loss, w)
    found = objective(w).gradient
    np.testing.assert_allclose(found, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


def test_a_prior_of_the_users_own_is_part_of_loss_and_gradient():
    alone, both = objective_of(), objective_of(others=(Normal(2.0),))
    w = somewhere(both)
    assert both(w).loss > alone(w).loss
    numeric = numeric_gradient(lambda w: both(w).loss, w)
    np.testing.assert_allclose(
        both(w).gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("covariances", ["matern52", PAIR])
def test_parameters_have_latent_variables_that_give_them_again(scale, covariances):
    objective = objective_of(scale, covariances=covariances)
    theta = objective.theta(somewhere(objective))
    w = objective.latent(theta)
    np.testing.assert_allclose(objective.theta(w), theta, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(objective.latent(objective.centre), 0.0, atol=1e-14)


def test_of_all_latent_variables_of_some_parameters_the_likeliest_are_found():
    """A constant that is common to covariance functions and their own ones say the same."""
    objective = objective_of(covariances=PAIR)
    assert np.linalg.matrix_rank(objective.root.toarray()) < objective.size
    w = somewhere(objective)
    found = objective.latent(objective.theta(w))
    assert found @ found < w @ w
    np.testing.assert_allclose(objective.theta(found), objective.theta(w), rtol=1e-10, atol=1e-10)


def varying(objective, seed):
    """Coefficients of the terms that are not constant: (K, F, m - 1)."""
    process = objective.likelihood.process
    theta = objective.theta(somewhere(objective, seed))
    return process.parameters(theta).coefficients[:, :, ~process.basis.is_constant]


def test_covariance_functions_share_what_varies_of_a_scale_per_input():
    objective = objective_of("per_input")
    process = objective.likelihood.process
    for seed in range(3):
        first, second = varying(objective, seed)
        np.testing.assert_array_equal(first, second)
        assert first.any()
        constants = process.parameters(objective.theta(somewhere(objective, seed)))
        first, second = constants.coefficients[:, :, np.argmax(process.basis.is_constant)]
        assert (first != second).all()


@pytest.mark.parametrize("scale", ["shared", "weighted"])
def test_with_another_scale_each_covariance_function_varies_by_itself(scale):
    first, second = varying(objective_of(scale), 0)
    assert (first != second).all()


@pytest.mark.parametrize("scale", SCALES)
def test_an_infinite_strength_holds_what_varies(scale):
    objective = objective_of(scale, Strengths(inf, inf, True))
    process = objective.likelihood.process
    theta = objective.theta(somewhere(objective))
    parts, centre = (process.parameters(each) for each in (theta, objective.centre))
    assert not varying(objective, 1).any()
    np.testing.assert_array_equal(parts.noise, centre.noise)
    assert (parts.log_variances != centre.log_variances).all()
    # A shape moves where the covariance function has one.
    assert (parts.log_shapes != centre.log_shapes).tolist() == [False, True]


def test_a_stronger_prior_has_shorter_directions():
    """All but the constant of a scale, which two directions move, by the root of the factor."""
    w = somewhere(objective_of())
    for changes, part in (({"strengths": Strengths(4.0, 4.0)}, "penalty"), ({"prior": 4.0}, "")):
        usual, strong = objective_of(), objective_of(**changes)
        process = usual.likelihood.process
        is_varying = process.penalty_weights() > 0.0
        moved, less = (each.theta(w) - each.centre for each in (usual, strong))
        chosen = is_varying if part == "penalty" else ~is_varying
        np.testing.assert_allclose(less[chosen], moved[chosen] / 2.0, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(less[~chosen], moved[~chosen], rtol=1e-9, atol=1e-12)


def test_beyond_the_box_only_the_prior_changes():
    objective = objective_of()
    process = objective.likelihood.process
    theta = objective.centre.copy()
    process.parameters(theta).log_variances[0] = 40.0
    w = objective.latent(theta)
    at = objective.blocks["variances"].columns.start  # of the first covariance function alone
    assert w[at] > 1.0
    found = objective(w)
    assert objective.theta(w).max() == process.bounds()[1].min()
    numeric = numeric_gradient(lambda w: objective(w).loss, w)
    assert numeric[at] == pytest.approx(w[at], rel=1e-4)
    assert found.gradient[at] == pytest.approx(w[at], rel=1e-4)


def test_without_a_covariance_the_loss_is_infinite():
    objective = objective_of()
    found = objective(np.full(objective.size, np.nan))
    assert found.loss == inf
    assert found.evaluation is None
    assert not found.gradient.any()


def test_every_latent_variable_is_in_one_block_whose_deviation_is_that_of_the_root():
    objective = objective_of()
    columns = [np.arange(objective.size)[block.columns] for block in objective.blocks.values()]
    np.testing.assert_array_equal(np.sort(np.concatenate(columns)), np.arange(objective.size))
    root = objective.root.toarray()
    for block in objective.blocks.values():
        part = root[:, block.columns]
        np.testing.assert_array_equal(part[part != 0.0], block.deviation)


def some_metric(size, count, seed=0):
    """A metric that knows some eigenvectors, and the whole matrix (Q, Q)."""
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(size, count)))[0]
    eigenvalues = np.exp(rng.uniform(-0.5, 6.0, count))
    dense = np.eye(size) + (vectors * (eigenvalues - 1.0)) @ vectors.T
    return Metric(vectors, eigenvalues), dense


@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_whitening_is_the_inverse_root_of_the_hessian(count):
    metric, dense = some_metric(7, count)
    eigenvalues, vectors = np.linalg.eigh(dense)
    root = (vectors / np.sqrt(eigenvalues)) @ vectors.T
    whitened = np.array([metric.whiten(each) for each in np.eye(7)])
    np.testing.assert_allclose(whitened, root, rtol=0.0, atol=1e-12)


def test_more_rows_make_more_of_all_but_the_priors_share():
    metric = Metric(np.eye(4)[:, :3], np.array([5.0, 1.0, 0.8]))
    more = metric.for_rows(3.0)
    np.testing.assert_allclose(more.eigenvalues, [13.0, 1.0, 1.0], rtol=1e-15)
    np.testing.assert_array_equal(more.vectors, metric.vectors)


def common_parameters(one, other):
    """Positions in theta of what two objectives both let vary, in either's theta."""
    pairs = []
    processes = [each.likelihood.process for each in (one, other)]
    constants = [int(np.argmax(process.noise_basis.is_constant)) for process in processes]
    parts = [process.parameters(np.arange(process.n_parameters)) for process in processes]
    for mine, theirs in zip(*parts, strict=True):
        if mine.shape == theirs.shape:
            pairs += zip(mine.ravel(), theirs.ravel(), strict=True)
        else:  # expansions of the noise, whose first terms are the same
            pairs.append((mine[constants[0]], theirs[constants[1]]))
    moved = [each.root.toarray().any(axis=1) for each in (one, other)]
    kept = [(a, b) for a, b in pairs if moved[0][a] and moved[1][b]]
    return np.array(kept).T


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("before", "after"), [
    ({}, {}),
    ({"strengths": Strengths(3.0, 1.0)}, {"strengths": Strengths(0.3, 10.0)}),
    ({"prior": 4.0}, {"prior": 0.5}),
    ({"strengths": Strengths(inf, inf)}, {"strengths": FREE}),
    ({"strengths": FREE}, {"strengths": Strengths(inf, inf)}),
    ({"strengths": Strengths(1.0), "noise_degree": 0}, {"noise_degree": 2}),
    ({"noise_degree": 3}, {"noise_degree": 1}),
], ids=["the same", "strengths", "prior", "freed", "held", "noise freed", "noise degree"])
def test_a_hessian_is_carried_to_another_structure(scale, before, after):
    """The share of what both let vary is that of the same Hessian in theta, whole and exact."""
    one, other = objective_of(scale, **before), objective_of(scale, **after)
    size = one.likelihood.process.n_parameters
    half = np.random.default_rng(2).normal(size=(size, size))
    by_theta = half @ half.T
    root = one.root.toarray()
    eigenvalues, vectors = np.linalg.eigh(np.eye(one.size) + root.T @ by_theta @ root)
    carried = other.carried(Metric(vectors, eigenvalues), one.blocks)
    mine, theirs = common_parameters(one, other)
    root = other.root.toarray()[theirs]
    expected = root.T @ by_theta[np.ix_(mine, mine)] @ root
    share = (carried.vectors * (carried.eigenvalues - 1.0)) @ carried.vectors.T
    np.testing.assert_allclose(share, expected, rtol=0.0, atol=1e-9 * np.abs(expected).max())
    overlap = carried.vectors.T @ carried.vectors
    np.testing.assert_allclose(overlap, np.eye(len(overlap)), rtol=0.0, atol=1e-12)


def test_of_some_eigenvectors_what_is_carried_is_no_less_than_nothing_and_no_more_than_all():
    """Between the prior's share alone and the whole Hessian, in every direction."""
    one, other = objective_of(strengths=FREE), objective_of(strengths=Strengths(0.1, 3.0))
    metric, _ = some_metric(one.size, one.size)
    metric = metric._replace(eigenvalues=np.sort(metric.eigenvalues)[::-1] + 1.0)
    whole = None
    for count in (one.size, 5, 1, 0):
        known = Metric(metric.vectors[:, :count], metric.eigenvalues[:count])
        found = other.carried(known, one.blocks)
        share = (found.vectors * (found.eigenvalues - 1.0)) @ found.vectors.T
        whole = share if whole is None else whole
        assert np.linalg.matrix_rank(share, tol=1e-9) == count
        assert (found.eigenvalues >= 1.0).all()
        assert np.linalg.eigvalsh(whole - share).min() > -1e-9 * max(np.abs(whole).max(), 1.0)
