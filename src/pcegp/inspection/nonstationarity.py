"""Where and why the process changes its character: shares, fields, relevance, folding.

The paper's measure of which input makes the process change its character (section 4) is
the variance of the local scale along one input with the others fixed, averaged over the
others and divided by the sum over all inputs. Where there are several fields, those of
each covariance function add up, weighted by its variance s_k: the share is then that of
the variation of the local metric, and with one shared field it is the paper's.

m rows, d inputs that vary, K covariance functions, F fields each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from pcegp.inference.exact import Posterior, condition
from pcegp.inspection import sobol
from pcegp.inspection.formulas import Formula, formula_of
from pcegp.inspection.sobol import SobolIndices
from pcegp.kernels.process import Likelihood
from pcegp.numerics import pairwise
from pcegp.numerics.threads import workers
from pcegp.polynomials.expansion import Expansion
from pcegp.training.optimiser import Options, Run

FloatArray = NDArray[np.float64]

_POINTS_ALONG = 32  # along the input that moves
_LOG2_BACKGROUNDS = 6  # 2^6 settings of the inputs that stay
_REFIT_ROWS, _REFIT_STEPS = 400, 60
_MOST_INPUTS_FOR_PAIRS = 12


def variance_shares(posterior: Posterior) -> FloatArray:
    """Share (d,) of each input in the variation of the local scale.

    All shares are 0 where the scale is constant.
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


def share_spread(
    posterior: Posterior, options: Options, n_refits: int, rng: np.random.Generator
) -> FloatArray:
    """Standard deviation (d,) of the shares over short refits on resampled rows.

    Each refit starts at the model and goes 60 steps on at most 400 rows, drawn with
    replacement; a row drawn twice weighs twice.
    """
    n = len(posterior.y)
    options = replace(options, max_iter=_REFIT_STEPS, noise_delay=0, patience=None, checkpoints=())
    shares = []
    with workers(min(n, _REFIT_ROWS), posterior.n_jobs) as crew:
        for _ in range(n_refits):
            rows, counts = np.unique(rng.integers(n, size=min(n, _REFIT_ROWS)), return_counts=True)
            data = Likelihood(posterior.structure, posterior.X[rows], posterior.y[rows],
                              posterior.weights[rows] * counts, crew)
            run = Run(data, options, posterior.theta.copy(), anchor=posterior.theta)
            run.advance(_REFIT_STEPS)
            shares.append(variance_shares(condition(data, run.result)))
    return np.asarray(np.std(shares, axis=0))


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
    polynomial_sobol : indices of that polynomial, from its coefficients
    sobol : indices of the local scale; the same where the transform is the identity
    """

    covariance: str
    input: str | None
    variance_share: float
    formula: Formula
    expansion: Expansion
    polynomial_sobol: SobolIndices
    sobol: SobolIndices


class Folding(NamedTuple):
    """Pairs of distant points that the warp brings together.

    A pair of training rows counts as folded where the model correlates it more than
    either row with the point halfway between them.
    """

    share: float  # of the pairs that were looked at
    pairs: FloatArray  # (p, 2, d) the worst of them, scaled inputs
    gain: FloatArray  # (p,) correlation of the pair minus that with the point between


def fields(
    posterior: Posterior,
    names: list[str],
    affine: tuple[FloatArray, FloatArray] | None,
) -> list[Field]:
    """Every field of the local scale, for features of these names."""
    structure, parameters = posterior.structure, posterior.parameters
    basis, transform = structure.basis, structure.transform
    variances = np.exp(parameters.log_variances)
    offsets = posterior.scale_offset[..., 0]
    exact = [
        sobol.of_expansion(Expansion(basis, coefficients))
        for coefficients in parameters.coefficients.reshape(-1, basis.n_terms)
    ]
    if transform.name in ("identity", "shift"):
        of_scale = [
            one._replace(mean=one.mean + offset)
            for one, offset in zip(exact, offsets.ravel().tolist(), strict=True)
        ]
    else:
        of_scale = sobol.by_sampling(
            lambda X: posterior.local_scale(X).reshape(len(exact), len(X)),
            basis.lower, basis.upper, pairs=structure.n_inputs <= _MOST_INPUTS_FOR_PAIRS,
        )
    out: list[Field] = []
    for k, function in enumerate(structure.covariances):
        for f, coefficients in enumerate(parameters.coefficients[k]):
            expansion, number = Expansion(basis, coefficients), len(out)
            offset = float(offsets[k, f])
            out.append(Field(
                covariance=function.name,
                input=names[f] if structure.scale == "per_input" else None,
                variance_share=float(variances[k] / variances.sum()),
                formula=formula_of(expansion, names, transform.name, affine, offset),
                expansion=expansion,
                polynomial_sobol=exact[number],
                sobol=of_scale[number],
            ))
    return out


def relevance(posterior: Posterior, X: FloatArray) -> FloatArray:
    """How much each input matters at X (m, d): (m, d), scaled inputs.

    The norm of the warp's Jacobian per input, over all covariance functions by their
    variance, times the width of the input's training range: about how many correlation
    lengths the input spans, were it everywhere as it is here.
    """
    basis, parameters = posterior.structure.basis, posterior.parameters
    variances = np.exp(parameters.log_variances)
    width = basis.upper - basis.lower
    inside = np.clip(X, basis.lower, basis.upper)
    out = np.empty_like(inside)
    for i in range(inside.shape[1]):
        up, down = inside.copy(), inside.copy()
        # One-sided at the edge, where the scale outside is that of the edge.
        up[:, i] = np.minimum(inside[:, i] + 1e-5 * width[i], basis.upper[i])
        down[:, i] = np.maximum(inside[:, i] - 1e-5 * width[i], basis.lower[i])
        difference = posterior.warped(up) - posterior.warped(down)
        slope = difference * (width[i] / (up[:, i] - down[:, i]))
        out[:, i] = np.sqrt(variances @ (slope**2).sum(axis=1) / variances.sum())
    return out


def folding(posterior: Posterior, n_pairs: int = 2000, n_worst: int = 5) -> Folding:
    """Where the warp maps distant training rows together."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(len(posterior.X), size=(2, n_pairs))
    A, B = posterior.X[first], posterior.X[second]
    ends = _correlation(posterior, A, B)
    halfway = 0.5 * (A + B)
    between = np.maximum(_correlation(posterior, A, halfway), _correlation(posterior, B, halfway))
    gain = ends - between
    folded = gain > 0.05
    worst = np.argsort(-gain)[: min(n_worst, int(folded.sum()))]
    return Folding(float(folded.mean()), np.stack([A[worst], B[worst]], axis=1), gain[worst])


def _correlation(posterior: Posterior, A: FloatArray, B: FloatArray) -> FloatArray:
    """Prior correlation (m,) between the rows of A (m, d) and those of B."""
    structure, parameters = posterior.structure, posterior.parameters
    components = structure.components(parameters)
    Z_A, Z_B = posterior.warped(A), posterior.warped(B)
    out = np.empty(len(A))
    for start in range(0, len(A), 256):
        part = slice(start, start + 256)
        block = pairwise.cross(np.ascontiguousarray(Z_A[:, :, part]),
                               np.ascontiguousarray(Z_B[:, :, part]), components)
        out[part] = block.diagonal()
    return np.asarray(out / components.variances.sum())
