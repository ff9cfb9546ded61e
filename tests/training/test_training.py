"""Nadam's steps, the penalty, restarts, checkpoints and stopping."""

from __future__ import annotations

import numpy as np
import pytest

from pcegp.errors import SettingError, TrainingError
from pcegp.kernels.process import Likelihood
from pcegp.training import starts
from pcegp.training.optimiser import Nadam, Options, Run

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (40, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=40)
Y = (Y - Y.mean()) / Y.std()


@pytest.fixture
def likelihood(make_structure):
    return Likelihood(make_structure(X, ("squared_exponential", "matern32")), X, Y)


def run(likelihood, iterations=60, **options):
    """Train from a start with scale 1 for every covariance function."""
    theta = starts.start(likelihood.structure, np.ones(len(likelihood.structure.covariances)))
    out = Run(likelihood, Options(max_iter=iterations, **options), theta, anchor=theta)
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
    for values in (history.nll, history.loo_rmse, history.loo_nll):
        assert len(values) == 61
        assert np.isfinite(values).all()


def test_loss_is_likelihood_elastic_net_and_prior(make_structure):
    structure = make_structure(X, ("squared_exponential", "matern32"), noise_degree=1)
    likelihood = Likelihood(structure, X, Y)
    theta, anchor = RNG.normal(size=(2, structure.n_parameters))
    options = Options(penalty=2.0, l1_ratio=0.25, prior=3.0)
    evaluation, parts = likelihood(theta), structure.parameters(theta)

    def net(alpha, weight):
        return 2.0 * weight * (0.25 * np.abs(alpha).sum() + 0.75 * (alpha**2).sum())

    centred = structure.parameters(theta - anchor)
    expected = evaluation.nll
    # Two fields of five non-constant terms; two non-constant terms of the noise.
    expected += net(parts.coefficients[..., 1:], np.sqrt(2 * 5))
    expected += net(parts.noise[1:], np.sqrt(2))
    for part in (centred.log_variances, centred.log_shapes, centred.coefficients[..., 0]):
        expected += 1.5 * (part**2).sum()
    expected += 1.5 / 9 * centred.noise[0] ** 2
    run = Run(likelihood, options, theta, anchor)
    assert run.loss(evaluation.nll, theta) == pytest.approx(expected, rel=1e-12)


def test_steps_follow_the_gradient_of_the_loss(likelihood):
    """Far from the data's pull, the prior alone brings parameters back to the anchor."""
    theta = starts.start(likelihood.structure, np.ones(2))
    out = Run(likelihood, Options(max_iter=400, prior=1e6, penalty=1e6), theta + 0.2, theta)
    out.advance(400)
    np.testing.assert_allclose(out.result, theta, atol=0.02)


def test_the_noise_waits_for_its_delay(make_structure):
    structure = make_structure(X, "matern32", noise_degree=1)
    out = run(Likelihood(structure, X, Y), 40, noise_delay=20, checkpoints=(19, 20, 40))
    varying = {step: structure.parameters(state.result).noise[1:]
               for step, state in out.checkpoints.items()}
    assert (varying[20] == 0.0).all()
    assert (varying[40] != 0.0).all()


def test_averaging_is_the_exponential_mean_of_the_steps(likelihood):
    steps = run(likelihood, 30, checkpoints=tuple(range(31))).checkpoints
    averaged = run(likelihood, 30, averaging=3).result
    expected = steps[0].result
    for t in range(1, 31):
        expected = expected + (steps[t].result - expected) / min(3, 1 + t // 8)
    np.testing.assert_allclose(averaged, expected, rtol=1e-10, atol=1e-12)


def test_l1_makes_exact_zeros_and_ridge_does_not(likelihood):
    structure = likelihood.structure

    def zeros(**options):
        theta = run(likelihood, 150, **options).result
        return int((structure.parameters(theta).coefficients[..., 1:] == 0.0).sum())

    assert zeros(penalty=3.0, l1_ratio=1.0) > 5
    assert zeros(penalty=3.0, l1_ratio=0.0) == 0


def test_a_strong_penalty_makes_the_scale_constant(likelihood):
    theta = run(likelihood, 150, penalty=1e6).result
    assert np.abs(likelihood.structure.parameters(theta).coefficients[..., 1:]).max() < 0.05


def test_checkpoints_are_the_models_of_shorter_runs(likelihood):
    long = run(likelihood, 60, checkpoints=(0, 20, 60))
    np.testing.assert_array_equal(long.checkpoints[20].result, run(likelihood, 20).result)
    np.testing.assert_array_equal(long.checkpoints[60].result, long.result)


def test_patience_stops_and_returns_to_the_best_leave_one_out_state(likelihood):
    stopped = run(likelihood, 400, learning_rate=0.3, patience=15)
    best = int(np.argmin(stopped.history.loo_nll))
    assert stopped.iterations == best + 15 < 400
    evaluation = likelihood(stopped.result)
    rmse = np.sqrt(np.mean(evaluation.loo_residual**2))
    assert rmse == pytest.approx(stopped.history.loo_rmse[best])


def test_a_diverging_rate_is_lowered_until_it_works(likelihood):
    wild = run(likelihood, 400, learning_rate=100.0)
    assert wild.n_reductions > 0
    assert wild.history.loss[-1] < wild.history.loss[0]


def test_patience_waits_until_the_noise_is_free(make_structure):
    structure = make_structure(X, "matern32", noise_degree=1)
    likelihood = Likelihood(structure, X, Y)
    out = run(likelihood, 300, learning_rate=0.3, patience=5, noise_delay=80)
    assert out.iterations >= 85


class _Faulty:
    """A likelihood that is not finite for some calls."""

    def __init__(self, likelihood, first_bad, n_bad=2):
        self.likelihood, self.calls = likelihood, 0
        self.bad = range(first_bad, first_bad + n_bad)
        self.structure, self.weights = likelihood.structure, likelihood.weights
        self.y = likelihood.y

    def __call__(self, theta):
        self.calls += 1
        evaluation = self.likelihood(theta)
        return evaluation._replace(nll=np.nan) if self.calls in self.bad else evaluation


def test_a_bad_step_goes_back_to_the_best_state_with_a_lower_rate(likelihood):
    out = run(_Faulty(likelihood, 20), 60, learning_rate=0.05)
    assert out.n_reductions == 2
    assert out.iterations == 60
    assert out.history.loss[-1] <= min(out.history.loss[:19])


def test_endless_failures_end_training_at_the_best_state(likelihood):
    out = run(_Faulty(likelihood, 20, 10_000), 60)
    assert out.iterations == 18
    np.testing.assert_array_equal(out.result, out.best_theta)


def test_no_finite_start_is_a_named_error(likelihood):
    with pytest.raises(TrainingError, match="not finite at the start"):
        run(_Faulty(likelihood, 1))


def test_keyboard_interrupt_keeps_the_best_state(likelihood):
    def interrupt(iteration, loss):
        if iteration == 10:
            raise KeyboardInterrupt

    theta = starts.start(likelihood.structure, np.ones(2))
    out = Run(likelihood, Options(max_iter=60), theta, anchor=theta)
    out.advance(60, interrupt)
    assert out.interrupted
    np.testing.assert_array_equal(out.result, run(likelihood, 10).result)


def test_the_best_probe_is_carried_on(likelihood):
    candidates = starts.candidates(likelihood.structure, np.ones(2), 5, np.random.default_rng(0))
    assert len({theta.tobytes() for theta in candidates}) == 6
    options = Options(max_iter=60)
    chosen = starts.choose(likelihood, options, candidates, candidates[0])
    chosen.advance(60)
    alone = Run(likelihood, options, chosen.start, candidates[0])
    alone.advance(60)
    np.testing.assert_array_equal(chosen.result, alone.result)
    for theta in candidates:
        other = Run(likelihood, options, theta, candidates[0])
        other.advance(60)
        assert chosen.best_loss <= other.best_loss + 1.0


def test_a_start_that_fails_is_left_out(likelihood):
    good = starts.start(likelihood.structure, np.ones(2))
    bad = np.full_like(good, np.nan)
    options = Options(max_iter=40)
    assert (starts.choose(likelihood, options, [bad, good], good).start == good).all()
    with pytest.raises(TrainingError, match="no start has a finite likelihood"):
        starts.choose(likelihood, options, [bad, bad], good)


@pytest.mark.parametrize("value", [[1.0, 2.0, 3.0], np.ones((2, 2)), np.nan])
def test_wrong_initial_scales_are_named(value):
    with pytest.raises(SettingError, match="initial_scale"):
        starts.initial_scales(value, 2, 3)


def test_initial_scales_by_default_shrink_with_the_number_of_inputs():
    np.testing.assert_allclose(starts.initial_scales(None, 2, 9), 1.0)
    np.testing.assert_allclose(starts.initial_scales([1.0, 4.0], 2, 9), [1.0, 4.0])


@pytest.mark.parametrize("transform", ["softplus", "exponential"])
def test_initial_scale_must_be_reachable(make_structure, transform):
    structure = make_structure(X, transform=transform)
    with pytest.raises(SettingError, match=r"initial_scale: .*not positive"):
        starts.start(structure, np.zeros(5))


@pytest.mark.parametrize("transform", ["identity", "shift", "softplus", "sigmoid", "exponential"])
def test_starts_have_the_scale_and_noise_they_say(make_structure, transform):
    structure = make_structure(X, transform=transform)
    theta = starts.start(structure, np.full(5, 0.7))
    parts, design = structure.parameters(theta), structure.design(X)
    np.testing.assert_allclose(structure.warp(parts, design).scale, 0.7)
    np.testing.assert_allclose(structure.noise(parts, design.Phi_noise), 0.1 + 1e-6)



def test_a_spike_stays_out_of_the_average(make_structure):
    """A table without noise at a high rate: some steps lose much of what was gained."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.5, 0.5, (60, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(3 * X[:, 1])
    likelihood = Likelihood(make_structure(X, transform="exponential"), X, y)
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
    np.testing.assert_allclose(averaged.result, expected, rtol=1e-9, atol=1e-12)
