"""PCEGPMixture: several models as one predictor."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from pcegp._progress import bar
from pcegp._typing import FloatArray
from pcegp.errors import PCEGPError, PCEGPWarning, SettingError, shown
from pcegp.estimators import conformal, model_state
from pcegp.estimators.composite import Composite
from pcegp.estimators.fitted_model import difference
from pcegp.estimators.presets import RECOMMENDED
from pcegp.estimators.regressor import PCEGPRegressor, fit_named, generator
from pcegp.estimators.scoring import Scored
from pcegp.preprocessing import validation


class PCEGPMixture(Composite, Scored, BaseEstimator):
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
        # A fit that fails must not leave an old mixture behind.
        for name in ("estimators_", "encoding_", "_cross_fits"):
            self.__dict__.pop(name, None)
        validation.check_jobs("n_jobs", self.n_jobs)
        members = [clone(member) for member in self._chosen()]
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(_fitted)(member, X, y, sample_weight) for member in members
        )
        self._take(fitted)
        return self

    def _chosen(self) -> Sequence[PCEGPRegressor | FrozenEstimator]:
        """Check the members before one of them is trained."""
        if self.estimators is None:
            return recommended()
        if not isinstance(self.estimators, Sequence) or isinstance(self.estimators, str):
            raise SettingError(
                f"estimators={shown(repr(self.estimators))} must be a list of PCEGPRegressor"
            )
        if not self.estimators:
            raise SettingError("estimators is empty: a mixture needs at least one model")
        for number, given in enumerate(self.estimators):
            model = given.estimator if isinstance(given, FrozenEstimator) else given
            if not isinstance(model, PCEGPRegressor):
                raise SettingError(
                    f"member {number} of estimators is {shown(repr(given))}: it must be a "
                    "PCEGPRegressor, or a fitted one in FrozenEstimator"
                )
            if model is not given:
                check_is_fitted(model)
        return self.estimators

    def _take(self, fitted: list[PCEGPRegressor]) -> None:
        if found := difference([member.model_ for member in fitted]):
            raise SettingError(f"the members were fitted to {found}: give those of one table")
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
        """Predict the mean of the mixture, and its standard deviation or covariance if asked.

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
            distances = means - mean
            first = self.estimators_[0].model_
            # Beside the covariance of a member: the sum, its copy while one is added, and what
            # either is made of.
            n_matrices = 5 * len(first.outputs)
            first.check_joint(len(mean), n_matrices, "the covariance of a mixture")
            inside: Any = 0.0
            for member in self.estimators_:
                inside = inside + member.predict(X, return_cov=True,
                                                 include_noise=include_noise)[1]
            inside /= len(distances)
            with np.errstate(over="ignore", invalid="ignore"):  # the members have warned
                inside += np.einsum("ki...,kj...->ij...", distances, distances) / len(distances)
            return mean, inside
        if not return_std:
            return mean
        spreads = [
            deviation if include_noise and same is member
            else member.predict(X, return_std=True, include_noise=include_noise)[1]
            for member, same, (_, deviation) in zip(self.estimators_, certain, each, strict=True)
        ]
        parts = np.concatenate([np.array(spreads), means - mean])
        return mean, _root_sum_of_squares(parts) / np.sqrt(len(means))

    def members(self) -> list[PCEGPRegressor]:
        """List the fitted models in the order of `estimators`; a search puts its best first."""
        check_is_fitted(self, "estimators_")
        return list(self.estimators_)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions at X (m, D): (m, n_samples) or (m, t, n_samples).

        Each is drawn from one member, and all members have equal shares of them, up to one
        draw; which draw is whose is random. So they spread about the plain mean of the members'
        means, while `predict` weighs these by who is certain.
        """
        members, rng = self.members(), generator(random_state)
        columns = members[0].checked_rows(X)
        n_samples = validation.check_integer("n_samples", n_samples, 1)
        first = members[0].model_
        first.check_draws(len(columns), n_samples, 0)  # each member checks its matrices itself
        turns = rng.permutation(n_samples) % len(members)
        shift = rng.integers(len(members))  # who has one draw more
        owners = (turns + shift) % len(members)
        shape = (len(columns), *(() if first.one_output else (len(first.outputs),)), n_samples)
        drawn = np.empty(shape)
        for number, member in enumerate(members):
            mine = np.flatnonzero(owners == number)
            if mine.size:
                drawn[..., mine] = member.model_.sample(columns, mine.size, rng, include_noise)
        return drawn

    def predict_interval(
        self, X: ArrayLike, coverage: float = 0.95, n_folds: int = 5
    ) -> tuple[FloatArray, FloatArray]:
        """Compute intervals that cover new values as often as they say, however wrong the model.

        Mixtures of clones of all members, frozen ones too, are trained without each fold; see
        `PCEGPRegressor.predict_interval`.
        """
        members = self.members()
        columns = members[0].checked_rows(X)
        # A frozen member may have seen other rows.
        own = [member for member, given in zip(members, self.estimators or members, strict=True)
               if not isinstance(given, FrozenEstimator)]
        fitted = (own or members)[0].model_
        clones = [clone(member).set_params(verbose=False) for member in members]
        known = self.__dict__.setdefault("_cross_fits", {})
        return conformal.interval(PCEGPMixture(clones, n_jobs=self.n_jobs), fitted, known, columns,
                                  coverage, n_folds, any(member.verbose for member in members))

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Keep all members in one model file; see `PCEGPRegressor.save`."""
        check_is_fitted(self, "estimators_")
        return model_state.write(path, self.estimators_, force)


def _by_precision(means: FloatArray, deviations: FloatArray) -> FloatArray:
    """Average the means of the members, weighted by the inverse of their variances."""
    weights = (deviations.min(axis=0) / deviations) ** 2  # at most 1, whatever the units
    return np.asarray((weights * means).sum(axis=0) / weights.sum(axis=0))


def _root_sum_of_squares(parts: FloatArray) -> FloatArray:
    """Compute the root of the sum of squares over the first axis, in any unit.

    The square of 1e200 is no floating-point number, nor is that of 1e-200: parts are scaled by
    a power of two first, which changes no digit.
    """
    _, exponent = np.frexp(np.abs(parts).max(axis=0))
    scaled = np.ldexp(parts, -exponent)
    return np.asarray(np.ldexp(np.sqrt(np.square(scaled).sum(axis=0)), exponent))


def recommended(**changes: Any) -> list[PCEGPRegressor]:
    """Make models of two structures that make up for each other, with settings of your own.

    Only the first, the default model, has draws of its parameters.
    """
    return [PCEGPRegressor(**{**structure, **changes}) for structure in drawn_once(RECOMMENDED)]


def drawn_once(settings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn draws off in the settings of all members but the first, unless they say otherwise.

    Where parameters are uncertain, the members differ; draws of each would count that twice.
    """
    first, *others = settings
    return [dict(first), *({"n_draws": 0, **other} for other in others)]


def _fitted(
    member: PCEGPRegressor | FrozenEstimator, X: ArrayLike, y: ArrayLike,
    sample_weight: ArrayLike | None,
) -> PCEGPRegressor:
    if isinstance(member, FrozenEstimator):
        return member.estimator
    return _whole(member.fit(X, y, sample_weight))


def _whole(member: PCEGPRegressor) -> PCEGPRegressor:
    if member.was_interrupted():
        raise KeyboardInterrupt  # a mixture with a member that is half trained is none
    return member


def trained(
    members: Sequence[PCEGPRegressor], X: ArrayLike, y: ArrayLike, n_jobs: int | None, show: bool,
    names: Sequence[str] | None = None,
) -> list[PCEGPRegressor | PCEGPError | MemoryError]:
    """Train members without warnings, as no user chose their settings; an error takes its place.

    Columns of an array may have `names`.
    """
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    with bar(True, len(members), "training the answer") if show else nullcontext() as update:
        attempts = []
        for attempt in parallel(delayed(_attempt)(member, X, y, names) for member in members):
            attempts.append(attempt)
            if update is not None:
                update(len(attempts))
    return attempts


def _attempt(
    member: PCEGPRegressor, X: ArrayLike, y: ArrayLike, names: Sequence[str] | None
) -> PCEGPRegressor | PCEGPError | MemoryError:
    with warnings.catch_warnings(action="ignore", category=PCEGPWarning):
        try:
            return _whole(fit_named(member, X, y, names))
        except (PCEGPError, MemoryError) as error:
            return error


def load(path: str | Path, max_gb: float = 2.0) -> PCEGPRegressor | PCEGPMixture:
    """Load a fitted model, or a mixture of them, from a file that `model.save(path)` made.

    Nothing in the file is run. A damaged file, or one of another kind, is a ModelFileError.
    A file above `max_gb`, or one whose models would take more in memory, is refused.
    """
    members = model_state.read(path, PCEGPRegressor, max_gb)
    if len(members) == 1:
        return members[0]
    mixture = PCEGPMixture(members)
    mixture._take(members)
    return mixture
