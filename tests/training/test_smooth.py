"""Data without noise: recognised, fitted to the last digits, and only they."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

import pcegp
from pcegp import PCEGPRegressor
from pcegp.errors import NumericalWarning
from pcegp.kernels.process import Likelihood
from pcegp.training import fit as fitting
from pcegp.training import noise_free as smooth
from pcegp.training import starts

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
    return PCEGPRegressor().fit(DESIGN, branin(DESIGN))


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
    assert len(model.posteriors_[0].draws.thetas) == 4


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_noise_is_not_explained_away(noise):
    y = branin(DESIGN)
    noisy = y + noise * y.std() * RNG.normal(size=50)
    assert not PCEGPRegressor().fit(DESIGN, noisy).fit_info_["noise_free"]


def test_repeated_rows_are_no_sign_of_a_smooth_function():
    """Without noise their density is enormous, so the likelihood alone would prefer that."""
    X = RNG.uniform(size=(60, 3))
    y = np.sin(4 * X[:, 0]) + 0.5 * RNG.normal(size=60)
    X, y = np.vstack([X, X[:30]]), np.concatenate([y, y[:30]])
    assert not PCEGPRegressor(n_draws=0).fit(X, y).fit_info_["noise_free"]


@pytest.mark.parametrize("is_smooth", [True, False])
def test_some_of_many_rows_tell_whether_all_are_worth_the_time(monkeypatch, is_smooth):
    monkeypatch.setattr(fitting, "_SMOOTH_ROWS", 60)
    monkeypatch.setattr(fitting, "_SCREEN_ROWS", 40)
    tried, smooth_fit = [], smooth.smooth_fit

    def counted(likelihood, scales):
        tried.append(len(likelihood.y))
        return smooth_fit(likelihood, scales)

    monkeypatch.setattr(smooth, "smooth_fit", counted)
    if is_smooth:
        X = qmc.LatinHypercube(2, seed=1).random(80)
        y = branin(X)
    else:  # but without noise
        X = np.linspace(0, 1, 80)[:, None]
        y = np.where(X[:, 0] < 0.5, np.sin(25 * X[:, 0]), 0.3 * X[:, 0])
    model = PCEGPRegressor(n_draws=0).fit(X, y)
    assert tried == ([40, 80] if is_smooth else [40])
    assert model.fit_info_["noise_free"] is is_smooth


def test_a_function_that_changes_its_character_keeps_its_local_scale():
    x = np.linspace(0, 1, 60)[:, None]
    y = np.where(x[:, 0] < 0.5, np.sin(25 * x[:, 0]), 0.3 * x[:, 0])
    assert not PCEGPRegressor().fit(x, y).fit_info_["noise_free"]


@pytest.mark.parametrize("settings", [
    {"covariance": "matern32"}, {"scale_transform": "softplus"}, {"noise_transform": "softplus"},
])
def test_structures_without_a_smooth_member_are_left_alone(settings):
    fitted = PCEGPRegressor(max_iter=60, **settings).fit(DESIGN, branin(DESIGN))
    assert not fitted.fit_info_["noise_free"]


@pytest.mark.parametrize("scale", ["shared", "weighted", "per_input"])
def test_the_fit_lowers_its_loss_and_moves_only_what_is_free(make_structure, scale):
    X, y = DESIGN - 0.5, branin(DESIGN)
    y = (y - y.mean()) / y.std()
    structure = make_structure(X, scale=scale, transform="exponential")
    likelihood = Likelihood(structure, X, y)
    scales = starts.initial_scales(None, 5, 2)
    start = smooth._start(structure, scales)
    theta, loss = smooth.smooth_fit(likelihood, scales)
    assert loss < likelihood(start).nll
    moved = theta != start
    assert moved.any()
    assert not moved[~smooth._free(structure)].any()


def test_the_same_table_in_other_units_is_the_same_model(model):
    """Hundreds of steps on data without noise would show a difference in the last bit."""
    mean, std = model.predict(GRID, return_std=True)
    other = PCEGPRegressor().fit(2.54e12 * DESIGN, 1e-9 * branin(DESIGN))
    other_mean, other_std = other.predict(2.54e12 * GRID, return_std=True)
    np.testing.assert_allclose(1e9 * other_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(1e9 * other_std, std, rtol=1e-9)


@pytest.mark.parametrize("stage", ["smooth_fit", "draw"])
def test_an_interrupt_after_training_keeps_what_was_trained(monkeypatch, stage):
    def interrupted(*_):
        raise KeyboardInterrupt

    home = smooth if stage == "smooth_fit" else fitting
    monkeypatch.setattr(home, stage, interrupted)
    with pytest.warns(NumericalWarning, match="interrupted"):
        fitted = PCEGPRegressor().fit(DESIGN, branin(DESIGN))
    assert fitted.fit_info_["interrupted"]
    assert np.isfinite(fitted.predict(GRID)).all()
