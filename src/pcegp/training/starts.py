"""Where training starts, and which of several starts is carried on.

A scale that begins too small or too large can end in an optimum where noise explains
the wiggles. So several starts are trained for a short while, the worse half is dropped,
the rest trained on, until one is left; that one is carried to the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import SettingError, TrainingError
from pcegp.kernels.process import Likelihood, Structure
from pcegp.training.optimiser import Options, Run

FloatArray = NDArray[np.float64]

INITIAL_VARIANCE = 0.3  # of each covariance function, in units of the target's variance
INITIAL_NOISE = 0.1
_SPREAD = 3.0
# Multiples of the initial scale that the first starts try.
_LADDER = (1.0, 4.0, 0.25, 16.0)
# Steps of a probe: more where they are cheap, because fine structure shows late.
_PROBE_STEPS_TIMES_ROWS = 20_000
_SHORTEST_PROBE, _LONGEST_PROBE = 40, 200
_PERTURBATION = 0.05


def initial_scales(
    value: float | Sequence[float] | None, n_components: int, n_inputs: int
) -> FloatArray:
    """One start value per covariance function, from None, one number or one each.

    None gives 3 / sqrt(d): two random points of the unit box are then about 1.2 apart (root
    mean square) whatever the number of inputs, neither nearly equal nor unrelated.
    """
    try:
        scales = np.asarray(_SPREAD / np.sqrt(n_inputs) if value is None else value, dtype=float)
    except (TypeError, ValueError):
        raise SettingError(f"initial_scale={value!r} must be numbers") from None
    if scales.ndim > 1 or scales.size not in (1, n_components):
        raise SettingError(
            f"initial_scale has {scales.size} values: give one number, or one for each of the "
            f"{n_components} covariance functions"
        )
    if not np.isfinite(scales).all():
        raise SettingError(f"initial_scale={value!r} holds a value that is not finite")
    return np.broadcast_to(scales, (n_components,)).copy()


def start(structure: Structure, scales: FloatArray) -> FloatArray:
    """Parameters with constant scales (K,) and constant noise."""
    theta = np.zeros(structure.n_parameters)
    parts = structure.parameters(theta)
    parts.log_variances[...] = np.log(INITIAL_VARIANCE)
    parts.log_shapes[...] = np.log([c.initial_shape or 1.0 for c in structure.covariances])
    constant = int(np.argmax(structure.basis.is_constant))
    for k, value in enumerate(scales):
        parts.coefficients[k, :, constant] = _inverse(structure, float(value))
    parts.noise[int(np.argmax(structure.noise_basis.is_constant))] = (
        structure.noise_transform.inverse(INITIAL_NOISE)
    )
    return theta


def _inverse(structure: Structure, value: float) -> float:
    try:
        return structure.transform.inverse(value)
    except SettingError as error:
        raise SettingError(f"initial_scale: {error}") from None


def candidates(
    structure: Structure, scales: FloatArray, n_restarts: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Start vectors: the user's scales, multiples of them, then random ones."""
    starts = [start(structure, scales)]
    mask = structure.penalty_weights() > 0.0
    for number in range(1, n_restarts + 1):
        multiple = _LADDER[number] if number < len(_LADDER) else 10.0 ** rng.uniform(-0.5, 1.5)
        theta = start(structure, reachable(structure, scales * multiple))
        if number >= len(_LADDER):
            theta[mask] = _PERTURBATION * rng.standard_normal(int(mask.sum()))
        starts.append(theta)
    return starts


def reachable(structure: Structure, scales: FloatArray) -> FloatArray:
    """Scales that the transform can reach; a sigmoid ends at 1."""
    return np.clip(scales, None, 0.98) if structure.transform.name == "sigmoid" else scales


def choose(
    likelihood: Likelihood, options: Options, starts: list[FloatArray], anchor: FloatArray
) -> Run:
    """Train all starts for a short while, drop the worse half, and so on until one is left.

    The likelihood may hold a subset of the rows; see `pcegp.training.fit`.
    """
    runs = [Run(likelihood, options, theta, anchor=anchor) for theta in starts]
    affordable = _PROBE_STEPS_TIMES_ROWS // len(likelihood.y)
    # Not a share of max_iter: a checkpoint of a long training is the end of a short one.
    steps = min(max(affordable, _SHORTEST_PROBE), _LONGEST_PROBE)
    iterations = 0
    while len(runs) > 1:
        iterations = min(iterations + steps, options.max_iter)
        survivors = []
        for run in runs:
            try:
                run.advance(iterations)
            except TrainingError:
                continue
            survivors.append(run)
            if run.interrupted:
                best = min(runs, key=lambda run: run.best_loss)
                best.interrupted = True
                return best
        if not survivors:
            raise TrainingError("no start has a finite likelihood: raise noise_floor")
        survivors.sort(key=lambda run: run.best_loss)
        runs = survivors[: max(1, len(runs) // 2)]
    return runs[0]
