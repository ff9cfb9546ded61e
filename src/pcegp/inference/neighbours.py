"""Nearest-neighbour inference: each row conditioned on the rows that are nearest to it.

A Gaussian process factorises over rows in any order, p(y) = prod_i p(y_i | all rows before), and
far rows say little beside near ones. With at most m neighbours in place of all rows before, a
factor costs m^3, and the likelihood is a sum over rows (Vecchia, 1988; Datta and others, 2016).
The order is random. Of a long table the last T rows are taken: the likelihood is that of these,
given the others, and its cost does not grow with the table. A prediction is conditioned on the
nearest of all training rows.

Rows are near where the process says so: distances are those of the warped inputs. Neighbours are
looked for at the parameters of the first evaluation, and stay the same, so that the likelihood is
smooth; `NeighbourLikelihood.of_rows` makes a likelihood with new ones.

With no more rows than neighbours, everything here equals exact inference.

n training points, m new points, in scaled inputs and standardised targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.special import xlogy

from pcegp._typing import FloatArray, IntArray
from pcegp.errors import SettingError
from pcegp.inference.base import COVARIANCE, LEAVE_ONE_OUT, Conditioned, Data, Evaluation
from pcegp.inference.exact import fill_and_factor
from pcegp.kernels import Parameters, Process
from pcegp.numerics import ONE_THREAD, Threads, cholesky, pairwise, terms, threads_for
from pcegp.preprocessing import validation

_LOG_2PI = float(np.log(2.0 * np.pi))
_BLOCK = 20_000  # rows that are warped at once
_PREDICTED_AT_ONCE = 5_000
_AT_ONCE = 4_000_000  # distances that are computed at once
_MOST_JOINT = 4_000  # rows that a joint prediction is conditioned on


@dataclass(frozen=True)
class Neighbours:
    """The nearest-neighbour engine: training takes hardly longer with more rows.

    Parameters
    ----------
    n_train : neighbours of a row in the likelihood
    n_predict : neighbours of a new row
    n_terms : rows in the likelihood, at most
    """

    n_train: int = 60
    n_predict: int = 200
    n_terms: int = 5_000

    name = "neighbours"
    provides = frozenset({LEAVE_ONE_OUT, COVARIANCE})

    def __post_init__(self) -> None:
        for name in ("n_train", "n_predict", "n_terms"):
            validation.check_integer(name, getattr(self, name), 1)

    def bytes_needed(self, n: int, d: int) -> int:
        # Warped rows of five covariance functions, and their gradients in shares.
        in_terms = min(n, self.n_terms * (self.n_train + 1))
        return 8 * 5 * d * (2 * n + (terms.SHARES + 3) * in_terms)

    def bytes_held(self, n: int, d: int) -> int:
        return 8 * 6 * d * n

    def bind(self, process: Process, data: Data, threads: Threads = ONE_THREAD,
             n_jobs: int | None = None) -> NeighbourLikelihood:
        return NeighbourLikelihood(self, process, data, threads, n_jobs)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "n_train": self.n_train, "n_predict": self.n_predict,
                "n_terms": self.n_terms}


def _by_point(Z: FloatArray) -> FloatArray:
    """Turn warped points (K, d, n) around: (n, K, d), all of a point side by side."""
    return np.ascontiguousarray(Z.transpose(2, 0, 1))


def _search_points(Z: FloatArray, parts: pairwise.Components) -> FloatArray:
    """Bring warped points (n, K, d) to a space whose distances tell who is near: (n, d).

    The squared distances of all covariance functions are added, with their variances. Where these
    have their fields in common, the sum is a distance in d inputs.
    """
    mean = np.sqrt(np.einsum("nkd,k->nd", Z**2, parts.variances / parts.variances.sum()))
    return np.asarray(np.copysign(mean, Z[:, int(np.argmax(parts.variances))]))


class _Rows:
    """Training rows at some parameters: what warps rows, in blocks."""

    def __init__(self, process: Process, theta: FloatArray, data: Data) -> None:
        self.process, self.data = process, data
        self.parameters = process.parameters(theta)
        self.components = process.components(self.parameters)
        self.scale_offset, self.noise_offset = _offsets(process, self.parameters, data)

    def warped(self, X: FloatArray) -> FloatArray:
        """Warp points X (m, d): (m, K, d)."""
        out = np.empty((len(X), len(self.components.variances), X.shape[1]))
        for start in range(0, len(X), _BLOCK):
            part = slice(start, start + _BLOCK)
            design = self.process.design(X[part], with_noise=False)
            out[part] = _by_point(self.process.warp(self.parameters, design, self.scale_offset).Z)
        return out

    def search_points(self, X: FloatArray) -> FloatArray:
        """Bring points X (m, d) to the space in which neighbours are looked for: (m, d)."""
        out = np.empty((len(X), X.shape[1]))
        for start in range(0, len(X), _BLOCK):
            part = slice(start, start + _BLOCK)
            out[part] = _search_points(self.warped(X[part]), self.components)
        return out

    def noise(self, X: FloatArray) -> FloatArray:
        """Compute the noise variance (m,) at X (m, d)."""
        out = np.empty(len(X))
        for start in range(0, len(X), _BLOCK):
            part = slice(start, start + _BLOCK)
            Phi = self.process.noise_design(X[part])
            out[part] = self.process.noise(self.parameters, Phi, self.noise_offset).variance
        return out


def _offsets(
    process: Process, parameters: Parameters, data: Data
) -> tuple[FloatArray, FloatArray]:
    """Find what transforms need to know of the fields at all training rows."""
    scales, noises = [], []
    for start in range(0, len(data.X), _BLOCK):
        design = process.design(data.X[start : start + _BLOCK])
        scales.append(process.transform.offset(process.warp(parameters, design).u))
        noises.append(process.noise_transform.offset(
            process.noise(parameters, design.Phi_noise).u))
    return np.max(scales, axis=0), np.max(noises, axis=0)


def _owners(n: int, n_terms: int, n_skipped: int = 0) -> tuple[IntArray, IntArray]:
    """Draw the order of n rows, and find the last ones in it but for some: the rows of terms."""
    order = np.random.default_rng(0).permutation(n)
    last = n - n_skipped
    return order, np.flatnonzero((order >= last - n_terms) & (order < last))


def _earlier_neighbours(
    points: FloatArray, order: IntArray, owners: IntArray, count: int
) -> terms.Terms:
    """Find for each owner its nearest rows of those that come before it.

    Parameters
    ----------
    points : (n, d), where distances are measured
    order : (n,), the place of each row
    owners : (T,)
    count : neighbours of each, at most
    """
    n, size = len(points), min(count, len(points) - 1)
    neighbours = np.zeros((len(owners), size), dtype=np.int64)
    counts = np.zeros(len(owners), dtype=np.int64)
    if 2 * order[owners].min() > n:
        # Of the nearest rows of all, few come later: the owners are the last ones.
        later = 1.0 - order[owners].min() / n
        more = int(size / (1.0 - later) + 4.0 * np.sqrt(size)) + 1
        found = cKDTree(points).query(points[owners], k=min(more, n), workers=1)[1]
    else:
        found = None
    rows = max(1, _AT_ONCE // n)
    for start in range(0, len(owners), rows):
        some = owners[start : start + rows]
        distances = None if found is not None else cdist(points[some], points, "sqeuclidean")
        for place, owner in enumerate(some):
            if distances is None:
                near = found[start + place]
                near = near[order[near] < order[owner]][:size]
            else:
                near = np.flatnonzero(order < order[owner])
                if len(near) > size:
                    near = near[np.argpartition(distances[place, near], size - 1)[:size]]
            neighbours[start + place, : len(near)] = np.sort(near)
            counts[start + place] = len(near)
    return terms.Terms(owners, neighbours, counts)


class NeighbourLikelihood:
    """The negative log likelihood of rows given rows before them, with its gradient."""

    def __init__(
        self, engine: Neighbours, process: Process, data: Data, threads: Threads = ONE_THREAD,
        n_jobs: int | None = None, near: FloatArray | None = None, n_skipped: int = 0,
    ) -> None:
        self.engine, self.process, self.data = engine, process, data
        self.threads = threads
        self.n_factorisations = 0
        self._n_jobs, self._n_skipped = n_jobs, n_skipped
        self._terms: terms.Terms | None = None
        #: Of the last evaluation, the value of each row that has a term.
        self.by_row = np.empty(0)
        self.owners = np.empty(0, dtype=np.int64)  # these rows
        if near is not None:
            self._look_around(near)

    def of_rows(self, theta: FloatArray, n_terms: int, n_skipped: int = 0) -> NeighbourLikelihood:
        """Make the likelihood of other rows, with the neighbours at some parameters.

        Parameters
        ----------
        n_terms : how many rows
        n_skipped : last rows of the random order that are left to others
        """
        engine = replace(self.engine, n_terms=n_terms)
        return NeighbourLikelihood(engine, self.process, self.data, self.threads, self._n_jobs,
                                   theta, n_skipped)

    def _look_around(self, theta: FloatArray) -> None:
        """Find the neighbours at some parameters."""
        n = len(self.data.y)
        order, owners = _owners(n, self.engine.n_terms, self._n_skipped)
        points = _Rows(self.process, theta, self.data).search_points(self.data.X)
        found = _earlier_neighbours(points, order, owners, self.engine.n_train)
        is_filled = np.arange(found.neighbours.shape[1]) < found.counts[:, None]
        self._used = np.union1d(owners, found.neighbours[is_filled])
        neighbours = np.where(is_filled, np.searchsorted(self._used, found.neighbours), 0)
        self.owners = owners
        self._terms = terms.Terms(np.searchsorted(self._used, owners), neighbours, found.counts)
        self._design = self.process.design(self.data.X[self._used])
        self._counts = self.data.weights[self._used]

    def __call__(self, theta: FloatArray) -> Evaluation:
        if self._terms is None:
            self._look_around(theta)
        assert self._terms is not None  # noqa: S101  # for the type checker
        made = self.process.terms(theta, self._design)
        noise, w = made.noise.variance, self._counts
        self.n_factorisations += 1
        found = terms.evaluate(_by_point(made.warp.Z), self._terms, self.data.y[self._used],
                               noise / w, made.components, self.threads)
        mine = self._terms.owners
        self.by_row = found.nll + 0.5 * _repeats(w[mine], noise[mine])
        nll = float(self.by_row.sum())
        by_noise = found.dnoise / w
        by_noise[mine] += 0.5 * (w[mine] - 1.0) / np.maximum(noise[mine],
                                                             np.finfo(np.float64).tiny)
        dZ = np.ascontiguousarray(found.dZ.transpose(1, 2, 0))
        gradient = self.process.pull_back(made, self._design, dZ, found.dvariances,
                                          found.dshapes, by_noise)
        return Evaluation(nll, gradient, None, None, found.jitter)

    def posterior(self, theta: FloatArray) -> NeighbourPosterior:
        theta = theta.copy()
        value, rows = self(theta), _Rows(self.process, theta, self.data)
        return NeighbourPosterior(
            engine=self.engine,
            process=self.process,
            theta=theta,
            parameters=rows.parameters,
            data=self.data,
            scale_offset=rows.scale_offset,
            noise_offset=rows.noise_offset,
            noise=rows.noise(self.data.X),
            nll=value.nll,
            jitter=value.jitter,
            n_jobs=self._n_jobs,
            rows=rows,
        )


def _repeats(w: FloatArray, noise: FloatArray) -> FloatArray:
    """Compute what the repeats of rows add to twice their negative log likelihood."""
    return np.asarray((w - 1.0) * _LOG_2PI + xlogy(w - 1.0, noise) + np.log(w))


@dataclass(frozen=True)
class NeighbourPosterior(Conditioned):
    """A process of which every prediction is conditioned on the nearest training rows."""

    engine: Neighbours
    rows: _Rows

    @property
    def likelihood_weights(self) -> FloatArray:
        owners = _owners(len(self.data.y), self.engine.n_terms)[1]
        weights = np.zeros_like(self.data.weights)
        weights[owners] = self.data.weights[owners]
        return weights

    @cached_property
    def _Z(self) -> FloatArray:
        return self.rows.warped(self.data.X)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(_search_points(self._Z, self.rows.components))

    @property
    def least_variance(self) -> float:
        """The least variance of the process: rounding could make one negative."""
        return float(np.finfo(np.float64).eps * self.prior_variance)

    def _threads(self, n_new: int) -> AbstractContextManager[Threads]:
        return threads_for(n_new * self.engine.n_predict, self.n_jobs)

    def _near(self, Z: FloatArray, count: int, workers: int) -> IntArray:
        """Find the nearest training rows (m, count) of warped points (m, K, d)."""
        points = _search_points(Z, self.rows.components)
        found = self._tree.query(points, k=np.arange(1, count + 1), workers=workers)[1]
        return np.asarray(found, dtype=np.int64)

    def _blocks(self, X: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        for start in range(0, len(X), _PREDICTED_AT_ONCE):
            part = slice(start, start + _PREDICTED_AT_ONCE)
            yield part, self.rows.warped(X[part])

    def mean(self, X: FloatArray) -> FloatArray:
        return self.mean_and_variance(X, include_noise=False)[0]

    def mean_and_variance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        size = min(self.engine.n_predict, len(self.data.y))
        noise = self.noise / self.data.weights
        with self._threads(len(X)) as threads:
            for part, Z in self._blocks(X):
                near = np.sort(self._near(Z, size, threads.count), axis=1)
                counts = np.full(len(Z), size, dtype=np.int64)
                mean[part], variance[part], _ = terms.predict(
                    Z, self._Z, near, counts, self.data.y, noise, self.rows.components, threads)
        variance = np.maximum(variance, self.least_variance)
        return mean, variance + self.noise_variance(X) if include_noise else variance

    def noise_variance(self, X: FloatArray) -> FloatArray:
        return self.rows.noise(X)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        return self.left_out(np.arange(len(self.data.y)))

    def left_out(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        """Predict mean and variance (with noise) of some training rows from all others."""
        mean, variance = np.empty(len(chosen)), np.empty(len(chosen))
        size = min(self.engine.n_predict, len(self.data.y) - 1)
        noise = self.noise / self.data.weights
        with self._threads(len(chosen)) as threads:
            for start in range(0, len(chosen), _PREDICTED_AT_ONCE):
                part = slice(start, start + _PREDICTED_AT_ONCE)
                mine, Z = chosen[part], self._Z[chosen[part]]
                near = self._near(Z, size + 1, threads.count)
                # Copies of a row are as near as the row itself, which may be missing then.
                is_own = near == mine[:, None]
                is_own[~is_own.any(axis=1), -1] = True
                near = np.sort(near[~is_own].reshape(len(mine), size), axis=1)
                counts = np.full(len(mine), size, dtype=np.int64)
                mean[part], variance[part], _ = terms.predict(
                    Z, self._Z, near, counts, self.data.y, noise, self.rows.components, threads)
        return mean, np.maximum(variance, self.least_variance) + self.noise[chosen]

    def mean_and_covariance(
        self, X: FloatArray, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Predict mean (m,) and covariance (m, m): all rows are conditioned on the same others.

        These are the neighbours of all of them together, which must not be too many.
        """
        size = min(self.engine.n_predict, len(self.data.y))
        Z_new = self.rows.warped(X)
        with self._threads(len(X)) as threads:
            used = np.unique(self._near(Z_new, size, threads.count))
        if len(used) > _MOST_JOINT:
            raise SettingError(
                f"a covariance of {len(X):,} rows would be conditioned on the {len(used):,} rows "
                f"that are near to any of them, and {_MOST_JOINT:,} are the most: ask for fewer "
                "rows, or for rows that are closer together"
            )
        with threads_for(len(used), self.n_jobs) as threads:
            Z, Z_new = (np.ascontiguousarray(each.transpose(1, 2, 0))
                        for each in (self._Z[used], Z_new))
            factor, spare = np.zeros((2, len(used), len(used)))
            fill_and_factor(Z, self.rows.components, self.noise[used] / self.data.weights[used],
                            factor, spare, threads)
            k = pairwise.cross(Z_new, Z, self.rows.components, threads)
            mean = k @ cholesky.solve(factor, self.data.y[used])
            half = cholesky.half_solve(factor, k, threads)
            covariance = pairwise.cross(Z_new, Z_new, self.rows.components, threads)
        covariance -= half @ half.T
        np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), self.least_variance))
        if include_noise:
            covariance[np.diag_indices_from(covariance)] += self.noise_variance(X)
        return mean, covariance
