"""What a user calls the columns and rows of a table, and whether they stand in the same order."""

from collections.abc import Sequence
from typing import Any

from pcegp.errors import DataError, DataWarning, shown, warn

_LISTED = 5  # labels in one message


def names_of(estimator: Any) -> tuple[str, ...] | None:
    """Find the names of all columns that an estimator was given; None where there were none."""
    found = getattr(estimator, "feature_names_in_", None)
    if found is None:
        return None
    names = tuple(map(str, found))
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"the column name {name!a} is no text that can be written: rename the column"
            ) from None
    return names


def labels_of(X: Any) -> tuple[str, ...] | None:
    """Find what the columns of a frame are called where these are no texts, such as 10 and 20.

    scikit-learn forgets them. None for texts, which it keeps, for 0, 1, 2, …, which name nothing,
    and for what is no frame.
    """
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "shape"):
        return None
    texts = sum(isinstance(name, str) for name in columns)
    if 0 < texts < len(columns):
        raise DataError(
            "X has names of columns that are texts and others that are not: rename the columns, as "
            "by X.columns = X.columns.astype(str)"
        )
    labels = tuple(ascii(name) for name in columns)
    return None if texts or labels == _positions(len(labels)) else labels


def check_labels(known: tuple[str, ...] | None, X: Any) -> None:
    """Refuse a frame to predict at whose columns are those of the training in another order.

    Parameters
    ----------
    known : what `labels_of` found in training
    X : table to predict at
    """
    given = labels_of(X)
    if given == known or not hasattr(X, "columns") or any(isinstance(c, str) for c in X.columns):
        return
    now, then = (_positions(X.shape[1]) if labels is None else labels for labels in (given, known))
    if (given is not None and known is not None) or (now != then and set(now) == set(then)):
        raise DataError(
            f"X has the columns {_listed(now)}, and the training had {_listed(then)}: give these, "
            "in that order"
        )


def _positions(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _listed(labels: Sequence[str]) -> str:
    text = ", ".join(shown(label) for label in labels[:_LISTED])
    return text + (", …" if len(labels) > _LISTED else "")


def warn_about_order(X: Any, y: Any) -> None:
    """Warn where rows of X and y have the same labels in another order: only places count."""
    if not all(hasattr(getattr(table, "index", None), "equals") for table in (X, y)):
        return
    one, other = X.index, y.index
    if not one.equals(other) and one.is_unique and set(one) == set(other):
        warn("the rows of X and y have the same labels in another order, and the first row of X "
             "is taken with the first of y: pass y.loc[X.index] to go by the labels", DataWarning)
