"""Progress bars: what they count, what they show before there is a value, and who shows one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pcegp import PCEGPMixture, PCEGPRegressor, explain, report
from pcegp._progress import bar
from pcegp.estimators import resolve
from small_search import X, Y, quick

# New rows of a small table leave its box now and then.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture
def shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda: capsys.readouterr().err


@pytest.mark.parametrize("nothing", [None, float("nan"), np.nan])
def test_a_value_that_is_not_there_yet_is_an_ellipsis(shown, nothing):
    with bar(True, 3, "work", "loss {loss:.3f} of {n}", loss=nothing, n=2):
        pass
    assert "loss … of 2" in shown()
    with bar(True, 3, "work", "loss {loss:.3f}", loss=nothing) as update:
        update(1, loss=0.5)
        update(2)
    assert "2/3 loss 0.500" in " ".join(shown().split())


def test_stages_have_bars_of_their_own_and_what_was_not_counted_goes(shown):
    with bar(True, 4, "first", prefix="output 1: ") as update:
        update(3)
        update(0, label="pause")
        update(0, label="second", total=2)
        update(2)
    text = " ".join(shown().split())
    assert "output 1: first" in text
    assert "3/4" in text
    assert "pause" not in text
    assert "output 1: second" in text
    assert "2/2" in text


def test_without_a_wish_nothing_is_shown(shown):
    with bar(False, 4, "first") as update:
        assert update is None
    assert shown() == ""


def test_a_fit_counts_its_steps_and_draws_and_saving_is_shown(shown, tmp_path):
    model = PCEGPRegressor(optimizer="nadam", max_iter=30, n_draws=2, verbose=True).fit(X, Y)
    text = shown()
    assert f"{model.n_iter_}/30 loss" in text
    assert "drawing parameters" in text
    assert "2/2" in text
    assert "nan" not in text
    model.save(tmp_path / "m")
    assert "saving" in shown()
    model.set_params(verbose=False).save(tmp_path / "m")
    assert shown() == ""


def test_a_fit_by_the_evidence_names_its_stages_and_counts_structures(shown, monkeypatch):
    monkeypatch.setattr("pcegp.training.selection._COMPARED_ROWS", 25)
    model = PCEGPRegressor(max_iter=30, verbose=True).fit(X, Y)
    text = " ".join(shown().split())

    def counted(label):
        done, total = re.search(rf"{label} \D*(\d+)/(\d+)", text).groups()
        return int(done), int(total)

    choices = resolve(PCEGPRegressor().get_params()).choices(X.shape[1])
    n_forms = len(choices.covariances) * len(choices.input_maps)
    assert counted("comparing covariances and maps") == (n_forms, n_forms)
    done, total = counted("comparing strengths of the prior")
    varying = len(choices.penalties) - 1  # for each map that is near enough to the best
    assert total in varying * np.arange(1, len(choices.input_maps) + 1)
    assert 0 < done <= total
    done, total = counted("comparing models of the noise")
    n_noises = len(choices.noises) - 1  # one of them may then be given to the other forms
    assert n_noises <= total < n_noises + n_forms
    assert done in (n_noises, total)
    members = len(model.fit_info_["members"])
    assert counted("training") == (members, members)
    assert "starting" not in text  # it is not counted
    assert "loss" not in text  # these stages have none


@pytest.mark.parametrize(("optimizer", "stage"), [
    ("lbfgs", "comparing covariances and maps"), ("nadam", "training"),
])
def test_outputs_are_numbered(shown, optimizer, stage):
    model = PCEGPRegressor(optimizer=optimizer, max_iter=3, verbose=True)
    model.fit(X, np.column_stack([Y, -Y]))
    text = shown()
    assert f"output 1 of 2: {stage}" in text
    assert f"output 2 of 2: {stage}" in text


def test_intervals_explanations_and_reports_are_shown(shown, tmp_path):
    model = PCEGPRegressor(max_iter=3).fit(X, Y)
    for work in (lambda v: explain(model, n_refits=2, verbose=v),
                 lambda v: report(model, tmp_path / "r.html", n_refits=2, verbose=v)):
        work(True)
        text = shown()
        assert "refits for the spread" in text
        assert "2/2" in text
        work(False)
        assert shown() == ""
    model.predict_interval(X[:2], 0.8, n_folds=3)
    assert shown() == ""
    model.set_params(verbose=True).predict_interval(X[:2], 0.8, n_folds=2)
    text = shown()
    assert "training without each fold" in text
    assert "2/2" in text
    assert "loss" not in text  # one bar, not one for each model
    mixture = PCEGPMixture([model]).fit(X, Y)
    shown()
    mixture.predict_interval(X[:2], 0.8, n_folds=2)
    assert "without each fold" in shown()


def test_a_search_counts_the_trainings_of_its_result_and_shows_those_of_its_answer(shown):
    search = quick(n_trials=4, verbose=True).fit(X, Y)
    text = shown()
    assert f"{search.savings_['n_fits']}/" in text
    assert "4 of 4 trials" in text
    assert "nan" not in text
    assert "training the answer" in text
    assert f"{len(search.members())}/{len(search.members())}" in text


def test_the_bar_of_a_search_moves_with_every_training(monkeypatch):
    from contextlib import contextmanager

    seen = []

    @contextmanager
    def watched(show, total, label, *rest, **fields):
        yield (lambda done, **now: seen.append(done)) if label == "trainings" else None

    monkeypatch.setattr("pcegp.search.estimator.bar", watched)
    search = quick(n_trials=4, verbose=True, refit=False).fit(X, Y)
    assert seen == sorted(seen)
    assert set(seen) == set(range(search.savings_["n_fits"] + 1))
