"""PCEGPMixture: several models as one predictor."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from pcegp.errors import PCEGPError, PCEGPWarning, SettingError
from pcegp.estimators import model_state as saved
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.io import archive

FloatArray = NDArray[np.float64]


class PCEGPMixture(RegressorMixin, BaseEstimator):
    """Several models as one: who is certain decides, and all are heard about doubt.

    The mean weighs each member at each point by the inverse of its variance there, without what
    draws of its parameters add: a member must not count for less because it has them. The
    variance is that of an equal mixture of the members about this mean, by moment matching:
    the mean of their variances and squared distances from it. So where members disagree, it
    is larger than theirs, and one that is too sure of itself cannot make it small.

    Parameters
    ----------
    estimators : sequence of PCEGPRegressor or None
        The members; `fit` trains a clone of each. One that is fitted and wrapped in
        scikit-learn's `FrozenEstimator` is taken as it is. None takes those of `recommended`:
        models of other structures as a second opinion.
    n_jobs : int or None
        Members trained at the same time, as in joblib.

    Attributes
    ----------
    estimators_ : list of fitted PCEGPRegressor

    Examples
    --------
    >>> import numpy as np
    >>> from pcegp import PCEGPMixture, PCEGPRegressor
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> members = [PCEGPRegressor(degree=q, max_iter=30) for q in (0, 1)]
    >>> mixture = PCEGPMixture(members).fit(x, np.sin(6 * x[:, 0]))
    >>> mean, std = mixture.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3.0)) < 0.05)
    True
    """

    def __init__(
        self, estimators: Sequence[PCEGPRegressor | FrozenEstimator] | None = None, *,
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train every member on X (n, D) and y (n,) or (n, t)."""
        members = recommended() if self.estimators is None else self.estimators
        if not len(members):
            raise SettingError("estimators is empty: a mixture needs at least one model")
        members = [clone(estimator) for estimator in members]
        for member in members:
            if isinstance(member, FrozenEstimator):
                check_is_fitted(member.estimator)
        self._take(Parallel(n_jobs=self.n_jobs)(
            delayed(_fitted)(member, X, y, sample_weight) for member in members
        ))
        return self

    def _take(self, fitted: list[PCEGPRegressor]) -> None:
        self.estimators_ = fitted
        self.n_features_in_ = fitted[0].n_features_in_
        for name in ("feature_names_in_", "encoding_"):
            if hasattr(fitted[0], name):
                setattr(self, name, getattr(fitted[0], name))

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
    ) -> Any:
        """Mean of the mixture, and its standard deviation or covariance if asked.

        Parameters and shapes are those of `PCEGPRegressor.predict`.
        """
        check_is_fitted(self, "estimators_")
        if return_std and return_cov:
            raise SettingError("At most one of return_std or return_cov can be requested.")
        certain = [member.without_draws() for member in self.estimators_]
        each = [member.predict(X, return_std=True) for member in certain]
        means = np.array([mean for mean, _ in each])
        mean = _by_precision(means, np.array([deviation for _, deviation in each]))
        if return_cov:
            inside = [member.predict(X, return_cov=True, include_noise=include_noise)[1]
                      for member in self.estimators_]
            apart = means - mean
            between = np.einsum("ki...,kj...->ij...", apart, apart) / len(apart)
            return mean, np.mean(inside, axis=0) + between
        if not return_std:
            return mean
        spreads = [
            deviation if include_noise and same is member
            else member.predict(X, return_std=True, include_noise=include_noise)[1]
            for member, same, (_, deviation) in zip(self.estimators_, certain, each, strict=True)
        ]
        return mean, np.sqrt((np.square(spreads) + (means - mean) ** 2).mean(axis=0))

    def save(self, path: str | Path) -> Path:
        """Keep all members in one model file; see `PCEGPRegressor.save`."""
        check_is_fitted(self, "estimators_")
        states = [saved.state_of(member) for member in self.estimators_]
        archive.write(Path(path), *saved.joined(states))
        return Path(path)


def _by_precision(means: FloatArray, deviations: FloatArray) -> FloatArray:
    """Mean over the members, weighted by the inverse of their variances."""
    weights = (deviations.min(axis=0) / deviations) ** 2  # at most 1, whatever the units
    return np.asarray((weights * means).sum(axis=0) / weights.sum(axis=0))


def recommended(**changes: Any) -> list[PCEGPRegressor]:
    """Models of four structures that make up for each other, with settings of your own.

    The default model, one scale for weighted inputs, a stationary one, and a local scale that
    is linear in the inputs and hardly held back. Only the first has draws of its parameters.
    """
    structures: list[dict[str, Any]] = [
        {}, {"scale": "weighted", "degree": 3}, {"degree": 0}, {"degree": 1, "penalty": 0.5},
    ]
    return [PCEGPRegressor(**{**structure, **changes}) for structure in drawn_once(structures)]


def drawn_once(settings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Settings of members: all but the first without draws of the parameters, unless they say so.

    Where the parameters are open, the members differ; draws of each would say it twice.
    """
    first, *others = settings
    return [dict(first), *({"n_draws": 0, **other} for other in others)]


def _fitted(
    member: PCEGPRegressor | FrozenEstimator, X: ArrayLike, y: ArrayLike,
    sample_weight: ArrayLike | None,
) -> PCEGPRegressor:
    if isinstance(member, FrozenEstimator):
        return member.estimator
    member.fit(X, y, sample_weight)
    if member.was_interrupted():
        raise KeyboardInterrupt  # a mixture with a member that is half trained is none
    return member


def trained(
    members: Sequence[PCEGPRegressor], X: ArrayLike, y: ArrayLike, n_jobs: int | None
) -> list[PCEGPRegressor | PCEGPError | MemoryError]:
    """Members after their training, quietly, as no user chose their settings; or why one failed."""
    return list(Parallel(n_jobs=n_jobs)(delayed(_attempt)(member, X, y) for member in members))


def _attempt(
    member: PCEGPRegressor, X: ArrayLike, y: ArrayLike
) -> PCEGPRegressor | PCEGPError | MemoryError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PCEGPWarning)
        try:
            return _fitted(member, X, y, None)
        except (PCEGPError, MemoryError) as error:
            return error


def load(path: str | Path, max_gb: float = 2.0) -> PCEGPRegressor | PCEGPMixture:
    """A fitted model, or a mixture of them, from a file that `model.save(path)` made.

    Nothing in the file is run. A damaged file, or one of another kind, is a ModelFileError.
    A file above `max_gb`, or a model whose covariance is, is refused.
    """
    header, arrays = archive.read(Path(path), max_gb)
    if "members" not in header:
        return PCEGPRegressor._from_state(path, header, arrays, max_gb)
    members = [PCEGPRegressor._from_state(path, *state, max_gb)
               for state in saved.separated(header, arrays)]
    mixture = PCEGPMixture(members)
    mixture._take(members)
    return mixture
