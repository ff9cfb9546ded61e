"""Data without noise, such as the results of a simulation.

There the likelihood has a sharp optimum far from every ordinary start: a signal variance
thousands of times that of the data, hardly any noise, and nothing rough. Steps of a constant
size do not get into it. So where training has found next to no noise, a stationary squared
exponential without noise is fitted beside it by L-BFGS; it has one parameter per input. If it
explains the data better, and predicts rows left out better, it is the model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from pcegp.errors import NotPositiveDefiniteError
from pcegp.kernels.process import LOG_BOUND, Likelihood, Structure
from pcegp.training import starts

FloatArray = NDArray[np.float64]

KERNEL = "squared_exponential"
#: Noise, in units of the target's variance, below which a smooth model is tried.
LITTLE_NOISE = 1e-3
_EVALUATIONS = 100
_FIRST_LOG_VARIANCE = 3.0
_PRECISION = 0.01  # of the prior on its few logarithms: wide, but no direction is flat


def possible(structure: Structure) -> bool:
    """Whether a structure has a smooth, stationary, nearly noise-free member."""
    return (
        KERNEL in [covariance.name for covariance in structure.covariances]
        and structure.transform.name == structure.noise_transform.name == "exponential"
    )


def smooth_fit(likelihood: Likelihood, scales: FloatArray) -> tuple[FloatArray, float] | None:
    """Parameters of the smooth model and its loss, or None if it has no finite likelihood.

    Parameters
    ----------
    scales : (K,) start values of the local scale
    """
    theta = _start(likelihood.structure, scales)
    free = np.flatnonzero(_free(likelihood.structure))
    first = theta[free].copy()

    def loss(values: FloatArray) -> tuple[float, FloatArray]:
        theta[free] = values
        evaluation = likelihood(likelihood.structure.bounded(theta))
        prior = 0.5 * _PRECISION * float(((values - first) ** 2).sum())
        return evaluation.nll + prior, evaluation.gradient[free] + _PRECISION * (values - first)

    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = minimize(loss, first, jac=True, method="L-BFGS-B",
                             options={"maxfun": _EVALUATIONS})
    except NotPositiveDefiniteError:
        return None
    if not np.isfinite(found.fun):
        return None
    theta[free] = found.x
    return likelihood.structure.bounded(theta), float(found.fun)


def _start(structure: Structure, scales: FloatArray) -> FloatArray:
    """Only the smooth covariance function counts, and only the noise floor is left."""
    theta = starts.start(structure, scales)
    parts = structure.parameters(theta)
    parts.log_variances[...] = -LOG_BOUND
    parts.log_variances[_position(structure)] = _FIRST_LOG_VARIANCE
    parts.noise[structure.noise_basis.is_constant] = -LOG_BOUND
    return theta


def _free(structure: Structure) -> NDArray[np.bool_]:
    """Its variance, the constants of its local scales, and the weights of the inputs."""
    mask = np.zeros(structure.n_parameters)
    parts = structure.parameters(mask)
    position = _position(structure)
    parts.log_variances[position] = 1.0
    parts.coefficients[position][:, structure.basis.is_constant] = 1.0
    parts.log_weights[position] = 1.0
    return mask.astype(bool)


def _position(structure: Structure) -> int:
    return [covariance.name for covariance in structure.covariances].index(KERNEL)
