"""Tables with many rows: the first steps of training see some of them, the others all."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp import PCEGPRegressor
from pcegp.draws import n_gradients
from pcegp.errors import NumericalWarning
from pcegp.model import Likelihood

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
    # The parameters that the warm-up ends with are evaluated with some rows and with all.
    assert sizes[: STEPS + 22] == [40] * (STEPS + 1) + [120] * 21
    assert fitted.n_iter_ == STEPS + 20
    assert all(len(values) == STEPS + 21 for values in fitted.history_.values())
    assert fitted.fit_info_["n_factorisations"] >= len(sizes)


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


@pytest.mark.parametrize("patience", [None, 400])
def test_a_checkpoint_is_the_model_of_a_shorter_training(patience):
    steps = [0, 100, STEPS - 1, STEPS, STEPS + 10, STEPS + 20]
    long = model(max_iter=STEPS + 20, checkpoints=steps, patience=patience).fit(X, Y)
    for step in steps[1:]:
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


def test_patience_counts_anew_when_all_rows_come():
    fitted = model(max_iter=1000, learning_rate=0.3, patience=15).fit(X, Y)
    nll = fitted.history_["loo_nll"]
    assert 30 <= fitted.n_iter_ < 1000
    assert len(nll) == fitted.n_iter_ + 1


def test_restarts_are_compared_in_the_warm_up(sizes):
    model(n_restarts=3, max_iter=STEPS + 5).fit(X, Y)
    assert sizes[0] == 40
    assert sizes.index(120) > STEPS
    assert set(sizes[sizes.index(120):]) == {120}


def test_a_rate_that_had_to_be_lowered_stays_low():
    with pytest.warns(NumericalWarning, match="training diverged"):
        fitted = model(learning_rate=100.0, max_iter=STEPS + 50).fit(X, Y)
    assert np.isfinite(fitted.history_["loss"]).all()
    assert fitted.score(X, Y) > 0.5


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
    assert calls[100:] == [120]
    assert len(fitted.posteriors_[0].y) == 120
    assert fitted.score(X, Y) > 0.5


def test_several_outputs_each_have_a_warm_up():
    both = model(max_iter=STEPS + 5).fit(X, np.column_stack([Y, -2 * Y]))
    np.testing.assert_allclose(both.predict(NEW)[:, 0], both.predict(NEW)[:, 1] / -2, atol=0.1)


def test_many_rows_have_shorter_chains():
    assert n_gradients(4, 2000) == 4 * n_gradients(4, 2001) == 4 * n_gradients(1, 2000)
