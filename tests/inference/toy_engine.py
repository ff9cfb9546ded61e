"""An engine in one file, by plain SciPy: what the seam of inference asks for, and no more.

It has neither leave-one-out results nor covariances nor draws.

    C  (n, n)  covariance of the data     a  (n,)    C^-1 y
    Q  (n, n)  d nll / dC = (C^-1 - a a') / 2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.spatial.distance import cdist

from pcegp.errors import NotPositiveDefiniteError
from pcegp.inference import Conditioned, Data, Evaluation
from pcegp.kernels import Process

LOG_2PI = np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Toy:
    """Dense inference without any tricks."""

    copies: int = 4  # of a matrix, that it is thought to need

    name = "toy"
    provides = frozenset()

    def bytes_needed(self, n: int, d: int) -> int:
        return 8 * self.copies * n**2

    def bytes_held(self, n: int, d: int) -> int:
        return 8 * n**2

    def bind(self, process: Process, data: Data, threads: Any = None,
             n_jobs: int | None = None) -> ToyLikelihood:
        return ToyLikelihood(self, process, data)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "copies": self.copies}


def _covariance(process: Process, terms: Any, A: np.ndarray, B: np.ndarray) -> tuple[Any, ...]:
    """Values, slopes and shape slopes (K, m, n) of the covariance functions at warped points."""
    functions = zip(process.covariances, terms.components.shapes.tolist(), A, B, strict=True)
    parts = [f.evaluate(cdist(a.T, b.T, "sqeuclidean"), shape) for f, shape, a, b in functions]
    return tuple(np.array(part) for part in zip(*parts, strict=True))


class ToyLikelihood:
    def __init__(self, engine: Toy, process: Process, data: Data) -> None:
        self.engine, self.process, self.data = engine, process, data
        self.design = process.design(data.X)
        self.n_factorisations = 0

    def _solved(self, theta: np.ndarray) -> tuple[Any, ...]:
        """Terms, values and slopes of the covariance, its factor, C^-1 y and the likelihood."""
        _, y, w = self.data
        terms = self.process.terms(theta, self.design)
        noise, variances = terms.noise.variance, terms.components.variances
        parts = _covariance(self.process, terms, terms.warp.Z, terms.warp.Z)
        self.n_factorisations += 1
        try:
            factor = cho_factor(np.tensordot(variances, parts[0], 1) + np.diag(noise / w))
        except (LinAlgError, ValueError):  # the latter at NaN
            raise NotPositiveDefiniteError from None
        dual = cho_solve(factor, y)
        nll = 0.5 * (y @ dual + 2.0 * np.log(np.diag(factor[0])).sum() + w.sum() * LOG_2PI)
        nll += 0.5 * np.sum((w - 1.0) * np.log(noise) + np.log(w))  # of repeated rows
        return terms, parts, factor, dual, float(nll)

    def __call__(self, theta: np.ndarray) -> Evaluation:
        terms, (f, g, h), factor, dual, nll = self._solved(theta)
        w, noise, variances = self.data.weights, terms.noise.variance, terms.components.variances
        Q = 0.5 * (cho_solve(factor, np.eye(len(w))) - np.outer(dual, dual))
        W = 4.0 * variances[:, None, None] * g * Q  # each pair stands in C twice
        Z = terms.warp.Z
        dZ = Z * W.sum(axis=2)[:, None, :] - np.einsum("kdj,kij->kdi", Z, W)
        gradient = self.process.pull_back(
            terms, self.design, dZ, np.tensordot(f, Q), variances * np.tensordot(h, Q),
            np.diag(Q) / w + 0.5 * (w - 1.0) / noise,
        )
        return Evaluation(nll, gradient, None, None, 0.0)

    def posterior(self, theta: np.ndarray) -> ToyPosterior:
        theta = theta.copy()
        terms, _, factor, dual, nll = self._solved(theta)
        return ToyPosterior(
            engine=self.engine, process=self.process, theta=theta, parameters=terms.parameters,
            data=self.data, scale_offset=self.process.transform.offset(terms.warp.u),
            noise_offset=self.process.noise_transform.offset(terms.noise.u),
            noise=terms.noise.variance, nll=nll, jitter=0.0, n_jobs=None,
            terms=terms, factor=factor, dual=dual,
        )


@dataclass(frozen=True)
class ToyPosterior(Conditioned):
    terms: Any
    factor: Any
    dual: np.ndarray

    def _cross(self, X: np.ndarray) -> np.ndarray:
        Z = self.warped(X)
        values = _covariance(self.process, self.terms, Z, self.terms.warp.Z)[0]
        return np.tensordot(self.terms.components.variances, values, 1)

    def mean(self, X: np.ndarray) -> np.ndarray:
        return self._cross(X) @ self.dual

    def mean_and_variance(
        self, X: np.ndarray, include_noise: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        k = self._cross(X)
        explained = np.einsum("ij,ji->i", k, cho_solve(self.factor, k.T))
        variance = np.maximum(self.prior_variance - explained, 0.0)
        return k @ self.dual, variance + (self.noise_variance(X) if include_noise else 0.0)
