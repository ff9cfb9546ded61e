"""A mixture: mean and spread of several models, at one point and jointly."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

import pcegp
from pcegp import PCEGPMixture, PCEGPRegressor
from pcegp.errors import SettingError
from pcegp.estimators.mixture import recommended

pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (40, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.05 * RNG.normal(size=40)
NEW = RNG.uniform(-0.5, 1.5, (5, 2))  # also outside, where members differ
#: Members with draws of their parameters.
NADAM = {"optimizer": "nadam", "max_iter": 20, "n_draws": 4}
#: One structure, which trains in a blink.
ONE = {"covariance": "matern52", "input_map": "linear", "noise": "constant", "penalty": 1.0}


@pytest.fixture(scope="module")
def mixture():
    members = [PCEGPRegressor(degree=q, **NADAM) for q in (0, 1, 2)]
    return PCEGPMixture(members).fit(X, Y)


def test_it_has_the_spread_of_its_members_samples_about_their_weighted_mean(mixture):
    mean, std = mixture.predict(NEW, return_std=True)
    each = [m.without_draws().predict(NEW, return_std=True) for m in mixture.estimators_]
    weights = [deviation**-2.0 for _, deviation in each]
    assert mean == pytest.approx(np.average([m for m, _ in each], axis=0, weights=weights))
    drawn = np.concatenate([m.sample_y(NEW, 40_000, random_state=k)
                            for k, m in enumerate(mixture.estimators_)], axis=1)
    assert std == pytest.approx(np.sqrt(((drawn.T - mean) ** 2).mean(axis=0)), rel=0.02)
    _, covariance = mixture.predict(NEW, return_cov=True)
    apart = drawn - mean[:, None]
    assert covariance == pytest.approx(apart @ apart.T / apart.shape[1], abs=0.03 * std.max() ** 2)


@pytest.mark.parametrize("include_noise", [True, False])
def test_the_joint_covariance_is_one_and_agrees_with_the_deviation(mixture, include_noise):
    mean, covariance = mixture.predict(NEW, return_cov=True, include_noise=include_noise)
    alone, std = mixture.predict(NEW, return_std=True, include_noise=include_noise)
    assert (mean == alone).all()
    assert np.sqrt(np.diag(covariance)) == pytest.approx(std)
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_noise_does_not_move_the_mean(mixture):
    mean, with_noise = mixture.predict(NEW, return_std=True)
    same, without = mixture.predict(NEW, return_std=True, include_noise=False)
    assert (mean == same).all()
    assert (mean == mixture.predict(NEW)).all()
    assert (without < with_noise).all()


def test_a_frozen_member_is_taken_as_it_is(mixture):
    frozen = FrozenEstimator(mixture.estimators_[0])
    again = PCEGPMixture([frozen, *mixture.estimators[1:]]).fit(X, Y)
    assert again.estimators_[0] is mixture.estimators_[0]
    for ours, theirs in zip(again.predict(NEW, return_std=True),
                            mixture.predict(NEW, return_std=True), strict=True):
        assert (ours == theirs).all()
    with pytest.raises(NotFittedError):
        PCEGPMixture([PCEGPRegressor(), FrozenEstimator(PCEGPRegressor())]).fit(X, Y)


def test_the_recommended_members_have_draws_only_if_told():
    assert [member.n_draws for member in recommended()] == [0, 0]
    assert [member.n_draws for member in recommended(n_draws=2)] == [2, 2]


def test_draws_widen_the_spread_and_leave_the_weights():
    settings = [{"degree": 0}, {"degree": 1, "n_draws": 0}]
    drawn = PCEGPMixture([PCEGPRegressor(**{**NADAM, **each}) for each in settings]).fit(X, Y)
    certain = PCEGPMixture(
        [PCEGPRegressor(**{**NADAM, **each, "n_draws": 0}) for each in settings]
    ).fit(X, Y)
    mean, std = drawn.predict(NEW, return_std=True)
    same, narrower = certain.predict(NEW, return_std=True)
    assert (mean == same).all()
    assert (std > narrower).all()


@pytest.mark.parametrize("settings", [{"max_iter": 10}, ONE, NADAM],
                         ids=["averaged", "one structure", "draws"])
def test_equal_members_are_one_of_them(settings):
    one = PCEGPRegressor(**settings).fit(X, Y)
    mixture = PCEGPMixture([PCEGPRegressor(**settings)] * 3).fit(X, Y)
    for mixed, alone in zip(mixture.predict(NEW, return_cov=True),
                            one.predict(NEW, return_cov=True), strict=True):
        assert mixed == pytest.approx(alone, rel=1e-12)


def test_who_is_certain_has_more_say():
    sure = PCEGPRegressor(max_iter=200)
    vague = PCEGPRegressor(degree=0, noise_floor=0.5, max_iter=200)
    mixture = PCEGPMixture([sure, vague]).fit(X, Y)
    means = [m.predict(X) for m in mixture.estimators_]
    mixed = mixture.predict(X)
    assert np.abs(mixed - means[0]).max() < 0.2 * np.abs(mixed - means[1]).max()


def test_one_that_is_too_sure_does_not_make_all_sure(mixture):
    _, std = mixture.predict(NEW, return_std=True)
    each = np.array([m.predict(NEW, return_std=True)[1] for m in mixture.estimators_])
    assert (std >= np.sqrt((each**2).mean(axis=0)) - 1e-12).all()


def test_a_member_that_averages_structures_is_heard_as_the_average():
    """Without its draws, of which it has none, a member is what it was."""
    free = PCEGPRegressor(degree=1, max_iter=30).fit(X, Y)
    assert len(free.fit_info_["members"]) > 1
    assert free.without_draws() is free
    for both, alone in zip(PCEGPMixture([FrozenEstimator(free)]).fit(X, Y).predict(NEW, True),
                           free.predict(NEW, True), strict=True):
        assert both == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("unit", [2.0**-550, 2.0**520])
def test_units_may_be_extreme(unit):
    members = [PCEGPRegressor(degree=q, max_iter=5, n_draws=0) for q in (0, 1)]
    usual = PCEGPMixture(members).fit(X, Y).predict(NEW)
    assert PCEGPMixture(members).fit(X, unit * Y).predict(NEW) == pytest.approx(unit * usual)


def test_several_outputs_are_mixed_one_by_one():
    members = [PCEGPRegressor(degree=q, max_iter=20, n_draws=0) for q in (0, 1)]
    both = PCEGPMixture(members).fit(X, np.column_stack([Y, -2.0 * Y]))
    mean, covariance = both.predict(NEW, return_cov=True)
    assert mean.shape == (5, 2)
    assert covariance.shape == (5, 5, 2)
    assert mean[:, 1] == pytest.approx(-2.0 * mean[:, 0], rel=1e-6, abs=1e-6)
    assert covariance[..., 1] == pytest.approx(4.0 * covariance[..., 0], rel=1e-5)


def test_a_file_keeps_it(mixture, tmp_path):
    loaded = pcegp.load(mixture.save(tmp_path / "mixture.pcegp"))
    for one, other in zip(loaded.predict(NEW, return_std=True),
                          mixture.predict(NEW, return_std=True), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("settings", [{"n_jobs": 0}, {"estimators": []}])
def test_a_fit_that_is_refused_leaves_no_old_mixture(settings):
    mixture = PCEGPMixture([PCEGPRegressor(max_iter=2, n_draws=0)]).fit(X, Y)
    with pytest.raises(SettingError):
        mixture.set_params(**settings).fit(X, Y)
    with pytest.raises(NotFittedError):
        mixture.predict(NEW)


def test_an_empty_one_is_refused(mixture):
    with pytest.raises(SettingError, match="at least one"):
        PCEGPMixture([]).fit(X, Y)
    with pytest.raises(SettingError, match="At most one"):
        mixture.predict(NEW, return_std=True, return_cov=True)
