"""The search as a scikit-learn estimator."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
import optuna
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from pcegp._kinds import journal_of
from pcegp._progress import bar
from pcegp._typing import FloatArray
from pcegp.errors import NumericalWarning, PCEGPError, SettingError, shown, unknown_name, warn
from pcegp.estimators import (
    Composite,
    PCEGPMixture,
    PCEGPRegressor,
    Scored,
    checked_state,
    default_noise_delay,
    drawn_once,
    resolve,
    trained,
)
from pcegp.preprocessing import validation
from pcegp.search import results, spaces
from pcegp.search.coordinator import Coordinator
from pcegp.search.loop import Show, run_rungs
from pcegp.search.problem import Problem, make_problem
from pcegp.search.racing import most_fits
from pcegp.search.storage import (
    Address,
    checked_place,
    open_study,
    quiet_optuna,
    without_password,
)
from pcegp.search.trials import TrialRecord, plain, records_of


class PCEGPSearchCV(Composite, MetaEstimatorMixin, Scored, BaseEstimator):
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
        Mean over the folds, to be minimised. With several, the first one decides about
        `best_params_`, and `pareto_front_` has the front of all. None takes what suits the
        space ("crps" for "auto", "rmse" for the paper's).
    n_trials : int or None
        Trials in the study, those of earlier runs included; None takes 40 for "auto" and 200
        for the paper's.
    timeout : float or None
        Begin nothing new after this many seconds. In a race half of the time is for new trials,
        the rest for more folds of the best.
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
        or in the file STUDY.journal if `study` is given. Several processes may share a database;
        a journal belongs to one at a time.
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
    best_score_ : float, mean of the first objective over the folds. It is optimistic,
        because it is the best of many: see `pcegp.nested_cv`
    best_index_ : int, row in `cv_results_`
    best_estimator_ : PCEGPRegressor trained on all rows with `best_params_`
    ensemble_ : PCEGPMixture or None, what `predict` uses if there is one
    ensemble_params_ : list of dict, settings of its members, the best one first
    cv_results_ : dict of arrays, one entry per trial
    pareto_front_ : list of dict with "params" and the scores, for several objectives
    savings_ : dict, the Cholesky factorisations spent and those of the plain loop
    study_ : optuna.Study, all trials: COMPLETE with all folds, PRUNED with fewer, or FAIL
    n_splits_ : int
    interrupted_ : bool, whether Ctrl-C ended the search before its time

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

    @property
    def storage(self) -> Any:
        """The place of the study; an address is printed without its password."""
        return self.__dict__["storage"]

    @storage.setter
    def storage(self, value: Any) -> None:
        if type(value) is str and without_password(value) != value:
            value = Address(value)
        self.__dict__["storage"] = value

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Search on X (n, D) and y (n,), then train the answer on all rows.

        Rows of one group (n,) are never on both sides of a fold.
        """
        return self._fit(X, y, groups, None)

    def _fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, names: Sequence[str] | None
    ) -> Self:
        # A search that fails must not leave an old answer behind.
        for name in [name for name in vars(self) if name.endswith("_")]:
            del self.__dict__[name]
        place, name = self.place(), self.study or "pcegp"
        problem = self._problem(X, y, groups, names)
        n_trials = problem.space.n_trials
        with quiet_optuna():
            self._dry_run(problem)
            with open_study(place, name, problem.identity()) as (study, storage):
                problem.refuse_other_settings(records_of(study))
                self.interrupted_ = False
                try:
                    with (Coordinator(study, storage) as coordinator,
                          _shown(self.verbose, problem, n_trials) as show):
                        run_rungs(problem, coordinator, n_trials, self.timeout, self.n_jobs, show)
                except KeyboardInterrupt:
                    if not results.complete(records_of(study)):
                        raise  # nothing to keep
                    self.interrupted_ = True
                    warn("the search was interrupted: this is its best so far", NumericalWarning)
                self.study_ = study
                self._answer(problem, records_of(study))
        if self.refit:
            self._train(X, y, names)
        return self

    def seed(self) -> int:
        """Find the number that seeds folds and suggestions."""
        state = checked_state(self.random_state)
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(state.randint(2**31 - 1))

    def place(self) -> Any:
        """Find where the study is kept: the storage, or a journal file of its name."""
        if self.study is not None and not (isinstance(self.study, str) and self.study):
            raise SettingError(f"study={self.study!r} must be a text of one letter or more, or "
                               "None")
        if self.storage is None and self.study is not None:
            return journal_of(self.study)
        return checked_place(self.storage)

    def _problem(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None,
        names: Sequence[str] | None = None,
    ) -> Problem:
        """Check everything, before anything is computed; columns of an array may have names."""
        space = spaces.resolve(self.space)
        validation.check_jobs("n_jobs", self.n_jobs)
        given = {"batch_size": self.batch_size, "n_trials": self.n_trials,
                 "ensemble": self.ensemble}
        changes: dict[str, Any] = {name: validation.check_integer(name, value, 1)
                                   for name, value in given.items() if value is not None}
        if self.timeout is not None:
            validation.check_number("timeout", self.timeout, 0.0, open_low=True)
        validation.check_numeric(X)
        validation.check_targets(y)
        labels = validation.labels_of(X)
        with np.errstate(over="ignore"):  # of wider numbers; infinity is refused below
            columns, target = validate_data(
                self, X, y, dtype=np.float64, y_numeric=True, ensure_all_finite=False
            )
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        validation.check_finite_inputs(columns, validation.names_of(self) or labels)
        validation.warn_about_order(X, y)
        suggest = space.suggest
        own = f"{suggest.__module__}.{getattr(suggest, '__qualname__', type(suggest).__name__)}"
        return make_problem(
            columns, np.asarray(target, dtype=np.float64), groups, self.cv, self.seed(),
            objective=self.objective, space=replace(space, **changes),
            space_name=self.space if isinstance(self.space, str) else own, fixed=self._fixed(),
        )

    def _fixed(self) -> dict[str, Any]:
        """Collect the settings of the base estimator that are not the defaults."""
        estimator = PCEGPRegressor() if self.estimator is None else self.estimator
        if not isinstance(estimator, PCEGPRegressor):
            raise SettingError(f"estimator={shown(repr(estimator))} must be a PCEGPRegressor")
        signature = inspect.signature(PCEGPRegressor).parameters
        default = plain({name: signature[name].default for name in signature})
        values = estimator.get_params(deep=False)
        texts = plain(values)
        fixed = {name: value for name, value in values.items()
                 if name not in ("n_jobs", "verbose") and texts[name] != default[name]}
        return {"max_iter": estimator.max_iter} | fixed

    @staticmethod
    def _dry_run(problem: Problem) -> None:
        """Ask the space once, so that one that cannot work is refused before any training."""
        trial = optuna.create_study(sampler=problem.space.sampler(0, problem.seed)).ask()
        try:
            suggested = problem.space.suggest(trial)
        except PCEGPError:
            raise
        except Exception as error:  # a space of the user's own raises what it likes
            raise SettingError(
                f"the space raised {type(error).__name__}: {error}; no trial was made"
            ) from error
        if not isinstance(suggested, dict) or not suggested:
            raise SettingError("the space is empty: it must return settings of PCEGPRegressor")
        if not trial.params:
            raise SettingError("the space suggests nothing: there is nothing to search")
        known = PCEGPRegressor().get_params(deep=False)
        for name in suggested:
            if name not in known:
                raise unknown_name("a setting of the space", name, known)
        resolve(known | problem.completed(suggested))

    def _answer(self, problem: Problem, records: list[TrialRecord]) -> None:
        records = [record for record in records if record.outcome != "running"]
        primary, space = problem.primary, problem.space
        best = results.best_of(records, primary)
        self.n_splits_ = problem.n_folds
        self.cv_results_ = results.results_table(records, primary)
        self.savings_ = results.savings(records)
        self.best_index_ = records.index(best)
        self.best_score_ = best.mean(primary)
        self.best_params_ = _final(problem, best)
        members = results.choose_members(records, primary, space.ensemble, space.starts)
        self.ensemble_params_ = drawn_once([_final(problem, record) for record in members])
        self.pareto_front_ = [
            {"params": _final(problem, record),
             **dict(zip(problem.objectives, record.means(problem.objectives), strict=True))}
            for record in results.pareto_front(self.study_, records)
        ]

    def _train(self, X: ArrayLike, y: ArrayLike, names: Sequence[str] | None) -> None:
        """Train the answer on all rows; a member that fails there is left out."""
        base = PCEGPRegressor() if self.estimator is None else self.estimator
        members = [clone(base).set_params(**params) for params in self.ensemble_params_]
        attempts = trained(members, X, y, self.n_jobs, self.verbose, names)
        best = attempts[0]
        if isinstance(best, Exception):
            raise best
        for attempt in attempts:
            if isinstance(attempt, Exception):
                warn(f"a member of the mixture failed on all rows and is left out: {attempt}",
                     NumericalWarning)
        good = [i for i, attempt in enumerate(attempts) if isinstance(attempt, PCEGPRegressor)]
        self.ensemble_params_ = [self.ensemble_params_[i] for i in good]
        self.best_estimator_ = best
        found = best.model_
        constant = found.inputs.constant_columns(found.names or found.labels)
        validation.warn_about_data(constant, np.asarray(y, dtype=np.float64).reshape(-1, 1))
        mixture = PCEGPMixture([FrozenEstimator(attempts[i]) for i in good])
        self.ensemble_ = mixture.fit(X, y) if len(good) > 1 else None

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
    ) -> Any:
        """Predict by the ensemble, or by the best model; see `PCEGPRegressor.predict`."""
        return self._predictor().predict(X, return_std, return_cov, include_noise)

    def _predictor(self) -> PCEGPMixture | PCEGPRegressor:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_ if self.ensemble_ is None else self.ensemble_

    def members(self) -> list[PCEGPRegressor]:
        """List the models that predict, the best one first."""
        answer = self._predictor()
        return answer.members() if isinstance(answer, PCEGPMixture) else [answer]

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions by the ensemble, or by the best model; see `PCEGPMixture.sample_y`."""
        return self._predictor().sample_y(X, n_samples, random_state, include_noise)

    def predict_interval(
        self, X: ArrayLike, coverage: float = 0.95, n_folds: int = 5
    ) -> tuple[FloatArray, FloatArray]:
        """Compute intervals that cover new values as often as they say, however wrong the model.

        The answer is trained again without each fold, with the settings that the search has
        found; nothing is searched again. See `PCEGPRegressor.predict_interval`.
        """
        return self._predictor().predict_interval(X, coverage, n_folds)


def search_named(
    search: PCEGPSearchCV, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None,
    names: Sequence[str] | None,
) -> PCEGPSearchCV:
    """Search on columns of an array that have names."""
    return search._fit(X, y, groups, names)


def _final(problem: Problem, record: TrialRecord) -> dict[str, Any]:
    """Make the settings of a trial at its best number of steps, as Python objects."""
    chosen = problem.settings_of(record.parameters)
    # It belongs to the training that was scored, which may have gone on for longer.
    delay = chosen.get("noise_delay")
    if delay is None:
        delay = default_noise_delay(chosen["max_iter"])
    return {**chosen, "noise_delay": delay, "max_iter": record.step(problem.primary),
            "checkpoints": ()}


@contextmanager
def _shown(verbose: bool, problem: Problem, n_trials: int) -> Iterator[Show | None]:
    """Yield a callable that moves the progress bar to where the trials are, if there is one."""
    primary = problem.primary
    text = f"{{trials}} of {n_trials} trials, best {primary} {{best:.4g}}"
    with bar(verbose, most_fits(n_trials, problem.rungs), "trainings", text,
             best=None, trials=0) as update:

        if update is None:
            yield None
            return

        def show(records: Sequence[TrialRecord], n_more: int) -> None:
            n_fits = results.savings(records)["n_fits"] + n_more
            if n_more:
                update(n_fits)
                return
            update(n_fits, trials=sum(record.outcome != "running" for record in records),
                   best=min((r.mean(primary) for r in results.complete(records)), default=None))

        yield show
