"""PCEGPSearchCV: the search as a scikit-learn estimator."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import optuna
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from pcegp._progress import bar
from pcegp.errors import (
    NumericalWarning,
    SettingError,
    StorageError,
    unknown_name,
    warn,
)
from pcegp.estimators import settings
from pcegp.estimators.mixture import PCEGPMixture, drawn_once, trained
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.preprocessing.validation import (
    check_finite_inputs,
    check_integer,
    check_number,
    check_numeric,
    check_targets,
)
from pcegp.search import spaces
from pcegp.search.evaluation import OBJECTIVES
from pcegp.search.loop import search
from pcegp.search.problem import Problem
from pcegp.search.results import best_of, members_of, pareto_front, results_table, savings
from pcegp.search.sampler import SlotSampler
from pcegp.search.splits import make_splits
from pcegp.search.storage import STORAGE_FAILURES, lost, open_storage, open_study, quiet_optuna
from pcegp.search.trials import Record, finished, plain, records_of

FloatArray = NDArray[np.float64]



class PCEGPSearchCV(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """Find good settings of `PCEGPRegressor` by cross-validation, without an expert.

    Trials are suggested by Optuna (random, then a tree-structured Parzen estimator), raced
    over the folds so that hopeless ones end early, and kept in a study that can be resumed
    or shared by several workers.

    Parameters
    ----------
    space : {"auto", "paper", "paper_wine", "general"}, function or Space
        What to choose from; see `pcegp.search.spaces`. A function takes an Optuna trial and returns
        settings of `PCEGPRegressor`.
    objective : {"crps", "rmse", "nll"}, sequence of them or None
        Mean over the folds, to be minimised. With several, the first one leads: it decides
        `best_params_`, and the front of the others is kept in `pareto_front_`. None takes
        what suits the space ("crps" for "auto", "rmse" for the paper's).
    n_trials : int or None
        Trials in the study, those of earlier runs included; None takes 40 for "auto" and 200
        for the paper's.
    timeout : float or None
        Begin nothing new after this many seconds. In a race half of the time is for trials, the
        rest for the finals of the best.
    cv : int, splitter or None
        Folds; None is 10. A number gives shuffled folds, by groups if there are any.
    ensemble : int or None
        Predict by the mixture of up to this many of the best trials, each of another
        structure; 1 predicts by the best trial alone. None takes 5 for "auto", 1 for the
        paper's.
    estimator : PCEGPRegressor or None
        Settings for what the space leaves open. The automatic space also sets the number of
        steps and `max_interaction`; `pcegp.search.spaces.suggest_auto` takes others.
    storage : str, path or None
        Where the study lives: a path of a journal file, a database URL such as
        "sqlite:///tuning.db" or "postgresql://…", or None. Without it the study is in memory,
        or in the file STUDY.journal if `study` is given.
    study : str or None
        Name of the study. An existing one is carried on.
    batch_size : int or None
        Trials that are suggested together and run in lockstep; None is 4 for "auto", 1 for
        the paper's. The result depends on it, but not on `n_jobs`.
    n_jobs : int or None
        Folds evaluated at the same time, one thread each, as in joblib.
    random_state : int, RandomState or None
        Seeds the folds and the suggestions; a number is needed to resume.
    refit : bool
        Whether to train the answer on all rows; without it there is nothing to predict with.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    best_params_ : dict, settings of `PCEGPRegressor`
    best_score_ : float, mean of the leading objective over the folds. It is optimistic,
        because it is the best of many: see `pcegp.nested_cv`
    best_index_ : int, row in `cv_results_`
    best_estimator_ : PCEGPRegressor trained on all rows with `best_params_`
    ensemble_ : PCEGPMixture or None, what `predict` uses if there is one
    ensemble_params_ : list of dict, settings of its members, the best one first
    cv_results_ : dict of arrays, one entry per trial
    pareto_front_ : list of dict with "params" and the scores, for several objectives
    savings_ : dict, the Cholesky factorisations spent and those of the plain loop
    study_ : optuna.Study, all trials
    finals_ : optuna.Study or None, those that got more folds than the others
    n_splits_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from pcegp import PCEGPSearchCV
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> search = PCEGPSearchCV(n_trials=2, cv=3, ensemble=1).fit(x, np.sin(6 * x[:, 0]))
    >>> mean, std = search.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3.0)) < 0.05)
    True
    """

    def __init__(
        self,
        space: Any = "auto",
        *,
        objective: str | Sequence[str] | None = None,
        n_trials: int | None = None,
        timeout: float | None = None,
        cv: Any = None,
        ensemble: int | None = None,
        estimator: PCEGPRegressor | None = None,
        storage: Any = None,
        study: str | None = None,
        batch_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        refit: bool = True,
        verbose: bool = False,
    ) -> None:
        self.space = space
        self.objective = objective
        self.n_trials = n_trials
        self.timeout = timeout
        self.cv = cv
        self.ensemble = ensemble
        self.estimator = estimator
        self.storage = storage
        self.study = study
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.refit = refit
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Search on X (n, D) and y (n,), then train the answer on all rows.

        Rows of one group (n,) are never on both sides of a fold.
        """
        seed = self.seed()
        problem, n_trials = self._problem(X, y, groups, seed)
        self._dry_run(problem)
        with quiet_optuna():
            sampler = SlotSampler(problem.space, seed)
            self.study_, self.finals_ = study, finals = self._studies(problem, seed, sampler)
            _check_settings(problem, records_of(study))
            text = f"{{trials}} of {n_trials} trials, best {problem.lead} {{best:.4g}}"
            with bar(self.verbose, problem.n_fits(n_trials), "trainings", text,
                     best=np.nan, trials=0) as update:
                try:
                    search(problem, study, finals, sampler, n_trials, self.timeout, self.n_jobs,
                           update)
                except STORAGE_FAILURES as error:
                    raise lost(error) from error
                except KeyboardInterrupt:
                    if not finished(records_of(study, finals)):
                        raise  # nothing to keep
                    warn("the search was interrupted: this is its best so far", NumericalWarning)
        self._answer(problem, records_of(study, finals))
        if self.refit:
            self._train(X, y)
        return self

    def seed(self) -> int:
        """The number that seeds folds and suggestions."""
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def place(self) -> Any:
        """Where the study lives."""
        if self.storage is None and self.study is not None:
            return Path(f"{self.study}.journal")
        return self.storage

    def _problem(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, seed: int
    ) -> tuple[Problem, int]:
        """Everything checked, before anything is computed."""
        space = spaces.resolve(self.space)
        given = {"batch_size": self.batch_size, "n_trials": self.n_trials,
                 "ensemble": self.ensemble}
        changes: dict[str, Any] = {name: check_integer(name, value, 1)
                                   for name, value in given.items() if value is not None}
        space = replace(space, **changes)
        objectives = _objectives(space.objective if self.objective is None else self.objective)
        if self.timeout is not None:
            check_number("timeout", self.timeout, 0.0, open_low=True)
        check_numeric(X)
        check_targets(y)
        columns, target = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, ensure_all_finite=False
        )
        check_finite_inputs(columns, getattr(self, "feature_names_in_", None))
        target = np.asarray(target, dtype=np.float64)
        splits = make_splits(self.cv, columns, target, groups, seed)
        # A splitter of the user's own, or groups, may keep rows apart for a reason.
        exchangeable = groups is None and isinstance(self.cv, (int, np.integer, type(None)))
        problem = Problem(columns, target, splits, objectives, space, self._fixed(), exchangeable)
        return problem, space.n_trials

    def _fixed(self) -> dict[str, Any]:
        """What the base estimator sets, where it is not the default."""
        estimator = PCEGPRegressor() if self.estimator is None else self.estimator
        if not isinstance(estimator, PCEGPRegressor):
            raise SettingError(f"estimator={estimator!r} must be a PCEGPRegressor")
        default = inspect.signature(PCEGPRegressor).parameters
        fixed = {name: value for name, value in estimator.get_params(deep=False).items()
                 if name not in ("n_jobs", "verbose")
                 and plain(value) != plain(default[name].default)}
        return {"max_iter": estimator.max_iter} | fixed

    @staticmethod
    def _dry_run(problem: Problem) -> None:
        """Ask the space once, so that one that cannot work is refused before any training."""
        with quiet_optuna():
            trial = optuna.create_study(sampler=SlotSampler(problem.space, 0)).ask()
            suggested = problem.space.suggest(trial)
        if not isinstance(suggested, dict) or not suggested:
            raise SettingError("the space is empty: it must return settings of PCEGPRegressor")
        if not trial.params:
            raise SettingError("the space suggests nothing: there is nothing to search")
        known = PCEGPRegressor().get_params(deep=False)
        for name in suggested:
            if name not in known:
                raise unknown_name("a setting of the space", name, known)
        settings.resolve(known | problem.completed(suggested))

    def _studies(
        self, problem: Problem, seed: int, sampler: SlotSampler
    ) -> tuple[optuna.Study, optuna.Study | None]:
        """The study of all trials, and that of the finals if there are any."""
        storage, name = open_storage(self.place()), self.study or "pcegp"
        owner, n_objectives = self._owner(problem, seed), len(problem.objectives)
        study = open_study(storage, name, n_objectives, owner, sampler)
        if not problem.racing:
            return study, None
        return study, open_study(storage, f"{name} finals", n_objectives, owner, sampler)

    def _owner(self, problem: Problem, seed: int) -> dict[str, Any]:
        """What a study's trials belong to; another run must agree to carry it on."""
        suggest = problem.space.suggest
        name = f"{suggest.__module__}.{getattr(suggest, '__qualname__', type(suggest).__name__)}"
        return {
            "data": _digest(problem.X, problem.y),
            "folds": _digest(*(part for split in problem.splits for part in split)),
            "screen": _digest(*problem.screen[1]) if problem.racing else None,
            "n_folds": len(problem.splits),
            "objective": list(problem.objectives),
            "space": self.space if isinstance(self.space, str) else name,
            "batch_size": problem.space.batch_size,
            "seed": seed,
        }

    def _answer(self, problem: Problem, records: list[Record]) -> None:
        records = [record for record in records if record.state.is_finished()]
        lead = problem.lead
        best = best_of(records, lead)
        self.n_splits_ = len(problem.splits)
        self.cv_results_ = results_table(records, problem.objectives, self.n_splits_)
        self.savings_ = savings(records, self.n_splits_)
        self.best_index_ = records.index(best)
        self.best_score_ = best.mean(lead, lead)
        self.best_params_ = _final(problem, best, lead)
        space = problem.space
        members = members_of(records, lead, space.ensemble, space.starts)
        self.ensemble_params_ = drawn_once([_final(problem, record, lead) for record in members])
        self.pareto_front_ = [
            {"params": _final(problem, record, lead),
             **{name: record.mean(name, lead) for name in problem.objectives}}
            for record in pareto_front(records, problem.objectives)
        ]

    def _train(self, X: ArrayLike, y: ArrayLike) -> None:
        """Train the answer on all rows; a member that fails there is left out."""
        base = PCEGPRegressor() if self.estimator is None else self.estimator
        members = [clone(base).set_params(**params) for params in self.ensemble_params_]
        attempts = trained(members, X, y, self.n_jobs)
        best = attempts[0]
        if isinstance(best, Exception):
            raise best
        for attempt in attempts:
            if isinstance(attempt, Exception):
                warn(f"a member of the mixture failed on all rows and is left out: {attempt}",
                     NumericalWarning)
        kept = [i for i, attempt in enumerate(attempts) if isinstance(attempt, PCEGPRegressor)]
        self.ensemble_params_ = [self.ensemble_params_[i] for i in kept]
        self.best_estimator_ = best
        self.best_estimator_._warn_about_data(np.asarray(y, dtype=np.float64).reshape(-1, 1))
        mixture = PCEGPMixture([FrozenEstimator(attempts[i]) for i in kept])
        self.ensemble_ = mixture.fit(X, y) if len(kept) > 1 else None

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
    ) -> Any:
        """Predict by the ensemble, or by the best model; see `PCEGPRegressor.predict`."""
        check_is_fitted(self, "best_estimator_")
        model = self.best_estimator_ if self.ensemble_ is None else self.ensemble_
        return model.predict(X, return_std, return_cov, include_noise)


def _check_settings(problem: Problem, records: Sequence[Record]) -> None:
    """Refuse to carry on trials whose settings are not what this search would give them."""
    for record in records:
        if not record.settings:
            continue
        try:
            now = plain(problem.settings(optuna.trial.FixedTrial(record.parameters)))
        except Exception:  # a space of the user's own raises what it likes
            now = None
        if now != record.settings:
            raise StorageError(
                f"trial {record.number} of the study was made with another space or estimator: "
                "choose another name, or the same settings as before"
            )


def _final(problem: Problem, record: Record, lead: str) -> dict[str, Any]:
    """The settings of a trial at its best number of steps, as Python objects."""
    chosen = problem.settings(optuna.trial.FixedTrial(record.parameters))
    return {**chosen, "max_iter": record.step(lead), "checkpoints": ()}


def _objectives(objective: Any) -> tuple[str, ...]:
    if not isinstance(objective, (str, Sequence)):
        raise SettingError(f"objective={objective!r} must be a name or a list of names: "
                           f"{', '.join(OBJECTIVES)}")
    names = (objective,) if isinstance(objective, str) else tuple(objective)
    for name in names:
        if name not in OBJECTIVES:
            raise unknown_name("objective", name, OBJECTIVES)
    if not names or len(set(names)) < len(names):
        raise SettingError(f"objective={objective!r} must name each score once")
    return names


def _digest(*arrays: NDArray[Any]) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
