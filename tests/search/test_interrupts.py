"""Ctrl-C in a search: what was found is kept, and nothing half trained passes for a result."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest
from sklearn.exceptions import NotFittedError

from pcegp import PCEGPSearchCV
from pcegp.errors import NumericalWarning
from pcegp.training.optimiser import Descent
from small_search import SMALL, X, Y, outcome, quick, same, small

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_the_best_so_far_and_the_rest_is_repeated(fitted, tmp_path):
    file = tmp_path / "study.journal"

    def interrupting(trial):
        if trial.number == 6:  # in the second batch
            os.kill(os.getpid(), signal.SIGINT)
        return small(trial)

    interrupting.__module__, interrupting.__qualname__ = small.__module__, small.__qualname__
    space = replace(SMALL, suggest=interrupting)
    with pytest.warns(NumericalWarning, match="interrupted"):
        stopped = quick(space=space, storage=file).fit(X, Y)
    assert len(stopped.cv_results_["params"]) == 4
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_an_answer_where_the_first_trial_failed():
    calls = []

    def interrupting(trial):
        settings = small(trial)
        calls.append(trial)
        if len(calls) == 2:  # the dry run was the first
            raise RuntimeError("not this one")
        if trial.number == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return settings

    with pytest.warns(NumericalWarning, match="interrupted"):
        stopped = quick(space=replace(SMALL, suggest=interrupting)).fit(X, Y)
    assert list(stopped.cv_results_["state"][:2]) == ["fail", "complete"]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("step", [3, 60])
def test_an_interrupt_in_a_training_keeps_no_half_trained_score(
    fitted, tmp_path, monkeypatch, step
):
    file, iterate, count = tmp_path / "study.journal", Descent._see, []

    def interrupting(self, *seen):
        count.append(1)
        if len(count) == step:
            os.kill(os.getpid(), signal.SIGINT)
        iterate(self, *seen)

    with monkeypatch.context() as patch:
        patch.setattr(Descent, "_see", interrupting)
        with pytest.raises(KeyboardInterrupt):  # before a trial was whole
            quick(storage=file).fit(X, Y)
    assert same(outcome(quick(storage=file).fit(X, Y)), outcome(fitted))


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_refit_is_not_an_answer(monkeypatch):
    train, iterate = PCEGPSearchCV._train, Descent._see

    def interrupting(self, *seen):
        iterate(self, *seen)
        if self.iterations == 2:
            os.kill(os.getpid(), signal.SIGINT)

    def refit(*args, **named):
        monkeypatch.setattr(Descent, "_see", interrupting)
        return train(*args, **named)

    monkeypatch.setattr(PCEGPSearchCV, "_train", refit)
    search = quick(n_trials=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
    assert search.best_params_  # the search itself is not lost
    with pytest.raises(NotFittedError):
        search.predict(X)
