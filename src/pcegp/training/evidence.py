"""The evidence of a model, by Laplace's approximation at a converged optimum.

    log evidence = -loss - 1/2 log det H

H is the Hessian of the loss in latent variables, in which the prior has the Hessian I. Its outer
eigenvalues, all of a small model, are found by Lanczos' method; the rest of the log determinant
is estimated by quadrature on their complement (Ubaru, Chen and Saad, 2017). Products with H are
differences of gradients, and the random vectors have a fixed seed: equal models have equal
evidence. Two of them are enough: their error is small beside the temperature at which evidences
are compared (`pcegp.training.selection`).

The same eigenvalues h tell how many parameters the data have determined, the sum of 1 - 1/h
(MacKay, 1992): so many degrees of freedom the residuals have lost.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcegp._typing import FloatArray
from pcegp.training.latent import LatentObjective, Metric
from pcegp.training.quasi_newton import Optimum

# Of a difference of gradients, in standard deviations of the prior. Where data have next to no
# noise, gradients have rounding errors of up to 1e-5; shorter steps would make much of them.
_STEP = 3e-4
_STEPS, _PROBES, _PROBE_STEPS = 24, 2, 6
_ACCURATE = 0.1  # relative residual of an eigenvector that counts as found
# Where data say little, H is I; by error of the differences an eigenvalue could fall below that.
_SMALLEST = 0.5


class Curvature(NamedTuple):
    """Log determinant, determined parameters and known eigenvectors of a Hessian."""

    log_determinant: float
    n_determined: float  # parameters that the data have determined
    metric: Metric  # eigenvectors that were found


class Evidence(NamedTuple):
    """The log evidence of a model, and the degrees of freedom that it has cost."""

    log_evidence: float
    n_determined: float
    metric: Metric | None = None  # of the optimum, for a minimisation that begins there


@dataclass(frozen=True)
class _Ritz:
    """Approximate eigenvalues and eigenvectors in a Krylov space."""

    values: FloatArray  # (s,)
    vectors: FloatArray  # (Q, s)
    weights: FloatArray  # (s,) squared components of the starting vector
    residuals: FloatArray  # (s,)


class _Hessian:
    """Products of the Hessian at an optimum with vectors."""

    def __init__(self, objective: LatentObjective, optimum: Optimum) -> None:
        self._objective, self._optimum = objective, optimum
        self.found = np.zeros((len(optimum.w), 0))  # eigenvectors that are taken out

    def times(self, vector: FloatArray) -> FloatArray:
        """Multiply a unit vector (Q,), outside of what is taken out."""
        there = self._objective(self._optimum.w + _STEP * vector)
        product = (there.gradient - self._optimum.gradient) / _STEP
        return np.asarray(product - self.found @ (self.found.T @ product))


def _lanczos(hessian: _Hessian, start: FloatArray, steps: int) -> _Ritz:
    """Make a Krylov space, orthogonalised twice in every step."""
    vectors = [start / np.linalg.norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(steps, len(start) - hessian.found.shape[1])):
        product = hessian.times(vectors[-1])
        diagonal.append(float(vectors[-1] @ product))
        basis = np.array(vectors)
        for _ in range(2):
            product = product - basis.T @ (basis @ product)
        beside.append(float(np.linalg.norm(product)))
        if beside[-1] < _STEP:
            break
        vectors.append(product / beside[-1])
    size = len(diagonal)
    off = np.array(beside[: size - 1])
    values, inside = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return _Ritz(values, np.array(vectors[:size]).T @ inside, inside[0] ** 2,
                 np.abs(beside[size - 1] * inside[-1]))


def curvature(objective: LatentObjective, optimum: Optimum) -> Curvature:
    """Estimate log determinant and determined parameters by the Hessian at an optimum."""
    rng, size = np.random.default_rng(0), len(optimum.w)
    hessian = _Hessian(objective, optimum)
    ritz = _lanczos(hessian, rng.standard_normal(size), _STEPS)
    found = ritz.residuals < _ACCURATE * ritz.values
    hessian.found = ritz.vectors[:, found]
    metric = Metric(hessian.found, np.maximum(ritz.values[found], _SMALLEST))
    total = _functions(ritz.values[found]).sum(axis=1)
    if size == np.count_nonzero(found):
        return Curvature(float(total[0]), float(total[1]), metric)
    rest = []
    for _ in range(_PROBES):
        probe = rng.choice([-1.0, 1.0], size)
        probe -= hessian.found @ (hessian.found.T @ probe)
        ritz = _lanczos(hessian, probe, _PROBE_STEPS)
        rest.append(probe @ probe * (_functions(ritz.values) @ ritz.weights))
    total += np.mean(rest, axis=0)
    return Curvature(float(total[0]), float(total[1]), metric)


def _functions(eigenvalues: FloatArray) -> FloatArray:
    """Compute what is summed over eigenvalues (s,): (2, s)."""
    values = np.maximum(eigenvalues, _SMALLEST)
    return np.array([np.log(values), 1.0 - 1.0 / values])


def evidence(objective: LatentObjective, optimum: Optimum) -> Evidence:
    """Approximate the evidence at an optimum; there is none if it was not reached."""
    if not optimum.is_reached:
        return Evidence(-np.inf, 0.0)
    found = curvature(objective, optimum)
    return Evidence(-optimum.loss - 0.5 * found.log_determinant, found.n_determined,
                    found.metric)
