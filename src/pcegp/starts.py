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
from pcegp.model import Likelihood, Structure
from pcegp.training import Options, Run

FloatArray = NDArray[np.float64]

INITIAL_VARIANCE = 0.3  # of each covariance function, in units of the target's variance
INITIAL_NOISE = 0.1
# Multiples of the initial scale that the first starts try.
_LADDER = (1.0, 3.0, 10.0, 20.0)
_PROBE_ITERATIONS = 40
_PERTURBATION = 0.05


def initial_scales(value: float | Sequence[float], n_components: int) -> FloatArray:
    """One start value per covariance function, from one number or one each."""
    scales = np.asarray(value, dtype=np.float64)
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
    mask = structure.penalised()
    for number in range(1, n_restarts + 1):
        multiple = _LADDER[number] if number < len(_LADDER) else 10.0 ** rng.uniform(-0.5, 1.5)
        theta = start(structure, _inside(structure, scales * multiple))
        if number >= len(_LADDER):
            theta[mask] = _PERTURBATION * rng.standard_normal(int(mask.sum()))
        starts.append(theta)
    return starts


def _inside(structure: Structure, scales: FloatArray) -> FloatArray:
    """Scales that the transform can reach; a sigmoid ends at 1."""
    return np.clip(scales, None, 0.98) if structure.transform.name == "sigmoid" else scales


def choose(
    likelihood: Likelihood, options: Options, starts: list[FloatArray]
) -> tuple[FloatArray, bool]:
    """What the best start has reached after its probes, and whether Ctrl-C ended them.

    The likelihood given here may hold a subset of the rows: parameters do not depend on
    the number of points, so a probe on some rows is a start for all of them.
    """
    if len(starts) == 1:
        return starts[0], False
    runs = [Run(likelihood, options, theta) for theta in starts]
    iterations = 0
    while len(runs) > 1:
        iterations += _PROBE_ITERATIONS
        survivors = []
        for run in runs:
            try:
                run.advance(iterations)
            except TrainingError:
                continue
            survivors.append(run)
            if run.interrupted:
                return min(survivors, key=lambda run: run.best_loss).best_theta, True
        if not survivors:
            raise TrainingError("every start diverged: lower learning_rate or raise noise_floor")
        survivors.sort(key=lambda run: run.best_loss)
        runs = survivors[: max(1, len(runs) // 2)]
    return runs[0].theta, False
