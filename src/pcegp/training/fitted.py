"""What training gives, and how a posterior is made again from it."""

from dataclasses import dataclass, replace
from typing import Any

from pcegp._typing import FloatArray
from pcegp.inference import Data, Likelihood, Posterior, with_uncertainty
from pcegp.kernels import Process
from pcegp.numerics import threads_for
from pcegp.training.optimiser import History, Options


@dataclass(frozen=True)
class Fit:
    """A trained model and the history of its training, in standardised units."""

    posterior: Posterior  # what predicts
    history: History
    checkpoints: dict[int, FloatArray]
    n_iter: int
    info: dict[str, Any]  # what a user should know about the numerics


def at_once(options: Options) -> Options:
    """Change options for a model that must be made at once."""
    return replace(options, n_draws=0, max_iter=1, checkpoints=())


def condition(
    process: Process, data: Data, theta: FloatArray, options: Options,
    draws: tuple[FloatArray, ...] = (), ratio: float | None = None,
) -> Posterior:
    """Condition on data at known parameters, with draws of them.

    The posterior that predicts; its `base` takes `theta` for certain.
    """
    with threads_for(len(data.y), options.n_jobs) as threads:
        likelihood: Likelihood = options.inference.bind(process, data, threads, options.n_jobs)
        base = likelihood.posterior(theta)
        return with_uncertainty(base, likelihood, draws, ratio) if draws else base
