"""Suggestions that depend on the study and the place of a trial, not on who asks.

Each trial has a slot: its number, not counting trials that a killed worker left behind.
The sampler of a slot is seeded by it. So a search that is stopped and started again makes
the suggestions that it would have made undisturbed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial

from pcegp.spaces import Space
from pcegp.studies import stale_marks


def slot_of(study: Study, number: int) -> int:
    """The place of a trial in an undisturbed search."""
    return number - sum(stale < number for stale in stale_marks(study))


class SlotSampler(BaseSampler):
    """The starts of a space first, then random, then the tree-structured Parzen estimator."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._tpe = self._seeded(0)
        self._fixed: Mapping[str, Any] = {}
        self.repeated: Mapping[str, Any] | None = None  # parameters for the next trial

    def _seeded(self, slot: int) -> TPESampler:
        seed = int(np.random.SeedSequence([self._seed, slot]).generate_state(1)[0])
        return TPESampler(
            n_startup_trials=self._space.n_random,
            multivariate=self._space.multivariate,
            # In a batch, trials that still run must not all be asked for at one place.
            constant_liar=self._space.batch_size > 1,
            seed=seed,
        )

    def _prepare(self, study: Study, number: int) -> None:
        slot = slot_of(study, number)
        self._tpe = self._seeded(slot)
        starts = self._space.starts
        fixed = starts[slot] if slot < len(starts) else {}
        self._fixed = fixed if self.repeated is None else self.repeated
        self.repeated = None

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        self._prepare(study, trial.number)
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
    return bool(distribution.low <= value <= distribution.high)
