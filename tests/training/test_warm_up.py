"""Tables with many rows: the first steps of training see some of them, the others all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pcegp import PCEGPRegressor
from pcegp.errors import NotPositiveDefiniteError, NumericalWarning, TrainingError
from pcegp.kernels.process import Likelihood
from pcegp.training import hmc as draws
from pcegp.training.hmc import n_gradients
from pcegp.training.optimiser import Options, Run

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(120, 2))
Y = np.sin(6 * X[:, 0] ** 2) + 0.1 * RNG.normal(size=120)
NEW = RNG.uniform(0.2, 0.8, size=(30, 2))
STEPS = 300  # of the warm-up


def model(**changes):
    return PCEGPRegressor(**{"warm_up_rows": 40, "n_draws": 0, "noise_delay": 50, **changes})


@pytest.fixture
def sizes(monkeypatch):
    """The number of rows of every likelihood that is asked for."""
    seen, original = [], Likelihood.__call__

    def counting(self, theta):
        seen.append(len(self.y))
        return original(self, theta)

    monkeypatch.setattr(Likelihood, "__call__", counting)
    return seen


def test_the_first_steps_see_some_rows_and_the_others_all(sizes):
    fitted = model(max_iter=STEPS + 20).fit(X, Y)
    # What the warm-up ends with is evaluated once more, with some rows and with all.
    assert sizes == [40] * (STEPS + 2) + [120] * 21
    assert fitted.n_iter_ == STEPS + 20
    assert all(len(values) == STEPS + 21 for values in fitted.history_.values())
    # The posterior takes one more.
    assert fitted.fit_info_["n_factorisations"] == len(sizes) + 1


@pytest.mark.parametrize("rows", [120, None, 2000])
def test_few_rows_need_no_warm_up(sizes, rows):
    model(warm_up_rows=rows, max_iter=10).fit(X, Y)
    assert set(sizes) == {120}


def test_the_paper_shows_all_rows_to_every_step(sizes):
    PCEGPRegressor.paper(max_iter=3).fit(X, Y)
    assert PCEGPRegressor.paper().warm_up_rows is None
    assert set(sizes) == {120}


def test_the_same_rows_are_drawn_again():
    first, second = (model(max_iter=STEPS + 5).fit(X, Y).predict(NEW) for _ in range(2))
    other = model(max_iter=STEPS + 5, random_state=1).fit(X, Y).predict(NEW)
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_what_is_learned_is_about_what_all_rows_teach():
    truth = np.sin(6 * NEW[:, 0] ** 2)
    errors = [np.sqrt(np.mean((model(warm_up_rows=rows).fit(X, Y).predict(NEW) - truth) ** 2))
              for rows in (40, None)]
    assert errors[1] < 0.06
    assert errors[0] == pytest.approx(errors[1], abs=0.01)


@pytest.mark.parametrize("patience", [None, 30])
def test_a_checkpoint_is_the_model_of_a_shorter_training(sizes, patience):
    steps = [*range(0, STEPS, 10), STEPS - 1, STEPS, STEPS + 10, STEPS + 20]
    long = model(max_iter=STEPS + 20, checkpoints=steps, patience=patience).fit(X, Y)
    reached = [step for step in steps if 0 < step <= long.n_iter_]
    switch = long.n_iter_ + 1 - sizes.count(120)  # the end of the warm-up
    assert (switch < STEPS) == (long.n_iter_ < STEPS + 20) == (patience is not None)
    assert min(reached) < switch < max(reached)
    for step in reached[-5:] if patience is None else reached[::3]:
        short = model(max_iter=step, patience=patience).fit(X, Y)
        for got, expected in zip(long.at_checkpoint(step).predict(NEW, return_std=True),
                                 short.predict(NEW, return_std=True), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_a_model_of_the_warm_up_alone_knows_all_rows():
    fitted = model(max_iter=60).fit(X, Y)
    assert len(fitted.posteriors_[0].y) == 120
    assert fitted.n_iter_ == 60
    # The last entry of the history is of all rows.
    mean, std = fitted.loo_predict()
    assert fitted.history_["loo_rmse"][-1] == pytest.approx(np.sqrt(np.mean((Y - mean) ** 2)))
    assert fitted.history_["nll"][-1] == pytest.approx(-fitted.log_marginal_likelihood_)
    assert (std > 0).all()


def test_patience_counts_anew_when_all_rows_come(sizes):
    fitted = model(max_iter=1000, learning_rate=0.3, patience=15, noise="constant").fit(X, Y)
    nll = fitted.history_["loo_nll"]
    switch = sizes.index(120) - 1  # the last step of the part is replaced
    assert 15 <= switch < STEPS
    assert fitted.n_iter_ == switch + np.argmin(nll[switch:]) + 15 < 1000


def test_restarts_are_compared_in_the_warm_up(sizes):
    model(n_restarts=3, max_iter=STEPS + 5).fit(X, Y)
    assert sizes[0] == 40
    # Probes of four starts are long with so few rows, but the warm-up ends with its last step.
    assert sizes[sizes.index(120):] == [120] * 6


def _run(rows, **options):
    fitted = model(max_iter=1).fit(X, Y)
    posterior = fitted.posteriors_[0]
    likelihood = Likelihood(posterior.structure, posterior.X[rows], posterior.y[rows])
    return Run(likelihood, Options(**options), posterior.theta, posterior.theta)


def test_a_rate_that_had_to_be_lowered_stays_low_and_the_average_goes_on():
    part = _run(slice(40), learning_rate=100.0, averaging=5)
    part.advance(60)
    assert part.n_reductions > 0
    warm = part.ended()
    everything = _run(slice(None), learning_rate=100.0, averaging=5)
    after = Run.after(warm, everything.likelihood, everything.options, everything.anchor)
    assert warm.rate < 100.0
    assert (after._rate, after._averaged) == (warm.rate, part._averaged)
    np.testing.assert_array_equal(after.result, part.result)
    assert after.iterations == 59  # the last step is to be evaluated again
    after.advance(60)
    assert after.iterations == 60


def test_a_warm_up_that_ends_in_a_spike_goes_back_to_its_best_step():
    part = _run(slice(40), averaging=1, checkpoints=(30,))
    part.advance(60)
    assert not part.ended().fell_back
    lost = part.best_theta + 3.0
    part._average = lost
    part.checkpoints[30] = replace(part.checkpoints[30], result=lost)
    warm = part.ended()
    assert warm.fell_back
    np.testing.assert_array_equal(warm.theta, part.best_theta)
    np.testing.assert_array_equal(warm.checkpoints[30].result, part.checkpoints[30].best_theta)


def test_parameters_that_all_rows_refuse_are_a_named_error(monkeypatch):
    original = Likelihood.__call__

    def refusing(self, theta):
        if len(self.y) == 120:
            raise NotPositiveDefiniteError
        return original(self, theta)

    monkeypatch.setattr(Likelihood, "__call__", refusing)
    with pytest.raises(TrainingError, match=r"with all rows: raise noise_floor.* warm_up_rows"):
        model(max_iter=5).fit(X, Y)


def test_an_interrupted_warm_up_gives_a_model_of_all_rows(monkeypatch):
    calls, original = [], Likelihood.__call__

    def interrupting(self, theta):
        calls.append(len(self.y))
        if len(calls) == 100:
            raise KeyboardInterrupt
        return original(self, theta)

    monkeypatch.setattr(Likelihood, "__call__", interrupting)
    with pytest.warns(NumericalWarning, match="interrupted after 98 of 400"):
        fitted = model().fit(X, Y)
    assert calls[100:] == [40, 120]
    assert len(fitted.posteriors_[0].y) == 120
    assert fitted.score(X, Y) > 0.5


def test_several_outputs_each_have_a_warm_up(sizes):
    both = model(max_iter=STEPS + 5).fit(X, np.column_stack([Y, -2 * Y]))
    assert sizes.count(120) == 2 * 6
    np.testing.assert_allclose(both.predict(NEW)[:, 0], both.predict(NEW)[:, 1] / -2, atol=0.1)


def test_many_rows_have_shorter_chains(monkeypatch):
    assert n_gradients(4, 2000) == 4 * n_gradients(4, 2001) == 4 * n_gradients(1, 2000)
    run = _run(slice(10))
    for many in (10, 9):
        monkeypatch.setattr(draws, "_MANY_ROWS", many)
        seen = []
        draws.draw(run, run.theta, 2, np.random.default_rng(0), seen.append)
        assert seen[-1] == n_gradients(2, 10) == (192 if many == 10 else 48)
