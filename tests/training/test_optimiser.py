"""Nadam's steps, delay, averaging, checkpoints, stopping, and what happens to bad steps."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.errors import NotPositiveDefiniteError, TrainingError
from pcegp.inference import Exact
from pcegp.training import Descent, ElasticNet, Normal, Objective, Options
from pcegp.training.optimiser import Nadam
from small_models import make_likelihood, make_process

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (40, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=40)
Y = (Y - Y.mean()) / Y.std()


def likelihood_of(rows=slice(None), **settings):
    covariances = settings.pop("covariances", ("squared_exponential", "matern32"))
    process = make_process(X, covariances, **settings)
    return make_likelihood(process, X[rows], Y[rows])


@pytest.fixture
def likelihood():
    return likelihood_of()


def descent(likelihood, start=None, priors=(), **options):
    """A descent from a start with scale 1 for every covariance function."""
    process = likelihood.process
    theta = process.initial(np.ones(len(process.covariances)))
    return Descent(Objective.of(likelihood, priors, theta), Options(Exact(), **options),
                   theta if start is None else start)


def run(likelihood, iterations=60, **options):
    out = descent(likelihood, max_iter=iterations, **options)
    out.advance(iterations)
    return out


def torch_nadam(gradients, rate):
    """torch.optim.NAdam's documented recurrence, one number at a time."""
    theta = first = second = 0.0
    product = 1.0
    path = []
    for t, g in enumerate(gradients, 1):
        mu = 0.9 * (1 - 0.5 * 0.96 ** (t * 0.004))
        mu_next = 0.9 * (1 - 0.5 * 0.96 ** ((t + 1) * 0.004))
        product *= mu
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g * g
        corrected = mu_next * first / (1 - product * mu_next) + (1 - mu) * g / (1 - product)
        theta -= rate * corrected / ((second / (1 - 0.999**t)) ** 0.5 + 1e-8)
        path.append(theta)
    return path


def test_nadam_follows_the_published_recurrence():
    gradients = np.random.default_rng(1).normal(size=(200, 3)) * [1e-3, 1.0, 1e3]
    optimiser, theta, path = Nadam(3), np.zeros(3), []
    for g in gradients:
        theta = theta - 0.03 * optimiser.step(g)[0]
        path.append(theta)
    expected = np.column_stack([torch_nadam(column, 0.03) for column in gradients.T])
    np.testing.assert_allclose(np.array(path), expected, rtol=1e-10, atol=1e-14)


def test_nadam_gives_the_numbers_of_torch():
    """Recorded from torch.optim.NAdam (2.13.0, float64, lr 0.1) on f = (x - 3)^4 + x^2."""
    recorded = [
        0.1056451791236971, 0.18009725024908416, 0.24766163726899862, 0.31336957942381405,
        0.37865034626400385, 0.44382642262401306, 0.5088225461434825, 0.5734229047558648,
    ]
    optimiser, x, path = Nadam(1), np.zeros(1), []
    for _ in recorded:
        x = x - 0.1 * optimiser.step(4 * (x - 3) ** 3 + 2 * x)[0]
        path.append(float(x[0]))
    # torch keeps the running product of its momenta in single precision.
    np.testing.assert_allclose(path, recorded, rtol=1e-7)


def test_training_lowers_the_loss_and_keeps_a_full_history(likelihood):
    history = run(likelihood).history
    assert len(history.loss) == 61
    assert history.loss[-1] < history.loss[0] - 5
    for values in (history.nll, history.loo_rmse, history.loo_nll, history.jitter):
        assert len(values) == 61
        assert np.isfinite(values).all()


def test_the_history_is_that_of_the_likelihood_and_of_leaving_one_out(likelihood):
    out = run(likelihood, 5)
    evaluation = likelihood(out.start)
    assert out.history.nll[0] == evaluation.nll
    assert out.history.loo_rmse[0] == pytest.approx(np.sqrt(np.mean(evaluation.loo_residual**2)))
    density = 0.5 * (np.log(2 * np.pi * evaluation.loo_variance)
                     + evaluation.loo_residual**2 / evaluation.loo_variance)
    assert out.history.loo_nll[0] == pytest.approx(density.mean())


def test_steps_follow_the_gradient_of_the_loss(likelihood):
    """Far from the data's pull, the priors alone bring parameters back to their centre."""
    centre = likelihood.process.initial(np.ones(2))
    out = descent(likelihood, centre + 0.2, (ElasticNet(1e6), Normal(1e6)))
    out.advance(400)
    np.testing.assert_allclose(out.state.result, centre, atol=0.02)


def test_the_noise_waits_for_its_delay():
    likelihood = likelihood_of(covariances="matern32", noise_degree=1)
    out = run(likelihood, 40, noise_delay=20, checkpoints=(19, 20, 40))
    varying = {step: likelihood.process.parameters(state.result).noise[1:]
               for step, state in out.checkpoints.items()}
    assert (varying[20] == 0.0).all()
    assert (varying[40] != 0.0).all()


def test_averaging_is_the_exponential_mean_of_the_steps(likelihood):
    steps = run(likelihood, 30, checkpoints=tuple(range(31))).checkpoints
    averaged = run(likelihood, 30, averaging=3).state.result
    expected = steps[0].result
    for t in range(1, 31):
        expected = expected + (steps[t].result - expected) / min(3, 1 + t // 8)
    np.testing.assert_allclose(averaged, expected, rtol=1e-10, atol=1e-12)


def test_l1_makes_exact_zeros_and_ridge_does_not(likelihood):
    def zeros(l1_ratio):
        theta = run(likelihood, 150, priors=(ElasticNet(3.0, l1_ratio),)).state.result
        return int((likelihood.process.parameters(theta).coefficients[..., 1:] == 0.0).sum())

    assert zeros(1.0) > 5
    assert zeros(0.0) == 0


def test_a_strong_penalty_makes_the_scale_constant(likelihood):
    theta = run(likelihood, 150, priors=(ElasticNet(1e6),)).state.result
    assert np.abs(likelihood.process.parameters(theta).coefficients[..., 1:]).max() < 0.05


def test_checkpoints_are_the_models_of_shorter_runs(likelihood):
    long = run(likelihood, 60, checkpoints=(0, 20, 60))
    np.testing.assert_array_equal(long.checkpoints[20].result, run(likelihood, 20).state.result)
    np.testing.assert_array_equal(long.checkpoints[60].result, long.state.result)


def test_a_run_in_pieces_is_the_run_in_one(likelihood):
    whole, pieces = run(likelihood, 30), descent(likelihood)
    for steps in (3, 10, 10, 30):
        pieces.advance(steps)
        assert pieces.iterations == steps
    np.testing.assert_array_equal(pieces.state.result, whole.state.result)


def test_patience_stops_and_returns_to_the_best_leave_one_out_state(likelihood):
    stopped = run(likelihood, 400, learning_rate=0.3, patience=15)
    best = int(np.argmin(stopped.history.loo_nll))
    assert stopped.iterations == best + 15 < 400
    evaluation = likelihood(stopped.state.result)
    rmse = np.sqrt(np.mean(evaluation.loo_residual**2))
    assert rmse == pytest.approx(stopped.history.loo_rmse[best])


def test_patience_waits_until_the_noise_is_free():
    likelihood = likelihood_of(covariances="matern32", noise_degree=1)
    out = run(likelihood, 300, learning_rate=0.3, patience=5, noise_delay=80)
    assert out.iterations >= 85


def test_a_diverging_rate_is_lowered_until_it_works(likelihood):
    wild = run(likelihood, 400, learning_rate=100.0)
    assert wild.n_reductions > 0
    assert wild.history.loss[-1] < wild.history.loss[0]


class _Faulty:
    """A likelihood that fails in some calls."""

    def __init__(self, likelihood, first_bad, n_bad=2, raises=False):
        self.likelihood, self.calls, self.raises = likelihood, 0, raises
        self.bad = range(first_bad, first_bad + n_bad)
        self.process, self.data = likelihood.process, likelihood.data

    def __call__(self, theta):
        self.calls += 1
        evaluation = self.likelihood(theta)
        if self.calls not in self.bad:
            return evaluation
        if self.raises:
            raise NotPositiveDefiniteError
        return evaluation._replace(nll=np.nan)


@pytest.mark.parametrize("raises", [False, True])
def test_a_bad_step_goes_back_to_the_best_state_with_a_lower_rate(likelihood, raises):
    out = run(_Faulty(likelihood, 20, raises=raises), 60, learning_rate=0.05)
    assert out.n_reductions == 2
    assert out.iterations == 60
    assert out.history.loss[-1] <= min(out.history.loss[:19])


def test_endless_failures_end_training_at_the_best_state(likelihood):
    out = run(_Faulty(likelihood, 20, 10_000), 60)
    assert out.iterations == 18
    np.testing.assert_array_equal(out.state.result, out.state.best_theta)


def test_no_finite_start_is_a_named_error(likelihood):
    with pytest.raises(TrainingError, match="not finite at the start"):
        run(_Faulty(likelihood, 1))


def test_an_interrupt_leaves_what_was_reached(likelihood):
    def interrupt(iteration, loss):
        if iteration == 10:
            raise KeyboardInterrupt

    out = descent(likelihood)
    with pytest.raises(KeyboardInterrupt):
        out.advance(60, interrupt)
    np.testing.assert_array_equal(out.state.result, run(likelihood, 10).state.result)


def test_a_transient_loss_stays_out_of_the_average():
    """A table without noise at a high rate: some steps lose much of what was gained."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.5, 0.5, (60, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(3 * X[:, 1])
    likelihood = make_likelihood(make_process(X, transform="exponential"), X, y)
    options = {"learning_rate": 0.15, "checkpoints": tuple(range(201))}
    steps = run(likelihood, 200, **options)
    averaged = run(likelihood, 200, averaging=2, **options)
    losses, expected, count, skipped = steps.history.loss, steps.checkpoints[0].result, 1, 0
    for t in range(1, 201):
        window = min(2, 1 + count // 8)
        best = min(losses[:t])
        if window == 2 and losses[t] > best + 0.1 * (losses[0] - best) + 10.0:
            skipped += 1
            continue
        expected = expected + (steps.checkpoints[t].result - expected) / window
        count += 1
    assert skipped > 3
    np.testing.assert_allclose(averaged.state.result, expected, rtol=1e-9, atol=1e-12)


def test_a_rate_that_had_to_be_lowered_stays_low_and_the_average_goes_on():
    part = descent(likelihood_of(slice(20)), learning_rate=100.0, averaging=5)
    part.advance(60)
    assert part.n_reductions > 0
    reached = part.reached()
    everything = likelihood_of()
    after = Descent(Objective(everything, ()), part.options, reached.theta, reached)
    assert reached.rate < 100.0
    assert (after._rate, after.average.count) == (reached.rate, part.average.count)
    np.testing.assert_array_equal(after.state.result, part.state.result)
    assert after.iterations == 59  # the last step is to be evaluated again
    after.advance(60)
    assert after.iterations == 60


def test_what_ends_in_a_loss_goes_back_to_its_best_step(likelihood):
    part = descent(likelihood, checkpoints=(30,))
    part.advance(60)
    assert not part.reached().fell_back
    lost = part.best.theta + 3.0
    part.average.value = lost
    part.checkpoints[30] = part.checkpoints[30]._replace(result=lost)
    reached = part.reached()
    assert reached.fell_back
    np.testing.assert_array_equal(reached.theta, part.best.theta)
    np.testing.assert_array_equal(reached.checkpoints[30].result, part.checkpoints[30].best_theta)
    # Unchecked, it is what it is.
    assert not part.reached(checked=False).fell_back
    np.testing.assert_array_equal(part.reached(checked=False).theta, lost)


def test_an_end_without_a_covariance_goes_back_too(likelihood):
    part = descent(likelihood)
    part.advance(10)
    part.average.value = np.full_like(part.theta, np.nan)
    posterior, fell_back = part.posterior(part.state)
    assert fell_back
    np.testing.assert_array_equal(posterior.theta, part.best.theta)
