"""Several starts: what they are, and which one is carried on."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.errors import TrainingError
from pcegp.inference import Exact
from pcegp.training import Descent, Objective, Options, starts
from small_models import make_likelihood, make_process

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (40, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=40)


@pytest.fixture
def objective():
    process = make_process(X, ("squared_exponential", "matern32"))
    return Objective(make_likelihood(process, X, Y), ())


def descents(objective, thetas):
    return [Descent(objective, Options(Exact()), theta) for theta in thetas]


def test_restarts_are_multiples_of_the_scales_then_random(objective):
    process = objective.likelihood.process
    found = starts.restarts(process, np.ones(2), 5, np.random.default_rng(0))
    assert len({theta.tobytes() for theta in found}) == 5
    constants = [process.parameters(theta).coefficients[0, 0, 0] for theta in found]
    assert constants[:3] == [4.0, 0.25, 16.0]
    varying = [process.parameters(theta).coefficients[..., 1:] for theta in found]
    assert [bool(part.any()) for part in varying] == [False, False, False, True, True]
    again = starts.restarts(process, np.ones(2), 5, np.random.default_rng(0))
    np.testing.assert_array_equal(again, found)


def test_restarts_stay_where_the_transform_can_reach():
    process = make_process(X, "matern32", transform="sigmoid")
    for theta in starts.restarts(process, np.full(1, 0.9), 4, np.random.default_rng(0)):
        assert np.isfinite(theta).all()


def test_the_best_probe_is_carried_on(objective):
    process = objective.likelihood.process
    thetas = [process.initial(np.ones(2)),
              *starts.restarts(process, np.ones(2), 5, np.random.default_rng(0))]
    racing = descents(objective, thetas)
    chosen = starts.choose(racing, 60)
    assert racing == [chosen]
    chosen.advance(60)
    for other in descents(objective, thetas):
        other.advance(60)
        assert chosen.best.loss <= other.best.loss + 1.0
        if (other.start == chosen.start).all():
            np.testing.assert_array_equal(chosen.state.result, other.state.result)


def test_a_start_that_fails_is_left_out(objective):
    good = objective.likelihood.process.initial(np.ones(2))
    bad = np.full_like(good, np.nan)
    assert (starts.choose(descents(objective, [bad, good]), 40).start == good).all()
    with pytest.raises(TrainingError, match="no start has a finite likelihood"):
        starts.choose(descents(objective, [bad, bad]), 40)


def test_one_start_is_chosen_without_a_step(objective):
    (only,) = descents(objective, [objective.likelihood.process.initial(np.ones(2))])
    assert starts.choose([only], 40) is only
    assert not only.history.loss
