"""Non-stationarity of a fitted model: shares, fields, relevance, folding.

The paper's measure of which input makes the process change its character (section 4) is
the variance of the local scale along one input with the others fixed, averaged over the
others and divided by the sum over all inputs. Where there are several fields, those of
each covariance function add up, weighted by its variance s_k: the share is then that of
the variation of the local metric, and with one shared field it is the paper's.

n training rows, m rows, d inputs that vary, K covariance functions, F fields each; all
inputs are scaled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc

from pcegp._progress import Update
from pcegp._typing import FloatArray
from pcegp.inference import Conditioned, Likelihood
from pcegp.inspection import sobol
from pcegp.inspection.formulas import Formula, formula_of
from pcegp.inspection.sobol import SobolIndices
from pcegp.numerics import threads_for
from pcegp.polynomials import Expansion
from pcegp.training import Descent, Objective, Options, refitted

_POINTS_ALONG = 32  # along the input that moves
_LOG2_BACKGROUNDS = 6  # 2^6 settings of the inputs that stay
_REFIT_ROWS, _REFIT_STEPS = 400, 60
_STEP = 1e-5  # of finite differences, in widths of the training range
_LEAST_GAIN = 0.05  # in correlation, of a pair that is called folded


def variance_shares(base: Conditioned) -> FloatArray:
    """Share out the variation of the local scale among the inputs: (d,).

    All shares are 0 where the scale is constant.
    """
    lower, upper = base.process.basis.lower, base.process.basis.upper
    d = base.process.n_inputs
    sampler = qmc.Sobol(d, scramble=True, rng=np.random.default_rng(0))
    background = lower + (upper - lower) * sampler.random_base2(_LOG2_BACKGROUNDS)
    weights, along = function_weights(base), np.empty(d)
    for i in range(d):
        X = np.repeat(background, _POINTS_ALONG, axis=0)
        X[:, i] = np.tile(np.linspace(lower[i], upper[i], _POINTS_ALONG), len(background))
        scale = base.local_scale(X)
        by_line = scale.reshape(*scale.shape[:2], len(background), _POINTS_ALONG)
        along[i] = weights @ by_line.var(axis=3).mean(axis=2).sum(axis=1)
    total = along.sum()
    return along / total if total > 0.0 else np.zeros(d)


def function_weights(base: Conditioned) -> FloatArray:
    """Share out the variance of the process among its covariance functions: (K,)."""
    return np.asarray(np.exp(base.parameters.log_variances) / base.prior_variance)


def share_spread(
    base: Conditioned, options: Options, info: Mapping[str, Any], n_refits: int,
    rng: np.random.Generator, progress: Update | None = None,
) -> FloatArray:
    """Compute the standard deviation (d,) of the shares over short refits on resampled rows.

    Each refit starts at the model and goes a few steps on at most 400 rows, drawn with
    replacement; a row drawn twice weighs twice. `progress` is told how many refits there are.
    """
    n = len(base.data.y)
    size = min(n, _REFIT_ROWS)
    shares = []
    with threads_for(size, base.n_jobs) as threads:
        for _ in range(n_refits):
            rows, counts = np.unique(rng.integers(n, size=size), return_counts=True)
            data = base.data.rows(rows)
            data = data._replace(weights=data.weights * counts)
            likelihood = base.engine.bind(base.process, data, threads)
            theta = _refitted(likelihood, base.theta, options, info)
            shares.append(variance_shares(likelihood.posterior(theta)))
            if progress is not None:
                progress(len(shares))
    return np.asarray(np.std(shares, axis=0))


def _refitted(
    likelihood: Likelihood, theta: FloatArray, options: Options, info: Mapping[str, Any]
) -> FloatArray:
    """Carry parameters on, on other rows, by the optimiser that has trained them."""
    if options.optimizer == "lbfgs":
        return refitted(likelihood, theta, options, info["members"][0])
    options = replace(options, max_iter=_REFIT_STEPS, noise_delay=0, patience=None, checkpoints=())
    objective = Objective.of(likelihood, options.priors, theta)
    descent = Descent(objective, options, theta)
    descent.advance(_REFIT_STEPS)
    return descent.state.result


@dataclass(frozen=True)
class Field:
    """One polynomial of the local scale and what it says.

    Attributes
    ----------
    covariance : name of its covariance function
    input : the feature that it scales, or None where it scales all
    variance_share : share of its covariance function in the variance of the process
    formula : of the local scale, in the features
    expansion : the polynomial before the transform, in scaled inputs
    polynomial_sobol : indices of that polynomial in the inputs as the monotone map spreads them,
        from its coefficients
    sobol : indices of the local scale; the same where transform and map are linear
    """

    covariance: str
    input: str | None
    variance_share: float
    formula: Formula
    expansion: Expansion
    polynomial_sobol: SobolIndices
    sobol: SobolIndices

    @property
    def variation(self) -> float:
        """The variance of the local scale, weighted by that of its covariance function."""
        return self.variance_share * self.sobol.variance


def fields(
    base: Conditioned, names: tuple[str, ...], affine: tuple[FloatArray, FloatArray] | None
) -> tuple[Field, ...]:
    """Describe every field of the local scale, for features of these names."""
    process, coefficients = base.process, base.parameters.coefficients
    basis, transform = process.basis, process.transform
    expansions = [Expansion(basis, row) for row in coefficients.reshape(-1, basis.n_terms)]
    offsets = base.scale_offset.ravel().tolist()
    of_polynomials = [sobol.of_expansion(expansion) for expansion in expansions]
    # Inputs are uniform before a map, and so not behind it.
    if transform.is_linear and process.input_map.is_linear:
        of_scales = [one._replace(mean=one.mean + offset)
                     for one, offset in zip(of_polynomials, offsets, strict=True)]
    else:
        of_scales = sobol.by_sampling(
            lambda X: base.local_scale(X).reshape(len(expansions), len(X)),
            basis.lower, basis.upper,
        )
    places = np.ndindex(coefficients.shape[:2])
    weights, one_each = function_weights(base), process.scale == "per_input"
    return tuple(
        Field(
            covariance=process.covariances[k].name,
            input=names[f] if one_each else None,
            variance_share=float(weights[k]),
            formula=formula_of(expansion, names, transform, affine, offset),
            expansion=expansion,
            polynomial_sobol=of_polynomial,
            sobol=of_scale,
        )
        for (k, f), expansion, offset, of_polynomial, of_scale
        in zip(places, expansions, offsets, of_polynomials, of_scales, strict=True)
    )


def relevance(base: Conditioned, X: FloatArray) -> FloatArray:
    """Measure how much each input matters at X (m, d): (m, d).

    The norm of the warp's Jacobian per input, over all covariance functions by their
    variance, times the width of the input's training range: about how many correlation
    lengths the input spans, were it everywhere as it is here; none for one that is constant.
    """
    basis, weights = base.process.basis, function_weights(base)
    width = basis.upper - basis.lower
    inside = np.clip(X, basis.lower, basis.upper)
    out = np.zeros_like(inside)
    for i in np.flatnonzero(width).tolist():
        up, down = inside.copy(), inside.copy()
        # One-sided at the edge, where the scale outside is that of the edge.
        up[:, i] = np.minimum(inside[:, i] + _STEP * width[i], basis.upper[i])
        down[:, i] = np.maximum(inside[:, i] - _STEP * width[i], basis.lower[i])
        difference = base.warped(up) - base.warped(down)
        slope = difference * (width[i] / (up[:, i] - down[:, i]))
        out[:, i] = np.sqrt(weights @ (slope**2).sum(axis=1))
    return out


class Folding(NamedTuple):
    """Pairs of distant points that the warp brings together.

    A pair of training rows counts as folded where the model correlates it more than
    either row with the point halfway between them.
    """

    share: float  # of the pairs that were looked at
    pairs: FloatArray  # (p, 2, d) the worst of them, scaled inputs
    gain: FloatArray  # (p,) correlation of the pair minus that with the point between


def folding(base: Conditioned, n_pairs: int = 2000, n_worst: int = 5) -> Folding:
    """Find distant training rows that the warp maps together."""
    first, second = np.random.default_rng(0).integers(len(base.data.y), size=(2, n_pairs))
    A, B = base.data.X[first], base.data.X[second]
    halfway = 0.5 * (A + B)
    between = np.maximum(base.prior_correlation(A, halfway), base.prior_correlation(B, halfway))
    gain = base.prior_correlation(A, B) - between
    folded = gain > _LEAST_GAIN
    worst = np.argsort(-gain)[: min(n_worst, int(folded.sum()))]
    return Folding(float(folded.mean()), np.stack([A[worst], B[worst]], axis=1), gain[worst])
