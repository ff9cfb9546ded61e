"""The estimator: scikit-learn's contract, frames, weights, outputs, determinism."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pcegp import PCEGPRegressor
from pcegp.errors import (
    BasisTooLargeError,
    DataWarning,
    ExtrapolationWarning,
    NumericalWarning,
    SettingError,
)
from pcegp.inference.exact import ExactLikelihood
from pcegp.polynomials import Jacobi
from pcegp.training import selection
from small_models import free, known_failures, quick

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (60, 2))
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.05 * RNG.normal(size=60)
NEW = RNG.uniform(1, 9, (8, 2))


def by_nadam(**changes):
    """A model that makes a few steps of Nadam."""
    settings = {"optimizer": "nadam", "max_iter": 30, "degree": 1, "n_draws": 2}
    return PCEGPRegressor(**{**settings, **changes})


every_training = pytest.mark.parametrize("make", [quick, free, by_nadam])


@pytest.mark.filterwarnings("ignore::pcegp.errors.PCEGPWarning")
@parametrize_with_checks(
    # With a floor, repeated rows leave the covariance of one structure regular. Maps of the target
    # make more of rounding than the check of weights allows; they have a law of their own
    # (`test_copies_of_rows_and_their_weights_lead_to_the_same_map`).
    [quick(scale="shared", noise="expansion", noise_floor=1e-6),
     free(max_iter=10, target_map="linear"), by_nadam(),
     by_nadam(scale="shared", noise="expansion", covariance="matern52")],
    expected_failed_checks=known_failures, xfail_strict=True,
)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


# A fold's test rows may lie outside the box of its training rows.
@pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")
@every_training
def test_works_in_pipelines_and_searches(make):
    scores = cross_val_score(make_pipeline(StandardScaler(), make(max_iter=80)), X, Y, cv=3)
    assert scores.mean() > 0.8
    search = GridSearchCV(make(), {"degree": [0, 2], "scale": ["shared", "per_input"]}, cv=2)
    assert search.fit(X, Y).best_params_["degree"] in (0, 2)


@every_training
def test_clone_and_pickle_predict_the_same_bits(make):
    scaler = QuantileTransformer(n_quantiles=10)
    model = make(basis=["legendre", Jacobi(2, 1)], input_scaler=scaler)
    assert clone(model).get_params()["basis"] == model.basis
    model.fit(X, Y)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    for mine, theirs in zip(model.predict(NEW, return_std=True),
                            again.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda d: pl.DataFrame(dict(d))])
def test_frames_give_names_and_the_same_predictions(frame):
    data = {"temperature": X[:, 0], "pressure": X[:, 1]}
    model = quick().fit(frame(data), Y)
    assert list(model.feature_names_in_) == ["temperature", "pressure"]
    new = frame({"temperature": NEW[:, 0], "pressure": NEW[:, 1]})
    np.testing.assert_array_equal(model.predict(new), quick().fit(X, Y).predict(NEW))


@pytest.mark.parametrize("settings", [{}, {"noise": "expansion"}, {"input_scaler": "standard"}])
@every_training
def test_a_weight_of_two_equals_two_rows(make, settings):
    if make is free:
        # Five functions explain the noise of these rows, too. Without a floor repeated rows then
        # make the covariance singular to rounding, and evidences have the error of their optima.
        settings = {**settings, "noise_floor": 1e-2}
    weights = np.ones(60)
    weights[:5] = [0, 2, 3, 0, 2]
    rows = np.repeat(np.arange(60), weights.astype(int))
    # Without draws: a chain makes what rounding leaves grow.
    weighted = make(n_draws=0, **settings).fit(X, Y, sample_weight=weights)
    repeated = make(n_draws=0, **settings).fit(X[rows], Y[rows])
    for a, b in zip(weighted.predict(NEW, return_std=True), repeated.predict(NEW, return_std=True),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    np.testing.assert_allclose(
        weighted.log_marginal_likelihood_, repeated.log_marginal_likelihood_, rtol=1e-5
    )


@every_training
def test_several_outputs_are_one_model_each(make):
    both = np.column_stack([Y, -3 * Y + 1])
    model = make().fit(X, both)
    mean, std = model.predict(NEW, return_std=True)
    alone_mean, alone_std = make().fit(X, Y).predict(NEW, return_std=True)
    assert mean.shape == std.shape == (8, 2)
    np.testing.assert_array_equal(mean[:, 0], alone_mean)
    np.testing.assert_array_equal(std[:, 0], alone_std)
    np.testing.assert_allclose(mean[:, 1], 1 - 3 * mean[:, 0], rtol=1e-6)
    assert model.predict(NEW, return_cov=True)[1].shape == (8, 8, 2)
    assert model.sample_y(NEW, 3).shape == (8, 2, 3)
    assert model.loo_predict()[0].shape == (60, 2)
    assert len(model.history_) == len(model.fit_info_) == 2


@pytest.mark.parametrize("make", [quick, by_nadam])
def test_same_seed_same_bits_and_a_used_object_keeps_nothing(make):
    first = make(n_restarts=5).fit(X, Y).predict(NEW, return_std=True)
    used = make(n_restarts=5).fit(X[:20], -Y[:20]).fit(X, Y).predict(NEW, return_std=True)
    np.testing.assert_array_equal(np.array(first), np.array(used))


@every_training
def test_row_order_does_not_matter(make):
    order = np.random.default_rng(1).permutation(60)
    a = make(max_iter=15).fit(X, Y).predict(NEW)
    b = make(max_iter=15).fit(X[order], Y[order]).predict(NEW)
    np.testing.assert_allclose(a, b, rtol=1e-8)


@every_training
def test_units_of_inputs_and_target_do_not_matter(make):
    mean, std = make().fit(X, Y).predict(NEW, return_std=True)
    scaled = make().fit(X * [1e-9, 1e6] + [0, 1e6], 1e5 * Y - 3)
    mean2, std2 = scaled.predict(NEW * [1e-9, 1e6] + [0, 1e6], return_std=True)
    np.testing.assert_allclose(mean2, 1e5 * mean - 3, rtol=1e-6)
    np.testing.assert_allclose(std2, 1e5 * std, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.int64, "fortran", "strided", "readonly", "list"])
def test_any_array_gives_the_result_of_its_float64_copy(kind):
    whole = np.round(X)
    inputs = {
        "fortran": np.asfortranarray(whole),
        "strided": np.repeat(whole, 2, axis=1)[:, ::2],
        "readonly": whole.copy(),
        "list": whole.tolist(),
    }.get(kind, whole.astype(kind) if not isinstance(kind, str) else None)
    if kind == "readonly":
        inputs.setflags(write=False)
    before = np.array(inputs, copy=True)
    np.testing.assert_array_equal(quick().fit(inputs, Y).predict(inputs),
                                  quick().fit(whole, Y).predict(whole))
    np.testing.assert_array_equal(np.array(inputs), before)


@every_training
def test_std_covariance_and_samples_agree(make):
    model = make().fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    mean2, cov = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(mean, mean2)
    np.testing.assert_allclose(np.sqrt(cov.diagonal()), std)
    if make is not free:  # which mixes the noise of its members
        certain = make(n_draws=0).fit(X, Y)
        spread, latent = (certain.predict(NEW, return_std=True, include_noise=noise)[1]
                          for noise in (True, False))
        np.testing.assert_allclose(spread**2 - latent**2, certain.noise_variance(NEW))
    draws = model.sample_y(NEW, 4000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.1)
    np.testing.assert_array_equal(draws, model.sample_y(NEW, 4000, random_state=1))
    with pytest.raises(ValueError, match="At most one of"):
        model.predict(NEW, return_std=True, return_cov=True)


@pytest.mark.parametrize("make", [quick, by_nadam])
def test_leave_one_out_is_the_last_line_of_the_history(monkeypatch, make):
    monkeypatch.setattr(selection, "_lost_freedom", lambda *_: 1.0)  # what follows the last step
    model = make(averaging=1, n_draws=0).fit(X, Y)
    mean, std = model.loo_predict()
    assert np.sqrt(np.mean((Y - mean) ** 2)) == pytest.approx(model.history_["loo_rmse"][-1])
    nll = np.mean(0.5 * ((Y - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi))
    assert nll == pytest.approx(model.history_["loo_nll"][-1])
    assert model.log_marginal_likelihood_ == pytest.approx(-model.history_["nll"][-1])
    assert model.n_iter_ == len(model.history_["loss"]) - 1 <= model.max_iter
    assert model.n_iter_ == 30 or make is quick


def test_checkpoints_are_fitted_models():
    model = by_nadam(checkpoints=[10, 30], noise="constant").fit(X, Y)
    early, short = model.at_checkpoint(10), by_nadam(max_iter=10, noise="constant").fit(X, Y)
    np.testing.assert_allclose(early.predict(NEW), short.predict(NEW))
    np.testing.assert_allclose(model.at_checkpoint(30).predict(NEW), model.predict(NEW))
    assert early.log_marginal_likelihood_ < model.log_marginal_likelihood_
    with pytest.raises(SettingError, match=r"choose from \[10, 30\]"):
        model.at_checkpoint(20)
    with pytest.raises(SettingError, match=r"checkpoint 3 was not kept: fit with checkpoints="):
        quick().fit(X, Y).at_checkpoint(3)


@pytest.mark.parametrize("make", [quick, by_nadam])
def test_expansions_and_local_scale_agree(make):
    model = make(scale_transform="identity").fit(X, Y)
    expansions = model.expansions()
    assert len(expansions) == (1 if make is quick else 5)
    assert len(expansions[0]) == 2
    scaled = model.model_.inputs.transform(NEW)
    scale = model.local_scale(NEW)
    for k, fields in enumerate(expansions):
        for f, expansion in enumerate(fields):
            np.testing.assert_allclose(expansion(scaled), scale[k, f], rtol=1e-10)


@every_training
def test_outside_the_box_warns_once_with_the_count(make):
    model = make().fit(X, Y)
    outside = np.vstack([NEW, [[100.0, 5.0]], [[5.0, -100.0]]])
    with pytest.warns(ExtrapolationWarning, match="2 of 10 rows") as caught:
        model.predict(outside, return_std=True)
    assert len(caught) == 1


@every_training
def test_constant_columns_are_ignored_with_a_warning_that_names_them(make):
    wide = pd.DataFrame({"a": X[:, 0], "site": 4.0, "b": X[:, 1]})
    with pytest.warns(DataWarning, match="constant column 'site'"):
        model = make().fit(wide, Y)
    new = pd.DataFrame({"a": NEW[:, 0], "site": 4.0, "b": NEW[:, 1]})
    np.testing.assert_array_equal(model.predict(new), make().fit(X, Y).predict(NEW))
    with pytest.warns(ExtrapolationWarning, match="8 of 8"):
        model.predict(new.assign(site=5.0))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.filterwarnings("ignore::pcegp.errors.DataWarning")
@every_training
def test_very_few_rows_give_a_wide_finite_model(make, n):
    with pytest.warns(DataWarning, match=f"only {n} row"):
        model = make(max_iter=50).fit(X[:n], Y[:n])
    mean, std = model.predict(X[:n], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@pytest.mark.parametrize("value", [0.0, 3.7, -1e-30])
@every_training
def test_a_constant_target_is_predicted_exactly(make, value):
    with pytest.warns(DataWarning, match="y is constant"):
        model = make().fit(X, np.full(60, value))
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, value, rtol=1e-12, atol=0)
    assert (std > 0).all()


@every_training
def test_one_column_and_many_columns(make):
    one = make(max_iter=100).fit(X[:, :1], np.sin(X[:, 0]))
    assert one.score(X[:, :1], np.sin(X[:, 0])) > 0.99
    wide = RNG.normal(size=(10, 15))
    with pytest.warns(DataWarning, match="16 terms for 10 rows"):
        model = make().fit(wide, wide[:, 0])
    assert np.isfinite(model.predict(wide)).all()


@every_training
def test_duplicate_rows_need_no_jitter(make):
    model = make().fit(np.vstack([X, X]), np.concatenate([Y, Y]))
    assert model.fit_info_["jitter"] == 0.0


CLOSE = 0.5 + 1e-13 * RNG.normal(size=(40, 2))
CLOSE = np.vstack([CLOSE, CLOSE, X / 10])


def test_duplicate_rows_and_no_noise_floor_report_their_jitter():
    with pytest.warns(NumericalWarning):
        model = by_nadam(noise_floor=0.0, learning_rate=1.0, max_iter=200).fit(
            CLOSE, np.concatenate([np.zeros(80), Y])
        )
    assert np.isfinite(model.predict(NEW / 10)).all()


@pytest.mark.filterwarnings("ignore::pcegp.errors.NumericalWarning")
@pytest.mark.parametrize("make", [quick, free])
def test_points_within_rounding_give_a_finite_model_and_say_what_was_added(make):
    model = make(noise_floor=0.0).fit(CLOSE, np.concatenate([np.zeros(80), Y]))
    assert np.isfinite(model.predict(NEW / 10, return_std=True)).all()
    assert model.fit_info_["jitter"] >= 0.0
    assert model.score(CLOSE, np.concatenate([np.zeros(80), Y])) > 0.5


def test_an_enormous_learning_rate_still_gives_a_finite_model():
    with pytest.warns(NumericalWarning, match="training diverged"):
        model = by_nadam(learning_rate=100.0, max_iter=200).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert model.score(X, Y) > 0.5


@pytest.fixture
def interrupt_at(monkeypatch):
    """Ctrl-C at the call of the likelihood with that number; counts the calls."""

    def arrange(number):
        calls, original = [], ExactLikelihood.__call__

        def interrupt(self, theta):
            calls.append(1)
            if len(calls) == number:
                raise KeyboardInterrupt
            return original(self, theta)

        monkeypatch.setattr(ExactLikelihood, "__call__", interrupt)
        return calls

    return arrange


@pytest.mark.parametrize(("make", "words"), [
    (quick, r"interrupted after \d of 400"), (free, r"interrupted after \d of 30"),
    (by_nadam, "interrupted after 10 of 30"),
])
def test_interrupting_keeps_the_best_model_and_says_so(interrupt_at, make, words):
    interrupt_at(12)
    with pytest.warns(NumericalWarning, match=words):
        model = make().fit(X, Y)
    assert model.fit_info_["interrupted"]
    assert np.isfinite(model.predict(NEW)).all()


@every_training
def test_interrupting_before_the_first_step_ends_the_fit(interrupt_at, make):
    interrupt_at(1)
    with pytest.raises(KeyboardInterrupt):
        make().fit(X, Y)


@pytest.mark.parametrize("n", [60, 520])
@every_training
def test_interrupting_the_probes_ends_training(interrupt_at, make, n):
    rng = np.random.default_rng(0)
    inputs = rng.uniform(size=(n, 2))
    calls = interrupt_at(25)
    with pytest.warns(NumericalWarning, match="interrupted"):
        model = make(n_restarts=3).fit(inputs, np.sin(5 * inputs[:, 0]))
    assert len(calls) <= 26
    assert model.score(inputs, np.sin(5 * inputs[:, 0])) > 0.5


@pytest.mark.filterwarnings("ignore::pcegp.errors.NumericalWarning")
@every_training
def test_interrupting_one_output_hurries_the_others(interrupt_at, make):
    calls = interrupt_at(12)
    model = make().fit(X, np.column_stack([Y, Y**2, Y + 1]))
    # One step each of a stationary scale, from the best of its starts, of the scale's expansion
    # and of training. A step may look at three places.
    n_starts = 1 + len(selection._LADDER)
    assert len(calls) <= 12 + 2 * (n_starts + 1 + 1 + 3 * 3)
    assert max(len(each["loss"]) for each in model.history_[1:]) <= 2
    assert model.predict(NEW).shape == (8, 3)


@pytest.mark.parametrize(
    ("setting", "error"),
    [({"max_basis_gb": 1e-9}, BasisTooLargeError), ({"degree": -1}, SettingError),
     ({"random_state": -1}, SettingError)],
)
def test_a_failed_refit_leaves_no_mixed_model(setting, error):
    model = quick().fit(X, Y)
    with pytest.raises(error):
        model.set_params(**setting).fit(X * 100, Y * 1000)
    with pytest.raises(NotFittedError):
        model.predict(NEW)


def test_checkpoints_of_outputs_that_stop_at_different_steps():
    rng = np.random.default_rng(0)
    model = by_nadam(max_iter=200, checkpoints=[0, 20, 40, 60, 80, 100, 200], patience=15,
                  learning_rate=0.1, noise="constant")
    model.fit(X, np.column_stack([rng.normal(size=60), Y]))
    known = min(max(out.checkpoints) for out in model.model_.outputs)
    assert len(model.at_checkpoint(known).history_[0]["loss"]) == known + 1
    with pytest.raises(SettingError, match="choose from"):
        model.at_checkpoint(200)


@pytest.mark.parametrize("model", [
    by_nadam(noise="constant", noise_floor=0.0, prior=0.0, covariance="squared_exponential",
             degree=0, learning_rate=0.1, max_iter=300, averaging=1),
    quick(noise_floor=0.0, covariance="squared_exponential", degree=0),
    quick(noise="none", noise_floor=0.0, covariance="squared_exponential", degree=0),
], ids=["nadam", "lbfgs", "known to have no noise"])
# Without a floor the covariance may be singular to rounding.
@pytest.mark.filterwarnings("ignore::pcegp.errors.NumericalWarning")
def test_samples_where_the_data_pin_the_process_down(model):
    model.fit(X, X[:, 0])
    draws = model.sample_y(X, 3, include_noise=False)
    np.testing.assert_allclose(draws, np.repeat(X[:, :1], 3, axis=1), atol=0.05)


@every_training
def test_tiny_weights_keep_leave_one_out_finite(make):
    weights = np.ones(60)
    weights[:3] = [1e-18, 1e-12, 1e-6]
    model = make().fit(X, Y, sample_weight=weights)
    mean, std = model.loo_predict()
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(model.history_["loo_nll"]).all()


@pytest.mark.parametrize("make", [quick, by_nadam])
def test_weights_reach_a_custom_scaler(make):
    weights = np.ones(60)
    weights[:3] = 2
    rows = np.repeat(np.arange(60), weights.astype(int))
    a = make(input_scaler=StandardScaler()).fit(X, Y, sample_weight=weights).predict(NEW)
    b = make(input_scaler=StandardScaler()).fit(X[rows], Y[rows]).predict(NEW)
    np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("transform", ["identity", "shift", "softplus", "sigmoid", "exponential"])
@every_training
def test_every_transform_works_with_the_default_start(make, transform):
    model = make(scale_transform=transform, noise_transform="softplus").fit(X, Y)
    assert model.score(X, Y) > 0.3


@pytest.mark.parametrize("make", [quick, by_nadam])
def test_threads_may_predict_and_fit_at_once(make):
    model = make().fit(X, Y)
    expected = model.predict(NEW, return_std=True)
    with ThreadPoolExecutor(8) as pool:
        predictions = list(pool.map(lambda _: model.predict(NEW, return_std=True), range(40)))
        fits = list(pool.map(lambda _: make().fit(X, Y).predict(NEW), range(4)))
    for mean, std in predictions:
        np.testing.assert_array_equal(mean, expected[0])
        np.testing.assert_array_equal(std, expected[1])
    for mean in fits:
        np.testing.assert_allclose(mean, expected[0], rtol=1e-8)


def test_workers_give_the_result_of_this_process():
    kinds = (free, by_nadam)
    work = Parallel(n_jobs=2)(delayed(_fit_and_predict)(make) for make in kinds)
    for mean, make in zip(work, kinds, strict=True):
        np.testing.assert_allclose(mean, _fit_and_predict(make), rtol=1e-8)


def _fit_and_predict(make):
    return make().fit(X, Y).predict(NEW)


@pytest.mark.parametrize(("make", "counts"), [
    (by_nadam, ["30/30", "2/2"]),  # steps, draws
    (free, ["6/6"]),  # covariances and maps
    (quick, ["1/1"]),  # structures
])
def test_verbose_shows_progress_and_silence_is_the_default(capsys, make, counts):
    make().fit(X, Y)
    assert capsys.readouterr() == ("", "")
    make(verbose=True).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    for count in counts:
        assert count in err


def test_presets_are_the_papers_setups():
    paper, toy = PCEGPRegressor.paper(), PCEGPRegressor.toy(max_iter=7)
    assert (paper.scale, paper.degree, paper.scale_transform, paper.noise) == (
        "shared", 5, "identity", "constant")
    assert len(paper.covariance) == 5
    assert (toy.covariance, toy.degree, toy.scale_transform, toy.max_iter) == (
        "squared_exponential", 10, "softplus", 7)


def test_a_million_rows_need_no_million_columns():
    model = quick(covariance="matern32", max_iter=5).fit(X, Y)
    many = np.tile(NEW, (25_000, 1))
    mean = model.predict(many)
    np.testing.assert_allclose(mean[:8], mean[-8:])


def test_import_is_light_and_changes_nothing():
    code = (
        "import warnings, sys, numpy as np; before = (warnings.filters[:], np.geterr());"
        "import pcegp; assert (warnings.filters[:], np.geterr()) == before;"
        "assert 'sklearn' not in sys.modules and 'numba' not in sys.modules;"
        "assert 'PCEGPRegressor' in dir(pcegp)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
