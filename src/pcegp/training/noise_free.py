"""A candidate for data without noise, such as the results of a simulation.

There the likelihood has a sharp optimum far from every ordinary start: a signal variance
thousands of times that of the data, hardly any noise, and nothing rough. Steps of a constant
size do not get into it. So where training has found next to no noise, a stationary squared
exponential without noise is fitted beside it by L-BFGS; it has one parameter per input. If it
explains the data better, and predicts rows left out better, it is the model.
"""

import numpy as np
from scipy.optimize import minimize

from pcegp._typing import BoolArray, FloatArray
from pcegp.inference import Likelihood
from pcegp.kernels import LOG_BOUND, Exponential, Process
from pcegp.training.objective import Objective, QuadraticTerm

KERNEL = "squared_exponential"
#: Noise, in units of the target's variance, below which the candidate is tried.
LITTLE_NOISE = 1e-3
_EVALUATIONS = 100
_FIRST_LOG_VARIANCE = 3.0
_PRECISION = 0.01  # of the prior on its few logarithms: wide, but no direction is flat


def is_possible(process: Process) -> bool:
    """Tell whether a process has a smooth, stationary, nearly noise-free member."""
    return (
        KERNEL in [covariance.name for covariance in process.covariances]
        and isinstance(process.transform, Exponential)
        and isinstance(process.noise_transform, Exponential)
    )


def fit_candidate(likelihood: Likelihood, scales: FloatArray) -> FloatArray | None:
    """Fit the parameters of the candidate; None if it has no finite likelihood.

    Parameters
    ----------
    scales : (K,) start values of the local scale
    """
    process = likelihood.process
    theta, free = _start(process, scales), _free(process)
    prior = QuadraticTerm(np.where(free, _PRECISION, 0.0), theta.copy())
    objective = Objective(likelihood, (prior,))
    with np.errstate(over="ignore", invalid="ignore"):
        found = minimize(objective.restricted(free, theta), theta[free], jac=True,
                         method="L-BFGS-B", options={"maxfun": _EVALUATIONS})
    if not np.isfinite(found.fun):
        return None
    theta[free] = found.x
    return np.clip(theta, *objective.bounds)


def is_better(likelihood: Likelihood, candidate: FloatArray, theta: FloatArray) -> bool:
    """Tell whether a candidate explains the data better, and predicts rows left out better.

    The likelihood alone would be won by repeated rows, whose density without noise is
    enormous.
    """
    new, old = likelihood(candidate), likelihood(theta)
    if new.loo_residual is None or old.loo_residual is None or new.nll >= old.nll:
        return False
    return bool(new.loo_residual @ new.loo_residual < old.loo_residual @ old.loo_residual)


def _start(process: Process, scales: FloatArray) -> FloatArray:
    """Make parameters where only the smooth covariance function counts, and the noise floor."""
    theta = process.initial(scales)
    parts = process.parameters(theta)
    parts.log_variances[...] = -LOG_BOUND
    parts.log_variances[_position(process)] = _FIRST_LOG_VARIANCE
    parts.noise[process.noise_basis.is_constant] = -LOG_BOUND
    return theta


def _free(process: Process) -> BoolArray:
    """Mark its variance, the constants of its local scales, and the weights of the inputs."""
    mask = np.zeros(process.n_parameters)
    parts = process.parameters(mask)
    position = _position(process)
    parts.log_variances[position] = 1.0
    parts.coefficients[position][:, process.basis.is_constant] = 1.0
    parts.log_weights[position] = 1.0
    return mask.astype(bool)


def _position(process: Process) -> int:
    return [covariance.name for covariance in process.covariances].index(KERNEL)
