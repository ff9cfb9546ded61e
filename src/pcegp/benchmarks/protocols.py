"""Methods on data sets, fold by fold, by the paper's protocol or an honest one.

paper   shuffled ten-fold cross-validation, repeated with other seeds; the paper's setup is
        tuned before, on ten folds of the same rows
honest  rows of equal inputs stay in one fold, and tuning sees the training folds only
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold

from pcegp import __version__, datasets
from pcegp._typing import FloatArray, IntArray
from pcegp.benchmarks.executors import workers
from pcegp.benchmarks.methods import METHODS, Budget
from pcegp.benchmarks.results_file import Key, ResultsFile, Row, key_of
from pcegp.errors import MissingPackageError, SettingError, StorageError
from pcegp.estimators import PCEGPRegressor, load
from pcegp.metrics import scores
from pcegp.search import PCEGPSearchCV

Split = tuple[IntArray, IntArray]

PROTOCOLS = ("paper", "honest")
#: The nine targets of the paper.
DATA = ("boston", "concrete", "yacht", "heating", "cooling", "airfoil", "wine_red", "wine_white",
        "slump")
_TUNED = "pcegp_paper"
_N_SPLITS = 10


@dataclass(frozen=True)
class Plan:
    """A plan of what to run."""

    protocol: str
    budget_name: str
    budget: Budget
    methods: Sequence[str]
    data: Sequence[str]
    folder: Path | None  # of the data
    out: Path
    shares_folder: bool = True  # with all who compute: they may keep studies and models there


def tasks(plan: Plan) -> Iterator[Row]:
    """List the keys of all rows of a plan; methods that take long come last."""
    # Seed 0 deals the folds that the paper's setup is tuned on.
    tunes = plan.budget.n_trials or plan.budget.n_repetitions > 1
    seeds = range(1, plan.budget.n_repetitions + 1) if tunes else (0,)
    for name in sorted(plan.methods, key=lambda name: METHODS[name].slow):
        n_folds = plan.budget.n_slow_folds if METHODS[name].slow else plan.budget.n_folds
        for data in plan.data:
            for seed in seeds:
                for fold in range(n_folds):
                    yield {"protocol": plan.protocol, "budget": plan.budget_name, "method": name,
                           "data": data, "seed": seed, "fold": fold}


def rows_of(name: str, plan: Plan) -> tuple[FloatArray, FloatArray, IntArray]:
    """Load inputs, target and groups of a data set, as many rows as the budget allows."""
    data = datasets.load(name, plan.folder)
    X, y, groups = data.X.to_numpy(), data.y.to_numpy(), data.groups
    most = plan.budget.n_white_rows if name == "wine_white" else None
    most = plan.budget.n_rows or most or len(y)
    if most < len(y):
        rows = np.sort(np.random.default_rng(0).choice(len(y), most, replace=False))
        X, y, groups = X[rows], y[rows], groups[rows]
    return X, y, groups


def splits(protocol: str, X: FloatArray, groups: IntArray, seed: int) -> list[Split]:
    """Deal the rows into ten folds."""
    if protocol == "honest":
        return list(GroupKFold(_N_SPLITS, shuffle=True, random_state=seed).split(X, None, groups))
    return list(KFold(_N_SPLITS, shuffle=True, random_state=seed).split(X))


def still_missing(plan: Plan, results: ResultsFile) -> list[Row]:
    """List the keys of rows that the file does not have."""
    return [task for task in tasks(plan) if results.get(key_of(task)) is None]


@dataclass(frozen=True)
class Call:
    """A row to be computed."""

    task: Row  # its key
    tuned: Any = None  # the paper's setup for its data
    saves_model: bool = False  # in a file, for the mixture that has it as its first member
    shared_seconds: float | None = None  # of its own first member, which is in such a file


def run(
    plan: Plan, results: ResultsFile, jobs: int, dask: str | None = None,
    progress: Callable[..., None] | None = None,
) -> None:
    """Compute every row that the file does not have, and append each as it comes.

    No other process may write to it meanwhile: see `ResultsFile.alone`.
    """
    with workers(jobs, dask) as spread:
        missing = still_missing(plan, results)
        tuned = _tuned(plan, missing, jobs)
        finished = 0
        for stage in _stages(plan, missing, tuned, results):
            for row in spread(partial(fold_row, plan), stage):
                results.append(row)
                finished += 1
                if "shared_seconds" in row:
                    _first_file(plan, row).unlink(missing_ok=True)
                if progress is not None:
                    progress(finished, last=f"{row['data']} {row['method']}")


def _stages(
    plan: Plan, missing: Sequence[Row], tuned: Mapping[str, Any], results: ResultsFile
) -> Iterator[list[Call]]:
    """Take the models of which mixtures are made first, so that none is trained twice."""
    wanted = {_first_key(task) for task in missing} if plan.shares_folder else set()
    yield [Call(task, saves_model=True) for task in missing if key_of(task) in wanted]
    rest = [task for task in missing if key_of(task) not in wanted]
    yield [Call(task, tuned.get(task["data"]) if task["method"] == _TUNED else None,
                shared_seconds=_shared_seconds(plan, task, results)) for task in rest]


def _first_key(task: Row) -> Key:
    """Name the row whose model is the first member of a mixture; no row for other methods."""
    return key_of({**task, "method": METHODS[task["method"]].first})


def _first_file(plan: Plan, task: Row) -> Path:
    """Name the file where that model waits for the mixture, also for that of a later run."""
    parts = (plan.budget_name, plan.protocol, task["data"], task["seed"], task["fold"])
    return plan.out.resolve() / f"first-{'-'.join(map(str, parts))}.pcegp"


def _shared_seconds(plan: Plan, task: Row, results: ResultsFile) -> float | None:
    first = results.get(_first_key(task))
    if first is None or not plan.shares_folder or not _first_file(plan, task).exists():
        return None
    return float(first["seconds"])


def fold_row(plan: Plan, call: Call) -> Row:
    """Compute one fold by one method."""
    try:
        return _fold_row(plan, call)
    except MissingPackageError:
        raise
    except ImportError as error:  # a package that is there, but cannot be loaded
        label = METHODS[call.task["method"]].label
        raise SettingError(f"{label} cannot run here: {error}; install pcegp[bench] again, or "
                           "choose others by --methods") from error


def _fold_row(plan: Plan, call: Call) -> Row:
    model = _model(plan, call)
    file = _first_file(plan, call.task)
    if call.shared_seconds is not None:
        model.set_params(estimators=[FrozenEstimator(load(file)), *model.estimators[1:]])
    row = _scored(plan, call.task, model)
    if call.saves_model and "error" not in row:
        model.save(file)
    if call.shared_seconds is not None:  # told, so that they are not counted twice
        row |= {"seconds": row["seconds"] + call.shared_seconds,
                "shared_seconds": call.shared_seconds}
    return row


def _scored(plan: Plan, task: Row, model: Any) -> Row:
    """Score a model on a fold, or say why there are no scores."""
    X, y, groups = rows_of(task["data"], plan)
    train, test = splits(plan.protocol, X, groups, task["seed"])[task["fold"]]
    row = {**task, "n_train": len(train), "n_test": len(test),
           "n_known": datasets.n_rows(task["data"]), "version": __version__,
           "date": datetime.now(UTC).date().isoformat(), "machine": machine()}
    own = ({"groups": groups[train]} if plan.protocol == "honest"
           and "groups" in signature(model.fit).parameters else {})
    begin = perf_counter()
    with warnings.catch_warnings(action="ignore"):
        try:
            model.fit(X[train], y[train], **own)
            mean, std = model.predict(X[test], return_std=True)
        except (ImportError, StorageError, OSError, MemoryError):
            raise  # of this machine, not of the method
        except Exception as error:  # other libraries raise whatever they like
            if "allocate memory" in str(error):  # Torch's words, in a RuntimeError
                raise MemoryError(str(error)) from error
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            return {**row, "seconds": perf_counter() - begin, "error": reason}
    _refuse_interrupted(model)
    row |= {"seconds": perf_counter() - begin,
            "n_bad_variances": getattr(model, "n_bad_variances_", 0),
            **{name: getattr(model, name) for name in METHODS[task["method"]].tells}}
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        return {**row, "error": "predictions are not finite"}
    return {**row, **scores(y[test], mean, std)}


def _model(plan: Plan, call: Call) -> Any:
    """Make a model for a fold; a search inside it has a study of its own, to be carried on."""
    task = call.task
    seed, fold = task["seed"], task["fold"]
    if call.tuned is None:
        return METHODS[task["method"]].make(plan.budget, _N_SPLITS * seed + fold)
    model = clone(call.tuned)
    if isinstance(model, PCEGPSearchCV) and plan.shares_folder:
        name = f"search-{plan.budget_name}-honest-{task['data']}-{seed}-{fold}.journal"
        model.set_params(storage=plan.out.resolve() / name)
    return model


def _refuse_interrupted(model: Any) -> None:
    """Refuse what was trained until Ctrl-C: here it must not pass for the whole."""
    if isinstance(model, PCEGPSearchCV):
        interrupted = len(model.cv_results_["params"]) < (model.n_trials or 0)
    else:
        interrupted = isinstance(model, PCEGPRegressor) and model.was_interrupted()
    if interrupted:
        raise KeyboardInterrupt


def machine() -> str:
    """Tell how large this machine is."""
    text = f"{os.cpu_count()} cores"
    with suppress(AttributeError, ValueError, OSError):  # not all systems tell
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        text += f", {memory / 2**30:.0f} GB"
    return text


def _tuned(plan: Plan, missing: Sequence[Row], jobs: int) -> dict[str, Any]:
    """Tune the paper's setup for each data set that needs it, if the budget allows a search."""
    if not plan.budget.n_trials:
        return {}
    models: dict[str, Any] = {}
    for name in dict.fromkeys(task["data"] for task in missing if task["method"] == _TUNED):
        space = "paper_wine" if name.startswith("wine") else "paper"
        search = PCEGPSearchCV(space=space, n_trials=plan.budget.n_trials, ensemble=1)
        if plan.protocol == "honest":
            models[name] = search
            continue
        X, y, _ = rows_of(name, plan)
        search.set_params(
            storage=plan.out / f"search-{plan.budget_name}-{name}.journal", n_jobs=jobs,
            refit=False, verbose=True,
        ).fit(X, y)
        _refuse_interrupted(search)
        models[name] = PCEGPRegressor(**search.best_params_, n_jobs=1)
    return models
