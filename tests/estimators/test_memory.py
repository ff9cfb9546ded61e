"""Work that needs more memory than there is says so before it begins."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp import PCEGPMixture, PCEGPRegressor
from pcegp.errors import BasisTooLargeError, OutOfMemoryError

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(30, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=30)


@pytest.fixture(scope="module")
def model():
    return PCEGPRegressor(degree=1, max_iter=20).fit(X, Y)


@pytest.fixture(scope="module")
def drawn():
    return PCEGPRegressor(optimizer="nadam", max_iter=5, n_draws=1).fit(X, Y)


@pytest.fixture(scope="module")
def mixture():
    return PCEGPMixture([PCEGPRegressor(max_iter=5, degree=q) for q in (0, 1)]).fit(X, Y)


@pytest.fixture
def small_machine(monkeypatch):
    """A gigabyte, and no posterior that would compute anything."""
    monkeypatch.setattr("pcegp.numerics.resources.bytes_available", lambda: 10**9)
    monkeypatch.setattr("pcegp.inference.exact.ExactPosterior.mean_and_covariance", None)


@pytest.mark.parametrize("call", [
    lambda model, rows: model.predict(rows, return_cov=True),
    lambda model, rows: model.sample_y(rows, 2),
], ids=["covariance", "draws"])
@pytest.mark.parametrize("kind", ["model", "drawn", "mixture"])
@pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")
def test_joint_predictions_of_many_rows(call, kind, request, small_machine):
    rows = np.tile(X, (1334, 1))  # 40,000 rows: one covariance has 12.8 GB
    with pytest.raises(OutOfMemoryError, match=r"at 40,020 rows needs \d\d+\.\d GB .* only 1.0"):
        call(request.getfixturevalue(kind), rows)


def test_many_draws_count_too(model, small_machine):
    with pytest.raises(OutOfMemoryError, match="1,000,000,000 functions"):
        model.sample_y(X, 10**9)


def test_what_fits_is_computed(model, drawn, mixture, monkeypatch):
    monkeypatch.setattr("pcegp.numerics.resources.bytes_available", lambda: 10**6)
    for each in (model, drawn, mixture):
        assert each.predict(X, return_cov=True)[1].shape == (30, 30)
        assert each.sample_y(X, 3).shape == (30, 3)


def test_a_basis_of_millions_of_coefficients(monkeypatch):
    """10 inputs in degree 12 have 646,646 terms, 50 fields of them 32 million coefficients."""
    wide = RNG.uniform(size=(30, 10))
    monkeypatch.setattr("pcegp.polynomials.basis.multi_indices", None)
    with pytest.raises(BasisTooLargeError, match=r"646,646 terms .* max_basis_gb=2"):
        PCEGPRegressor(degree=12, scale="per_input", max_interaction=None).fit(wide, Y)
    monkeypatch.setattr("pcegp.numerics.resources.bytes_available", lambda: 2 * 10**9)
    with pytest.raises(OutOfMemoryError, match=r"basis of 646,657 terms .* needs 3\.6 GB"):
        PCEGPRegressor(degree=12, scale="per_input", max_interaction=None, noise="expansion",
                       max_basis_gb=100.0).fit(wide, Y)


def test_the_bytes_of_a_basis_are_at_least_what_it_takes():
    import tracemalloc

    wide = RNG.uniform(size=(50, 12))
    from pcegp.estimators import resolve

    settings = resolve(PCEGPRegressor(degree=5, scale="shared", max_interaction=None).get_params())
    settings.process(wide[:, :2])  # imported and compiled
    tracemalloc.start()
    try:
        process = settings.process(wide)
        Phi = process.basis.evaluate_in_box(wide)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    terms, needed = settings.bases(*wide.shape)
    assert terms == Phi.shape[1] + process.noise_basis.n_terms
    assert peak <= 1.1 * needed


@pytest.mark.parametrize("count", [10**11, 10**30])
def test_draws_of_a_mixture_are_refused_before_they_are_shared_out(mixture, count):
    with pytest.raises(OutOfMemoryError, match="functions at 4 rows needs"):
        mixture.sample_y(X[:4], count)
