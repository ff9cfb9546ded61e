"""Loops over pairs of points: tiles, threads and projections. Values and slopes are tested as
those of the exact engine, beside plain SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from pcegp.numerics import ONE_THREAD, Threads, pairwise
from small_models import make_process

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2), (5, 4), (300, 3), (515, 9)])
def test_covariances_are_those_of_the_functions_whatever_the_tile(n, d):
    process = make_process(np.zeros((1, d)), degree=0)
    parts = process.parameters(RNG.normal(size=process.n_parameters))
    components = process.components(parts)
    Z, new, noise = RNG.normal(size=(5, d, n)), RNG.normal(size=(5, d, 7)), RNG.uniform(size=n)

    def dense(A, B):
        distances = [cdist(a.T, b.T, "sqeuclidean") for a, b in zip(A, B, strict=True)]
        return sum(s * f.evaluate(D, shape)[0] for s, f, D, shape in zip(
            components.variances, process.covariances, distances, components.shapes, strict=True))

    C = np.full((n, n), np.nan)
    pairwise.fill(Z, components, noise, C)
    np.testing.assert_allclose(np.tril(C), np.tril(dense(Z, Z) + np.diag(noise)), rtol=1e-12)
    assert np.isnan(C[np.triu_indices(n, 1)]).all()  # only the lower triangle is written
    np.testing.assert_allclose(pairwise.cross(new, Z, components), dense(new, Z), rtol=1e-12)


@pytest.mark.parametrize("count", [2, 3])
def test_the_number_of_threads_does_not_change_a_bit(count):
    process, n = make_process(np.zeros((1, 3)), degree=0), 300
    components = process.components(process.parameters(RNG.normal(size=process.n_parameters)))
    Z, duals = RNG.normal(size=(5, 3, n)), RNG.normal(size=(1, n))
    inverse = np.tril(RNG.normal(size=(n, n)))

    def everything(threads):
        C = np.zeros((n, n))
        pairwise.fill(Z, components, np.ones(n), C, threads)
        return (C, pairwise.cross(Z, Z, components, threads),
                pairwise.project(Z, Z, components, duals, threads),
                *pairwise.pull_back(Z, components, inverse, duals[0], threads))

    several = Threads(count)
    for found, expected in zip(everything(several), everything(ONE_THREAD), strict=True):
        np.testing.assert_array_equal(found, expected)
    several.close()


def test_projections_side_by_side_are_those_one_by_one():
    X, new = RNG.uniform(-0.5, 0.5, (300, 3)), RNG.uniform(-0.5, 0.5, (7, 3))
    process = make_process(X, scale="weighted", degree=1, noise_degree=1)
    thetas = RNG.normal(size=(3, process.n_parameters))
    duals = RNG.normal(size=(3, len(X)))
    joined = process.side_by_side(thetas)
    design, new_design = process.design(X), process.design(new)
    Z, Z_new = (process.warp(joined, d).Z for d in (design, new_design))
    found = pairwise.project(Z_new, Z, process.components(joined), duals)
    for s, theta in enumerate(thetas):
        alone = process.parameters(theta)
        Z, Z_new = (process.warp(alone, d).Z for d in (design, new_design))
        expected = pairwise.cross(Z_new, Z, process.components(alone)) @ duals[s]
        np.testing.assert_allclose(found[s], expected, rtol=1e-12, atol=1e-12)
