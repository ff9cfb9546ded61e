"""Suggestions that depend on the study and the place of a trial, not on who asks.

Each trial has a slot: its place in a search that nobody disturbs. The sampler of a slot is
seeded by it. So a search that is stopped and started again makes the suggestions that it
would have made undisturbed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial

from pcegp.search.spaces import Space
from pcegp.search.storage import SLOT, free_slot

_ROUNDING = 1e-8  # of a number of steps


class SlotSampler(BaseSampler):
    """The starts of a space first, then random, then the tree-structured Parzen estimator."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self.repeat(None)
        self._prepare(0)

    def _seeded(self, slot: int) -> TPESampler:
        seed = int(np.random.SeedSequence([self._seed, slot]).generate_state(1)[0])
        return TPESampler(
            # By its place: Optuna's own count leaves out trials that failed.
            n_startup_trials=sys.maxsize if slot < self._space.n_random else 0,
            multivariate=self._space.multivariate,
            # In a batch, trials that still run must not all be asked for at one place.
            constant_liar=self._space.batch_size > 1,
            seed=seed,
        )

    def repeat(self, left: FrozenTrial | None) -> None:
        """What the next trial repeats: it gets that one's slot and parameters."""
        self._left = left

    def _prepare(self, slot: int) -> None:
        #: The slot of the trial that was asked for last.
        self.slot = slot
        self._tpe = self._seeded(slot)
        starts = self._space.starts
        start = starts[slot] if slot < len(starts) else {}
        self._fixed: Mapping[str, Any] = start if self._left is None else self._left.params

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Called when a trial is asked for, before any suggestion."""
        left = self._left
        self._prepare(free_slot(study, trial.number) if left is None else left.user_attrs[SLOT])

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {} if self._fixed else self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._tpe.sample_relative(study, trial, search_space) if search_space else {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        if param_name in self._fixed:
            value = self._fixed[param_name]
            if _offers(param_distribution, value):
                return value
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)


def _offers(distribution: Any, value: Any) -> bool:
    """Whether a start is in the space at all; a space of the user's own may lack it."""
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    if not isinstance(value, Real) or not distribution.low <= value <= distribution.high:
        return False
    steps = (value - distribution.low) / (distribution.step or 1)
    return distribution.step is None or abs(steps - round(steps)) < _ROUNDING
