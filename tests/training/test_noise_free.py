"""Data without noise: recognised, fitted to the last digits, and only they."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

import pcegp
from pcegp import PCEGPRegressor
from pcegp.kernels import TRANSFORMS
from pcegp.training import noise_free, stages
from small_models import make_likelihood, make_process

RNG = np.random.default_rng(3)
# Points of a grid may lie outside the box of a design.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


def branin(U):
    x1, x2 = 15.0 * U[:, 0] - 5.0, 15.0 * U[:, 1]
    bend = x2 - 5.1 / (4 * np.pi**2) * x1**2 + 5.0 / np.pi * x1 - 6.0
    return bend**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x1) + 10.0


DESIGN = qmc.LatinHypercube(2, seed=0).random(50)
GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 30)] * 2), axis=-1).reshape(-1, 2)


@pytest.fixture(scope="module")
def model():
    return PCEGPRegressor(optimizer="nadam", n_draws=4).fit(DESIGN, branin(DESIGN))


def test_branin_at_fifty_points_with_defaults(model):
    mean, std = model.predict(GRID, return_std=True)
    assert model.fit_info_["noise_free"]
    assert np.sqrt(np.mean((mean - branin(GRID)) ** 2)) <= 0.2
    assert np.mean(np.abs(mean - branin(GRID)) < 1.96 * std) > 0.9


def test_it_is_stationary_saved_and_drawn_from_as_any_other(model, tmp_path):
    assert np.ptp(model.local_scale(GRID), axis=2).max() < 1e-12
    again = pcegp.load(model.save(tmp_path / "branin.pcegp"))
    for ours, loaded in zip(model.predict(GRID, return_std=True),
                            again.predict(GRID, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, loaded)
    assert again.fit_info_["noise_free"] is True
    assert len(model.model_.outputs[0].posterior.others.thetas) == 4


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_noise_is_not_explained_away(noise):
    y = branin(DESIGN)
    noisy = y + noise * y.std() * RNG.normal(size=50)
    assert not PCEGPRegressor(optimizer="nadam").fit(DESIGN, noisy).fit_info_["noise_free"]


def test_repeated_rows_are_no_sign_of_a_smooth_function():
    """Without noise their density is enormous, so the likelihood alone would prefer that."""
    X = RNG.uniform(size=(60, 3))
    y = np.sin(4 * X[:, 0]) + 0.5 * RNG.normal(size=60)
    X, y = np.vstack([X, X[:30]]), np.concatenate([y, y[:30]])
    assert not PCEGPRegressor(optimizer="nadam").fit(X, y).fit_info_["noise_free"]


def kink(n):
    """A function without noise that changes its character."""
    x = np.linspace(0, 1, n)[:, None]
    return x, np.where(x[:, 0] < 0.5, np.sin(25 * x[:, 0]), 0.3 * x[:, 0])


@pytest.mark.parametrize("is_smooth", [True, False])
def test_some_of_many_rows_tell_whether_all_are_worth_the_time(monkeypatch, is_smooth):
    monkeypatch.setattr(stages, "_CANDIDATE_ROWS", 60)
    monkeypatch.setattr(stages, "_PILOT_ROWS", 40)
    tried, fit_candidate = [], noise_free.fit_candidate

    def counted(likelihood, scales):
        tried.append(len(likelihood.data.y))
        return fit_candidate(likelihood, scales)

    monkeypatch.setattr(noise_free, "fit_candidate", counted)
    if is_smooth:
        X = qmc.LatinHypercube(2, seed=1).random(80)
        y = branin(X)
    else:
        X, y = kink(80)
    model = PCEGPRegressor(optimizer="nadam").fit(X, y)
    assert tried == ([40, 80] if is_smooth else [40])
    assert model.fit_info_["noise_free"] is is_smooth


def test_a_function_that_changes_its_character_keeps_its_local_scale():
    assert not PCEGPRegressor(optimizer="nadam").fit(*kink(60)).fit_info_["noise_free"]


def test_a_candidate_needs_a_smooth_function_and_logarithms():
    X = DESIGN - 0.5
    assert noise_free.is_possible(make_process(X, transform="exponential"))
    assert not noise_free.is_possible(make_process(X, "matern32", transform="exponential"))
    for name in set(TRANSFORMS) - {"exponential"}:
        assert not noise_free.is_possible(make_process(X, transform=name))
        assert not noise_free.is_possible(
            make_process(X, transform="exponential", noise_transform=name)
        )


def test_a_process_without_such_a_member_is_left_alone():
    fitted = PCEGPRegressor("matern32", optimizer="nadam", max_iter=60).fit(DESIGN, branin(DESIGN))
    assert not fitted.fit_info_["noise_free"]


@pytest.mark.parametrize("scale", ["shared", "weighted", "per_input"])
def test_the_fit_raises_its_likelihood_and_moves_only_what_is_free(scale):
    X, y = DESIGN - 0.5, branin(DESIGN)
    y = (y - y.mean()) / y.std()
    process = make_process(X, scale=scale, transform="exponential")
    likelihood = make_likelihood(process, X, y)
    scales = np.full(5, 3.0 / np.sqrt(2.0))
    start = noise_free._start(process, scales)
    theta = noise_free.fit_candidate(likelihood, scales)
    assert likelihood(theta).nll < likelihood(start).nll
    moved = theta != start
    assert moved.any()
    assert not moved[~noise_free._free(process)].any()
    assert noise_free.is_better(likelihood, theta, start)
    assert not noise_free.is_better(likelihood, start, theta)
    assert not noise_free.is_better(likelihood, theta, theta)


def test_the_same_table_in_other_units_is_the_same_model(model):
    """Hundreds of steps on data without noise would show a difference in the last bit."""
    mean, std = model.predict(GRID, return_std=True)
    other = PCEGPRegressor(optimizer="nadam", n_draws=4)
    other.fit(2.54e12 * DESIGN, 1e-9 * branin(DESIGN))
    other_mean, other_std = other.predict(2.54e12 * GRID, return_std=True)
    np.testing.assert_allclose(1e9 * other_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(1e9 * other_std, std, rtol=1e-9)
