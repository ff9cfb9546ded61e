"""Which input makes the process change its character.

The paper's measure (section 4): the variance of the local scale along one input with
the others fixed, averaged over the others, divided by the sum over all inputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from pcegp.posterior import Posterior

FloatArray = NDArray[np.float64]

_POINTS_ALONG = 32  # along the input that moves
_LOG2_BACKGROUNDS = 6  # 2^6 settings of the inputs that stay


def variance_shares(posterior: Posterior) -> FloatArray:
    """Share (d,) of each input in the variation of the local scale.

    Fields of several inputs and covariance functions add up, each covariance function
    by its variance s_k; with one shared field this is the paper's formula. All shares
    are 0 where the scale is constant.
    """
    structure = posterior.structure
    lower, upper = structure.basis.lower, structure.basis.upper
    d = structure.n_inputs
    sampler = qmc.Sobol(d, scramble=True, rng=np.random.default_rng(0))
    background = lower + (upper - lower) * sampler.random_base2(_LOG2_BACKGROUNDS)
    variances = np.exp(posterior.parameters.log_variances)
    along = np.empty(d)
    for i in range(d):
        X = np.repeat(background, _POINTS_ALONG, axis=0)
        X[:, i] = np.tile(np.linspace(lower[i], upper[i], _POINTS_ALONG), len(background))
        scale = posterior.local_scale(X)
        by_line = scale.reshape(*scale.shape[:2], len(background), _POINTS_ALONG)
        along[i] = variances @ by_line.var(axis=3).mean(axis=2).sum(axis=1)
    total = along.sum()
    return along / total if total > 0.0 else np.zeros(d)
