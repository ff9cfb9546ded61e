"""Suggestions that depend on the seed and the position of a trial, not on who asks, or when.

A batch is suggested in a study of its own in memory. It holds, for every trial of earlier
batches, the score on the splits that all trials have; so Optuna's Parzen estimator compares
like with like, although the trials themselves go on and end with different numbers of folds.
Trials of the same batch stand in it as running, also if they are finished by now: so a search
that was stopped and started again makes the suggestions that it would have made undisturbed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from pcegp.search.problem import Problem
from pcegp.search.trials import POSITION, REASON, SETTINGS, TrialRecord, plain


def suggest(
    problem: Problem, records: Sequence[TrialRecord], positions: Iterable[int]
) -> Iterator[FrozenTrial]:
    """Make new trials for positions in one batch, to be put into the study whole.

    A trial has its settings and waits, or it has failed because the space has.
    """
    study = None
    for position in positions:
        study = study or study_before(problem, records, position)
        study.sampler = problem.space.sampler(position, problem.seed)
        trial = study.ask()
        attributes: dict[str, Any] = {POSITION: position}
        try:
            attributes[SETTINGS] = plain(problem.settings(trial))
            state = TrialState.WAITING
        except Exception as error:  # a space of the user's own: one branch of it may be wrong
            attributes[REASON] = f"{type(error).__name__}: {error}"
            state = TrialState.FAIL
            study.tell(trial, state=state)
        yield create_trial(state=state, params=trial.params, distributions=trial.distributions,
                           user_attrs=trial.user_attrs | attributes)


def study_before(
    problem: Problem, records: Sequence[TrialRecord], position: int
) -> optuna.Study:
    """Make a study in memory with what a suggestion for that position may know."""
    study = optuna.create_study(directions=["minimize"] * len(problem.objectives))
    batch = position // problem.space.batch_size * problem.space.batch_size
    for record in records:
        if record.position < position:
            known: dict[str, Any] = {"params": record.parameters,
                                     "distributions": record.distributions}
            if record.outcome == "fail":
                known["state"] = TrialState.FAIL
            elif record.position >= batch or record.outcome == "running":
                known["state"] = TrialState.RUNNING
            else:
                known["values"] = record.first_scores(problem.objectives)
            study.add_trial(create_trial(**known))
    return study
