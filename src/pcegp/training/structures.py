"""Structures that the evidence chooses from, and how candidates are ranked and weighed.

Of each form (covariance functions, map, noise) the strength of the largest evidence is kept.
Evidences are approximations, and data are never quite what a model says. So a form weighs
exp(log evidence / temperature), and those that weigh enough are averaged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any, NamedTuple, Self

import numpy as np

from pcegp._typing import FloatArray
from pcegp.training.evidence import Evidence
from pcegp.training.latent import Block, Strengths
from pcegp.training.quasi_newton import Optimum

_MOST_MEMBERS, _LEAST_WEIGHT = 6, 0.04


class Form(NamedTuple):
    """The part of a structure that makes a process; its strengths make the prior."""

    covariance: tuple[str, ...]
    input_map: str
    noise_degree: int
    target_bend: float = 0.0  # of the map of the target; 0 is none


class Structure(NamedTuple):
    """A form and the strengths of its prior: the unit that the evidence judges."""

    form: Form
    strengths: Strengths

    def with_noise(self, degree: int, penalty: float) -> Self:
        """Change the model of the noise."""
        return self._replace(form=self.form._replace(noise_degree=degree),
                             strengths=self.strengths._replace(noise_penalty=penalty))


@dataclass(frozen=True)
class Candidate:
    """A structure with its parameters, and what speaks for it."""

    structure: Structure
    theta: FloatArray
    optimum: Optimum
    evidence: Evidence
    blocks: Mapping[str, Block]  # what its latent variables are
    of_target: float = 0.0  # log slopes of the target's map at the compared rows, and its prior

    @property
    def log_evidence(self) -> float:
        """The log evidence of the target itself, minus infinity where there is none."""
        return self.evidence.log_evidence + self.of_target

    def as_dict(self, weight: float) -> dict[str, Any]:
        """Describe the candidate for the user; infinity is None."""
        strengths = self.structure.strengths
        return {
            "covariance": list(self.structure.form.covariance),
            "input_map": self.structure.form.input_map,
            "noise_degree": self.structure.form.noise_degree,
            "target_bend": self.structure.form.target_bend,
            "penalty": _finite(strengths.penalty),
            "noise_penalty": _finite(strengths.noise_penalty),
            "varying": None if strengths.varying is None else list(strengths.varying),
            "log_evidence": _finite(self.log_evidence),
            "weight": weight,
            "converged": self.optimum.is_reached,
        }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


class Choices(NamedTuple):
    """The alternatives for each part of a structure; one of each leaves no choice."""

    covariances: tuple[tuple[str, ...], ...]
    input_maps: tuple[str, ...]
    penalties: tuple[float, ...]  # of the scale's expansions; infinity is a stationary model
    noises: tuple[tuple[int, float], ...]  # degrees and strengths of the noise's expansion
    noise_is_known: bool
    bends: tuple[float, ...] = ()  # of maps of the target, besides none

    def first(self) -> "Choices":
        """Leave no choice."""
        return Choices(self.covariances[:1], self.input_maps[:1], self.penalties[:1],
                       self.noises[:1], self.noise_is_known)


def ordered(found: Iterable[Candidate]) -> list[Candidate]:
    """Sort candidates by their evidence, the best first."""
    return sorted(found, key=lambda each: -each.log_evidence)


def best_of_each_form(found: Iterable[Candidate]) -> list[Candidate]:
    """Keep the strength of the largest evidence for each form; the best form first."""
    best: dict[Form, Candidate] = {}
    for each in ordered(found):
        best.setdefault(each.structure.form, each)
    return list(best.values())


def weighed(
    found: Sequence[Candidate], temperature: float
) -> tuple[list[Candidate], FloatArray]:
    """Choose the candidates that are averaged, the best first, with their weights."""
    ordered = best_of_each_form(found)
    best = ordered[0].log_evidence
    if not isfinite(best):  # no optimum was reached
        return [min(found, key=lambda each: each.optimum.loss)], np.ones(1)
    weights = np.array([exp((each.log_evidence - best) / temperature) for each in ordered])
    # What is little weight is taken off all, so that no member comes or goes with a jump.
    weights = np.maximum(weights / weights.sum() - _LEAST_WEIGHT, 0.0)[:_MOST_MEMBERS]
    members = [each for each, weight in zip(ordered, weights, strict=False) if weight > 0.0]
    weights = weights[: len(members)]
    return members, weights / weights.sum()
