"""What is searched: the data and their folds, the objectives, and the space of settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pcegp.search import racing
from pcegp.search.evaluation import Split
from pcegp.search.spaces import Space
from pcegp.search.trials import SCREEN

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A search, before its first trial; the first of the objectives leads."""

    X: FloatArray
    y: FloatArray
    splits: Sequence[Split]
    objectives: tuple[str, ...]
    space: Space
    fixed: dict[str, Any]  # settings of the base estimator, where the space is silent
    exchangeable: bool = False  # whether any rows may be scored by a model of any others

    def settings(self, trial: BaseTrial) -> dict[str, Any]:
        """All settings of a trial."""
        return self.completed(self.space.suggest(trial))

    def completed(self, suggested: dict[str, Any]) -> dict[str, Any]:
        """Settings with those that the space leaves open."""
        settings = self.fixed | suggested
        # It must not depend on the checkpoint that is chosen later.
        settings.setdefault("noise_delay", min(200, settings["max_iter"] // 2))
        return settings

    @property
    def lead(self) -> str:
        """The objective that decides."""
        return self.objectives[0]

    @property
    def racing(self) -> bool:
        # With several objectives no trial is hopeless before its last fold.
        return self.space.racing and len(self.objectives) == 1

    @cached_property
    def screen(self) -> tuple[int, Split]:
        """Number and rows of what all trials of a race are scored on first."""
        own = racing.screen_of(self.splits, self.exchangeable)
        return (0, self.splits[0]) if own is None else (SCREEN, own)

    @property
    def explored_on(self) -> Sequence[int]:
        """Numbers of the folds, or of the screen, that every trial is scored on."""
        return [self.screen[0]] if self.racing else range(len(self.splits))

    def split(self, number: int) -> Split:
        """Rows of a fold, or of the screen."""
        return self.screen[1] if number == SCREEN else self.splits[number]

    def n_fits(self, n_trials: int) -> int:
        """At most so many trainings for that many trials."""
        n_folds = len(self.splits)
        if not self.racing:
            return n_trials * n_folds
        return n_trials + racing.most_fits(n_trials, n_folds, shared=self.screen[0] == 0)
