"""Starts of training, and the choice among several.

A scale that begins too small or too large can end in an optimum where noise explains
the wiggles. So several starts are trained for a short while, the worse half is dropped,
the rest trained on, until one is left; that one is carried to the end.
"""

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import TrainingError
from pcegp.kernels import Process
from pcegp.training.optimiser import Descent

# Multiples of the initial scale that the first starts try.
_LADDER = (1.0, 4.0, 0.25, 16.0)
# Steps of a probe: more where they are cheap, because fine structure shows late.
_PROBE_STEPS_TIMES_ROWS = 20_000
_SHORTEST_PROBE, _LONGEST_PROBE = 40, 200
_PERTURBATION = 0.05


def restarts(
    process: Process, scales: FloatArray, count: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Make further start vectors: multiples of the scales (K,), then random ones."""
    starts = []
    mask = process.penalty_weights() > 0.0
    for number in range(1, count + 1):
        multiple = _LADDER[number] if number < len(_LADDER) else 10.0 ** rng.uniform(-0.5, 1.5)
        theta = process.initial(process.transform.reachable(scales * multiple))
        if number >= len(_LADDER):
            theta[mask] = _PERTURBATION * rng.standard_normal(int(mask.sum()))
        starts.append(theta)
    return starts


def choose(descents: list[Descent], max_iter: int) -> Descent:
    """Train all for a short while, drop the worse half, and so on until one is left.

    They share an objective, perhaps on some of the rows. The list shrinks in place, so that
    whoever interrupts finds those that are left.
    """
    affordable = _PROBE_STEPS_TIMES_ROWS // descents[0].objective.n_rows
    # Not a share of max_iter: a checkpoint of a long training is the end of a short one.
    steps = min(max(affordable, _SHORTEST_PROBE), _LONGEST_PROBE)
    iterations = 0
    while len(descents) > 1:
        iterations = min(iterations + steps, max_iter)
        survivors = []
        for descent in descents:
            try:
                descent.advance(iterations)
            except TrainingError:
                continue
            survivors.append(descent)
        if not survivors:
            raise TrainingError("no start has a finite likelihood: raise noise_floor")
        survivors.sort(key=lambda descent: descent.best.loss)
        descents[:] = survivors[: max(1, len(descents) // 2)]
    return descents[0]
