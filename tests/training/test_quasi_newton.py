"""Optima by L-BFGS: where they are, what an interrupt leaves, what is counted."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp import PCEGPRegressor
from pcegp.errors import NotPositiveDefiniteError, TrainingError
from pcegp.inference.exact import ExactLikelihood
from pcegp.training import LatentObjective, Strengths, minimise, selection
from pcegp.training.evidence import curvature
from pcegp.training.quasi_newton import REACHED
from small_models import make_likelihood, make_process

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (30, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=30)
Y = (Y - Y.mean()) / Y.std()


@pytest.fixture
def objective():
    process = make_process(X, "matern52", transform="exponential")
    centre = process.initial(np.full(1, 2.0))
    return LatentObjective.of(make_likelihood(process, X, Y), centre, Strengths(1.0), 1.0)


def found_from(objective, *starts, **changes):
    arguments = {"max_iter": 400, "max_evaluations": 1000, **changes}
    return minimise(objective, starts or [np.zeros(objective.size)], **arguments)


def test_the_end_is_an_optimum(objective):
    optimum = found_from(objective)
    assert optimum.is_reached
    assert optimum.left < 1e-3 * REACHED
    value = objective(optimum.w)
    assert value.loss == optimum.loss
    np.testing.assert_array_equal(value.gradient, optimum.gradient)
    assert np.abs(value.gradient).max() < 1e-2
    rng = np.random.default_rng(1)
    for size in (0.3, 1.0, 3.0):
        for _ in range(10):
            step = rng.normal(size=objective.size)
            assert objective(optimum.w + size * step).loss > optimum.loss


def test_no_more_is_left_to_gain_than_an_end_says(objective):
    best, reached = found_from(objective).loss, []
    for count in range(1, 31):
        early = found_from(objective, max_iter=count)
        assert early.loss - best <= early.left + 1e-9
        reached.append(early.is_reached)
    assert not reached[0]
    assert reached[-1]


def test_whoever_starts_at_an_optimum_stays_there(objective):
    first = found_from(objective)
    again = found_from(objective, first.w)
    assert again.n_iterations == 0
    np.testing.assert_array_equal(again.w, first.w)


def test_starts_in_one_valley_end_at_one_optimum(objective):
    one = found_from(objective)
    two = found_from(objective, one.w + 0.5)
    assert two.loss == pytest.approx(one.loss, abs=1e-2)
    np.testing.assert_allclose(two.w, one.w, atol=0.1)


def test_no_more_iterations_and_evaluations_are_made_than_asked_for(objective):
    seen = []
    optimum = found_from(objective, max_iter=5, watch=lambda value, number: seen.append(number))
    assert optimum.n_iterations == 5
    assert seen == [0, 1, 2, 3, 4, 5]
    assert not optimum.interrupted
    before = objective.likelihood.n_factorisations
    found_from(objective, max_evaluations=7)
    assert objective.likelihood.n_factorisations - before <= 7 + 20  # a line search is finished


def test_every_iteration_is_better_than_the_last(objective):
    losses = []
    optimum = found_from(objective, watch=lambda value, _: losses.append(value.loss))
    assert len(losses) == optimum.n_iterations + 1
    assert (np.diff(losses) < 0).all()
    assert losses[0] == objective(np.zeros(objective.size)).loss
    assert losses[-1] == optimum.loss


def test_an_interrupt_keeps_the_best(objective):
    losses = []

    def watch(value, number):
        losses.append(value.loss)
        if number == 4:
            raise KeyboardInterrupt

    optimum = found_from(objective, watch=watch)
    assert optimum.interrupted
    assert optimum.loss == min(losses) == objective(optimum.w).loss
    assert found_from(objective).loss < optimum.loss


def calls_that_raise(monkeypatch, error, is_bad):
    """Let calls of the likelihood with some numbers raise an error."""
    count, original = [0], ExactLikelihood.__call__

    def calling(self, theta):
        count[0] += 1
        if is_bad(count[0]):
            raise error
        return original(self, theta)

    monkeypatch.setattr(ExactLikelihood, "__call__", calling)


def test_an_interrupt_before_anything_is_there_is_not_caught(objective, monkeypatch):
    calls_that_raise(monkeypatch, KeyboardInterrupt, lambda number: number == 1)
    with pytest.raises(KeyboardInterrupt):
        found_from(objective)


def test_a_point_without_a_covariance_is_gone_around(objective, monkeypatch):
    expected = found_from(objective)
    calls_that_raise(monkeypatch, NotPositiveDefiniteError, lambda number: number == 2)
    found = found_from(objective)
    assert found.loss < objective(np.zeros(objective.size)).loss
    assert found.loss == pytest.approx(expected.loss, abs=0.1)


def test_no_finite_start_is_a_named_error(objective, monkeypatch):
    calls_that_raise(monkeypatch, NotPositiveDefiniteError, lambda _: True)
    with pytest.raises(TrainingError, match="not finite at the start"):
        found_from(objective)


def several(objective):
    """Starts, of which neither the first nor the last is the best."""
    rng = np.random.default_rng(4)
    starts = sorted(rng.normal(size=(4, objective.size)), key=lambda w: objective(w).loss)
    return [starts[2], starts[0], starts[3], starts[1]]


def test_of_several_starts_the_best_is_where_it_begins(objective):
    starts = several(objective)
    before, losses = objective.likelihood.n_factorisations, []
    first = found_from(objective, *starts, watch=lambda value, _: losses.append(value.loss),
                       max_iter=3)
    several_cost = objective.likelihood.n_factorisations - before
    alone = found_from(objective, starts[1], max_iter=3)
    assert losses[0] == min(objective(each).loss for each in starts)
    np.testing.assert_array_equal(first.w, alone.w)
    assert (first.loss, first.n_iterations) == (alone.loss, alone.n_iterations)
    # Each of the others costs an evaluation, and no more.
    before = objective.likelihood.n_factorisations
    found_from(objective, starts[1], max_iter=3)
    assert several_cost == objective.likelihood.n_factorisations - before + 3


@pytest.mark.parametrize("number", [2, 3, 4])
def test_an_interrupt_among_the_starts_keeps_the_best_of_those_seen(
    objective, monkeypatch, number
):
    starts, losses = several(objective), []
    expected = min(objective(each).loss for each in starts[: number - 1])
    calls_that_raise(monkeypatch, KeyboardInterrupt, lambda count: count == number)
    found = found_from(objective, *starts, watch=lambda value, _: losses.append(value.loss))
    assert found.interrupted
    assert not found.is_reached
    assert losses == [found.loss] == [expected]
    np.testing.assert_array_equal(objective(found.w).gradient, found.gradient)


def test_a_start_without_a_covariance_is_passed_over(objective, monkeypatch):
    starts = several(objective)
    expected = found_from(objective, starts[3])
    calls_that_raise(monkeypatch, NotPositiveDefiniteError, lambda count: count <= 3)
    np.testing.assert_array_equal(found_from(objective, *starts).w, expected.w)


def noisy_objective(penalty):
    process = make_process(X, ("matern52", "squared_exponential"), transform="exponential",
                           noise_degree=1)
    return LatentObjective.of(make_likelihood(process, X, Y), process.initial(np.full(2, 2.0)),
                              Strengths(penalty, 1.0), 1.0)


def evaluations(objective, start, **changes):
    before = objective.likelihood.n_factorisations
    optimum = found_from(objective, start, **changes)
    return objective.likelihood.n_factorisations - before, optimum.loss


def test_who_knows_the_curvature_needs_far_fewer_evaluations_and_ends_at_the_same_loss():
    near = noisy_objective(1.0)
    best = found_from(near)
    known = curvature(near, best).metric
    for objective, metric in ((near, known), (other := noisy_objective(2.0),
                                              other.carried(known, near.blocks))):
        expected = found_from(objective, objective.latent(near.theta(best.w))).loss
        counts, rng = np.zeros(2), np.random.default_rng(5)
        for _ in range(3):
            start = objective.latent(near.theta(best.w + 0.1 * rng.normal(size=near.size)))
            for i, changes in enumerate(({}, {"metric": metric})):
                count, loss = evaluations(objective, start, **changes)
                counts[i] += count
                assert loss == pytest.approx(expected, abs=1e-8)
        assert counts[1] < counts[0] / 3


def test_a_rough_optimum_costs_less_and_is_nearly_as_good(objective):
    start = np.zeros(objective.size)
    (few, rough), (many, fine) = (evaluations(objective, start, rough=each)
                                  for each in (True, False))
    assert few < many
    assert fine <= rough < fine + REACHED
    assert found_from(objective, rough=True).is_reached


#: One structure, so that the first optimum is that of a stationary scale.
STATIONARY = {"covariance": "matern52", "input_map": "linear", "noise": "constant", "degree": 0}


@pytest.mark.parametrize("seed", [0, 1])
def test_more_restarts_never_give_a_larger_loss(seed, monkeypatch):
    """The best of all is carried on."""
    optima, original = [], selection.minimise

    def noting(*args, **kwargs):
        optima.append(original(*args, **kwargs))
        return optima[-1]

    monkeypatch.setattr(selection, "minimise", noting)
    x = np.linspace(0, 1, 60)[:, None]
    y = np.sin(60 * x[:, 0]) + 0.3 * np.random.default_rng(seed).normal(size=60)
    losses = []
    for count in (0, 1, 3, 6):
        optima.clear()
        model = PCEGPRegressor(n_restarts=count, **STATIONARY).fit(x, y)
        compared = [each.loss for each in optima[: 1 + count]]  # then it may be trained further
        losses.append(model.history_["loss"][-1])
        assert len(compared) == 1 + count
        assert min(compared) - REACHED < losses[-1] <= min(compared)
    assert max(compared) > min(compared) + 1.0  # or the law says nothing
    assert (np.diff(losses) <= 1e-6).all()


@pytest.mark.parametrize("covariance", ["matern52", "squared_exponential"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_fast_signal_is_found_without_restarts(covariance, seed):
    """From the usual scale alone, all would be noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(150, 1))
    y = np.sin(100 * x[:, 0]) + 0.1 * rng.normal(size=150)
    model = PCEGPRegressor(n_restarts=0, **{**STATIONARY, "covariance": covariance}).fit(x, y)
    new = np.linspace(0.05, 0.95, 100)[:, None]
    assert model.score(new, np.sin(100 * new[:, 0])) > 0.9
    assert model.noise_variance(new).max() < 0.02
