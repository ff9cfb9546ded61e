"""Nested cross-validation: scores of whole searches on rows that they never saw."""

import warnings
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from pcegp._typing import FloatArray
from pcegp.errors import ExtrapolationWarning, SettingError
from pcegp.metrics import scores
from pcegp.preprocessing import validation
from pcegp.search.estimator import PCEGPSearchCV
from pcegp.search.problem import make_splits


def nested_cv(
    search: PCEGPSearchCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
) -> dict[str, FloatArray]:
    """Score whole searches, each on an outer fold that it never saw.

    `search.best_score_` is the best of many and so too good; this is what to expect of new
    rows. It costs one search per outer fold.

    Parameters
    ----------
    search : PCEGPSearchCV
        Not changed; if it has a study, each outer fold gets one of its own beside it, so
        that a nested run can be resumed as well.
    cv : int, splitter or None
        Outer folds; None is 10, shuffled by the search's random state.
    groups : (n,) or None
        Rows of one group are never on both sides of an outer or an inner fold.

    Returns
    -------
    table : dict of (k,) arrays
        "MAE", "MedAE", "MSE", "RMSE", "R2", "NLL", "CRPS", "coverage95" and "seconds" of each
        outer fold.

    Examples
    --------
    >>> import numpy as np
    >>> from pcegp import PCEGPSearchCV, nested_cv
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> search = PCEGPSearchCV(n_trials=1, cv=2)
    >>> table = nested_cv(search, x, np.sin(6 * x[:, 0]), cv=2)
    >>> table["RMSE"].shape
    (2,)
    """
    if not isinstance(search, PCEGPSearchCV):
        raise SettingError(f"nested_cv takes a PCEGPSearchCV, not {type(search).__name__}: for a "
                           "model, use scikit-learn's cross_validate")
    validation.check_targets(y)
    target = np.asarray(y, dtype=np.float64)
    members = None if groups is None else np.asarray(groups)
    rows = []
    for k, (train, test) in enumerate(make_splits(cv, X, target, groups, search.seed())):
        begin = perf_counter()
        inner = clone(search)
        if search.place() is not None:
            name = f"{search.study or 'pcegp'}-outer{k}"
            inner.set_params(study=name, storage=search.place())
        inner.fit(_safe_indexing(X, train), target[train],
                  None if members is None else members[train])
        with warnings.catch_warnings(action="ignore", category=ExtrapolationWarning):
            mean, std = inner.predict(_safe_indexing(X, test), return_std=True)
        rows.append(scores(target[test], mean, std) | {"seconds": perf_counter() - begin})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
