"""Models of tables: what `fit`, `tune`, `predict` and `evaluate` have in common.

A model that was fitted on a table remembers how its columns became numbers (`encoding_`),
and keeps that in its file.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import DataError, shown
from pcegp.estimators import PCEGPMixture, PCEGPRegressor, load, members_of
from pcegp.io import Encoding, category_note, listed

Model = PCEGPRegressor | PCEGPMixture

_FAR = 1.0  # widths of the training range beyond its ends


def keep_encoding(model: Model, encoding: Encoding) -> None:
    """Let a fitted model remember its table."""
    for part in {model, *members_of(model)}:
        part.encoding_ = encoding


def load_for_table(path: Path) -> tuple[Model, Encoding]:
    """Load a model from a file, with the encoding of its tables."""
    model = load(path)
    encoding = getattr(model, "encoding_", None)
    if encoding is None:
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            raise DataError(
                f"{shown(path, 1000)} does not know the names of its columns: fit it by pcegp "
                "fit, or on a frame with named columns"
            )
        encoding = Encoding("", tuple(map(str, names)))
    if not members_of(model)[0].model_.one_output:
        raise DataError(f"{shown(path, 1000)} has several outputs: use it from Python")
    return model, encoding


class RangeCheck:
    """A count of rows unlike those of the training, block by block.

    Counted are rows outside the training range, values far outside, and missing categories.
    """

    def __init__(self, model: Model, names: list[str]) -> None:
        inputs = members_of(model)[0].model_.inputs
        self.names = [name for name, active in zip(names, inputs.active, strict=True) if active]
        self._active = inputs.active
        ends = np.sort(inputs.inverse(np.vstack([inputs.lower, inputs.upper])), axis=0)
        self._lower, self._upper = ends[:, inputs.active]
        self.rows = 0
        self.outside = 0
        width = len(self.names)
        self._far = np.zeros(width, dtype=np.int64)
        self._farthest = np.full(width, np.nan)
        self._encoding: Encoding | None = getattr(model, "encoding_", None)
        self._no_category: Counter[str] = Counter()

    def add(self, X: FloatArray) -> None:
        """Look at some rows (m, D)."""
        if self._encoding is not None:
            self._no_category.update(self._encoding.without_category(X))
        lower, upper = self._lower, self._upper
        values = X[:, self._active]
        slack = 1e-9 * (upper - lower)
        beyond = np.maximum(lower - slack - values, values - upper - slack)
        self.rows += len(X)
        self.outside += int((beyond > 0).any(axis=1).sum())
        far = beyond > _FAR * (upper - lower)
        self._far += far.sum(axis=0)
        for j in np.flatnonzero(far.any(axis=0)):
            self._farthest[j] = values[np.argmax(beyond[:, j]), j]

    def figures(self) -> dict[str, Any]:
        """Give the counts, for JSON."""
        far = {self.names[j]: int(self._far[j]) for j in np.flatnonzero(self._far)}
        return {"rows": self.rows, "outside_training_range": self.outside,
                "far_outside_training_range": far, "without_category": dict(self._no_category)}

    def notes(self) -> list[str]:
        """Say what the user should know."""
        lower, upper = self._lower, self._upper
        notes = [
            f"column {listed([self.names[j]])} is far outside its training range {lower[j]:.4g} to "
            f"{upper[j]:.4g} in {self._far[j]} rows (such as {self._farthest[j]:.4g}): is it in "
            "another unit?"
            for j in np.flatnonzero(self._far)
        ]
        if self.outside:
            notes.append(f"{self.outside} of {self.rows} rows lie outside the range of the "
                         "training inputs: their intervals rest on the prior")
        if self._no_category:
            notes.append(category_note(self._no_category))
        return notes


def ignored_columns(block_names: tuple[str, ...], encoding: Encoding) -> list[str]:
    """List the columns of a table that the model does not use."""
    used = {*encoding.features, encoding.target}
    return [name for name in block_names if name not in used]

