"""HHK GP: a Gaussian process with the hierarchical hyperplane kernel, by MAP and L-BFGS."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from pcegp.benchmarks.baselines import hyperplane_kernel as kernel
from pcegp.benchmarks.baselines.scaled import ScaledRegressor
from pcegp.errors import TrainingError
from pcegp.numerics.threads import workers

FloatArray = NDArray[np.float64]

_ATTEMPTS = 5  # random starts for one that succeeds
_EVALUATIONS = 20  # at most that many for an iteration, which usually needs little more than one
_AT_LIMIT = 1  # SciPy's status of an optimiser that ended at a limit


class HyperplaneGP(ScaledRegressor):
    """The paper's HHK GP.

    Parameters
    ----------
    n_leaves : 2, 4 or 8 local kernels; half as many where training does not converge
    n_starts : random starts, of which the best is kept
    max_iter : of L-BFGS at each start
    random_state : seed of the starts

    Attributes
    ----------
    n_leaves_ : int
        Local kernels of the trained model.
    n_unfinished_ : int
        Starts that ended at `max_iter`.
    """

    def __init__(
        self, *, n_leaves: int = 4, n_starts: int = 10, max_iter: int = 15_000,
        random_state: int = 0,
    ) -> None:
        self.n_leaves = n_leaves
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.random_state = random_state

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        with workers(len(y), 1):  # several threads of BLAS would be slower, and not repeatable
            self._trained(X, y)

    def _trained(self, X: FloatArray, y: FloatArray) -> None:
        n_leaves = self.n_leaves
        best = self._best(X, y, n_leaves)
        while best is None and n_leaves > 2:
            n_leaves //= 2
            best = self._best(X, y, n_leaves)
        if best is None:
            raise TrainingError("no convergence: the covariance of every start was singular")
        self.n_leaves_, self._X = n_leaves, X
        self._parameters = kernel.unpack(best, n_leaves, X.shape[1])
        C = self._covariance(X)
        C[np.diag_indices_from(C)] += self._parameters.noise
        self._factor = cho_factor(C, lower=True)
        self._dual = cho_solve(self._factor, y)

    def _best(self, X: FloatArray, y: FloatArray, n_leaves: int) -> FloatArray | None:
        """The best of the starts that converge, or None."""
        rng = np.random.default_rng(self.random_state)
        best, lowest = None, np.inf
        limits = {"maxiter": self.max_iter, "maxfun": _EVALUATIONS * self.max_iter}
        self.n_unfinished_ = 0
        for _ in range(self.n_starts):
            for _ in range(_ATTEMPTS):
                guess = kernel.first_guess(n_leaves, X.shape[1], rng)
                try:
                    found = minimize(kernel.objective, guess, (X, y, n_leaves), jac=True,
                                     method="L-BFGS-B", options=limits)
                except np.linalg.LinAlgError:
                    continue
                self.n_unfinished_ += int(found.status == _AT_LIMIT)
                if found.fun < lowest:
                    best, lowest = found.x, found.fun
                break
        return best

    def _covariance(self, A: FloatArray) -> FloatArray:
        """Between A (m, d) and the training points, (m, n)."""
        p = self._parameters
        log_a, log_b = (kernel.log_shares(p, Z)[0] for Z in (A, self._X))
        parts = [kernel.covariance(p, leaf, A, self._X, log_a, log_b)
                 for leaf in range(self.n_leaves_)]
        return np.asarray(np.sum(parts, axis=0))

    def _posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = self._parameters
        k = self._covariance(X)
        prior = p.variances @ np.exp(2.0 * kernel.log_shares(p, X)[0])
        explained = np.einsum("ij,ji->i", k, cho_solve(self._factor, k.T))
        return k @ self._dual, np.maximum(prior - explained, 0.0) + p.noise
