"""Nearest-neighbour inference: equal to exact inference where all rows are neighbours."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pcegp.errors import SettingError
from pcegp.inference import Exact, Neighbours
from pcegp.kernels import COVARIANCES, TRANSFORMS
from pcegp.numerics import Threads
from small_models import BUILT_IN, make_data, make_process, numeric_gradient, some_parameters

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (40, 2))
Y = np.sin(5.0 * X[:, 0]) + 0.3 * RNG.normal(size=40)
NEW = RNG.uniform(-0.4, 0.4, (6, 2))
WEIGHTS = RNG.integers(1, 4, size=40).astype(float)
FEW = Neighbours(n_train=5, n_predict=8)
NOISES = ((0, "exponential"), (1, "exponential"), (1, "softplus"), (2, "identity"))


def bound(engine, process=None, weights=WEIGHTS, **options):
    process = process or make_process(X, noise_degree=1)
    return engine.bind(process, make_data(X, Y, weights), **options)


def theta_of(process, seed=1):
    return some_parameters(process, seed)


@pytest.mark.parametrize(("name", "transform", "noise"), list(product(
    [name for name in BUILT_IN if name in COVARIANCES], TRANSFORMS, NOISES)))
def test_the_gradient_is_that_of_finite_differences(name, transform, noise):
    degree, noise_transform = noise
    process = make_process(X, name, degree=1, transform=transform, noise_degree=degree,
                           noise_transform=noise_transform, noise_floor=0.05)
    theta = theta_of(process)
    likelihood = bound(FEW, process).of_rows(theta, 12)
    numeric = numeric_gradient(lambda t: likelihood(t).nll, theta)
    gradient = likelihood(theta).gradient
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("scale", ["shared", "weighted", "per_input"])
def test_with_all_rows_as_neighbours_it_is_the_exact_likelihood(scale):
    process = make_process(X, scale=scale, noise_degree=1)
    theta = theta_of(process)
    ours, exact = (bound(engine, process)(theta) for engine in (Neighbours(n_train=39), Exact()))
    assert ours.nll == pytest.approx(exact.nll, rel=1e-8)
    np.testing.assert_allclose(ours.gradient, exact.gradient, rtol=1e-7, atol=1e-7)


def test_the_rows_of_several_likelihoods_add_up():
    process = make_process(X)
    theta = theta_of(process)
    whole = bound(Neighbours(n_train=39), process)
    last, before = whole.of_rows(theta, 15), whole.of_rows(theta, 25, n_skipped=15)
    assert not set(last.owners) & set(before.owners)
    assert last(theta).nll + before(theta).nll == pytest.approx(whole(theta).nll, rel=1e-10)
    assert last.by_row.sum() == pytest.approx(last(theta).nll, rel=1e-12)


def test_neighbours_are_the_nearest_of_the_rows_before():
    process = make_process(X, "matern52", degree=0)
    theta = theta_of(process)
    likelihood = bound(FEW, process).of_rows(theta, 10)
    Z = process.warp(process.parameters(theta), process.design(X)).Z[0].T
    order = np.random.default_rng(0).permutation(40)
    for t, owner in enumerate(likelihood.owners):
        earlier = np.flatnonzero(order < order[owner])
        distances = np.linalg.norm(Z[earlier] - Z[owner], axis=1)
        expected = earlier[np.argsort(distances)[:5]]
        found = likelihood._used[likelihood._terms.neighbours[t]]
        assert set(found) == set(expected)


def test_a_tree_finds_what_all_distances_find():
    """Where the owners are a few of many rows, neighbours come from a tree."""
    rng = np.random.default_rng(1)
    points, y = rng.uniform(-0.5, 0.5, (400, 2)), rng.normal(size=400)
    process = make_process(points, "matern32", degree=0)
    theta = theta_of(process)
    engine = Neighbours(n_train=10)
    data = make_data(points, y)
    by_tree = engine.bind(process, data).of_rows(theta, 40)
    all_rows = engine.bind(process, data).of_rows(theta, 400)
    last = np.isin(all_rows.owners, by_tree.owners)
    by_tree(theta), all_rows(theta)
    np.testing.assert_allclose(by_tree.by_row, all_rows.by_row[last], rtol=1e-10)


def test_any_number_of_threads_gives_the_same_bits():
    process = make_process(X)
    theta = theta_of(process)
    threads = Threads(3)
    one, several = bound(FEW, process)(theta), bound(FEW, process, threads=threads)(theta)
    threads.close()
    assert one.nll == several.nll
    np.testing.assert_array_equal(one.gradient, several.gradient)


def test_with_all_rows_as_neighbours_predictions_are_exact():
    process = make_process(X, noise_degree=1)
    theta = theta_of(process)
    ours, exact = (bound(engine, process).posterior(theta) for engine in (Neighbours(), Exact()))
    for include_noise in (True, False):
        for got, expected in zip(ours.mean_and_variance(NEW, include_noise),
                                 exact.mean_and_variance(NEW, include_noise), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-8)
        for got, expected in zip(ours.mean_and_covariance(NEW, include_noise),
                                 exact.mean_and_covariance(NEW, include_noise), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(ours.mean(NEW), exact.mean(NEW), rtol=1e-8)


def test_a_prediction_is_that_of_its_neighbours_alone():
    process = make_process(X, "matern52", degree=1)
    theta = theta_of(process)
    posterior = bound(FEW, process).posterior(theta)
    near = posterior._near(posterior.rows.warped(NEW), 8, 1)
    for row, rows in zip(NEW, near, strict=True):
        data = make_data(X[rows], Y[rows], WEIGHTS[rows])
        alone = Exact().bind(process, data).posterior(theta).mean_and_variance(row[None])
        for got, expected in zip(posterior.mean_and_variance(row[None]), alone, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_a_row_that_is_left_out_has_no_say_even_beside_copies():
    rows = np.repeat(np.arange(10), 3)
    process = make_process(X[rows], "matern52", degree=0)
    data = make_data(X[rows], Y[rows] + 0.1 * np.arange(30))
    posterior = Neighbours(n_predict=4).bind(process, data).posterior(theta_of(process))
    mean, variance = posterior.leave_one_out()
    changed = data._replace(y=np.where(np.arange(30) == 7, 50.0, data.y))
    other = Neighbours(n_predict=4).bind(process, changed).posterior(theta_of(process))
    assert other.leave_one_out()[0][7] == pytest.approx(mean[7], rel=1e-12)
    assert (variance > 0.0).all()


def test_equal_rows_are_no_fault():
    process = make_process(X, "matern52", degree=0)
    data = make_data(np.tile(X[:1], (30, 1)), Y[:30])
    posterior = FEW.bind(process, data).posterior(theta_of(process))
    assert np.isfinite(posterior.mean_and_variance(NEW)).all()


def test_a_covariance_that_needs_too_many_rows_is_refused(monkeypatch):
    monkeypatch.setattr("pcegp.inference.neighbours._MOST_JOINT", 10)
    process = make_process(X)
    posterior = bound(FEW, process).posterior(theta_of(process))
    with pytest.raises(SettingError, match="10 are the most"):
        posterior.mean_and_covariance(NEW)


@pytest.mark.parametrize("name", ["n_train", "n_predict", "n_terms"])
def test_numbers_of_neighbours_are_checked(name):
    with pytest.raises(SettingError, match=f"{name}=0"):
        Neighbours(**{name: 0})
