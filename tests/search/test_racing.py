"""What makes a search cheap: racing, copies, checkpoints, cached bases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import TrialState
from sklearn.model_selection import KFold, TimeSeriesSplit

from pcegp import PCEGPRegressor, PCEGPSearchCV
from pcegp.errors import SearchError
from pcegp.estimators import fit_cached
from pcegp.numerics import ArrayCache
from pcegp.polynomials import Basis
from pcegp.preprocessing import MONOTONE
from pcegp.search import racing, spaces
from pcegp.search.evaluation import OBJECTIVES, evaluate
from pcegp.search.problem import pilot_split
from pcegp.search.sampler import study_before
from pcegp.search.trials import TrialRecord, fold_name, records_of, signature
from small_search import X, Y, quick, same, small

# Validation rows at the edge of a small table leave the box of the others.
pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


def test_the_same_settings_are_never_evaluated_twice():
    def two(trial):
        return {"degree": trial.suggest_int("degree", 0, 1), "max_iter": 5}

    search = quick(space=two, n_trials=8).fit(X, Y)
    copies = search.cv_results_["copy_of"]
    assert sum(copy is None for copy in copies) == 2
    for number, copy in enumerate(copies):
        if copy is not None:
            for name in ("state", "pilot_crps", "n_folds"):
                assert same(search.cv_results_[name][number], search.cv_results_[name][copy])
    assert search.savings_["factorisations"] < 0.3 * search.savings_["plain_factorisations"]


def test_settings_that_give_the_same_model_have_one_signature():
    stationary = {"degree": 0, "noise": "constant", "penalty": 1.0, "basis": "legendre"}
    assert signature(stationary) == signature({**stationary, "penalty": 3.0, "basis": "hermite"})
    assert signature({**stationary, "degree": 1}) != signature(
        {**stationary, "degree": 1, "penalty": 3.0}
    )


@pytest.mark.parametrize("noise", ["constant", "expansion"])
def test_a_checkpoint_is_the_training_of_that_many_steps(noise):
    train, test = np.arange(30), np.arange(30, 40)
    settings = {"optimizer": "nadam", "max_iter": 60, "checkpoints": (20, 60), "noise": noise,
                "noise_delay": 30}
    result = evaluate(settings, X, Y, (train, test))
    for step in (20, 60):
        alone = evaluate({**settings, "max_iter": step, "checkpoints": ()}, X, Y, (train, test))
        assert alone["scores"] == {str(step): result["scores"][str(step)]}
    assert result["factorisations"] == 61 + 1 + 2


def test_a_checkpoint_ends_as_a_training_ends():
    """Without noise training ends in a smooth model, and after a spike in the best state."""
    rng = np.random.default_rng(5)
    inputs = rng.uniform(0, 1, (60, 2))
    target = np.sin(3 * inputs[:, 0]) + inputs[:, 1] ** 2
    split = np.arange(50), np.arange(50, 60)
    smooth = {"optimizer": "nadam", "max_iter": 250, "checkpoints": (200, 250),
              "noise_delay": 100}
    both = evaluate(smooth, inputs, target, split)["scores"]
    alone = evaluate({**smooth, "max_iter": 200, "checkpoints": ()}, inputs, target, split)
    assert alone["scores"]["200"] == both["200"]
    ended = PCEGPRegressor(optimizer="nadam", max_iter=200).fit(inputs, target)
    assert ended.fit_info_["noise_free"]

    spiky = {"optimizer": "nadam", "max_iter": 60, "learning_rate": 0.9, "averaging": 1,
             "noise": "constant", "penalty": 0.0, "prior": 0.0, "checkpoints": range(61)}
    model = PCEGPRegressor(**spiky).fit(inputs[:40], target[:40])
    fallen = 0
    for step in range(10, 60, 3):
        short = PCEGPRegressor(**{**spiky, "max_iter": step, "checkpoints": ()})
        short.fit(inputs[:40], target[:40])
        fallen += short.fit_info_["fell_back_to_best"]
        np.testing.assert_array_equal(short.predict(inputs),
                                      model.at_checkpoint(step).predict(inputs))
    assert fallen


def test_a_checkpoint_has_the_start_that_a_short_training_chooses():
    split = np.arange(30), np.arange(30, 40)
    settings = {"optimizer": "nadam", "max_iter": 400, "checkpoints": (400, 800), "n_restarts": 3,
                "noise_delay": 50}
    both = evaluate({**settings, "max_iter": 800}, X, Y, split)
    alone = evaluate({**settings, "checkpoints": ()}, X, Y, split)
    assert alone["scores"] == {"400": both["scores"]["400"]}


def test_wilcoxons_test_is_asked_after_six_folds_and_every_second_one():
    for n_folds, expected in ((10, [1, 3, 6, 8, 10]), (5, [1, 3, 5]), (3, [1, 3]), (2, [1, 2])):
        assert [len(rung) for rung in racing.rungs_of(n_folds, "pilot")] == expected
    assert racing.rungs_of(2, None) == (("fold 0", "fold 1"),)  # a plain loop
    best = np.linspace(1.0, 2.0, 8)
    assert racing.is_worse(best + np.linspace(0.001, 0.008, 8), best)  # slightly, everywhere
    assert not racing.is_worse(np.append(best[:7] + 0.01, 0.0), best)  # lucky at last


def test_bases_are_computed_once_per_fold_and_degree():
    def fit(cache, **settings):
        settings = {"optimizer": "nadam", "degree": 2, "max_iter": 2, **settings}
        fit_cached(PCEGPRegressor(**settings), X, Y, cache)

    cache = ArrayCache(max_bytes=10**7)
    fit(cache)
    assert cache.hits == 0
    fit(cache, penalty=1.0, scale="shared")
    assert cache.hits == 1
    fit(cache, degree=1, noise="constant")
    assert cache.hits == 1
    fit(ArrayCache(max_bytes=0))


def test_bases_are_computed_once_per_map_where_structures_are_compared(monkeypatch):
    computed, original = [], Basis.evaluate

    def counting(self, inputs):
        computed.append(self.degree)
        return original(self, inputs)

    monkeypatch.setattr(Basis, "evaluate", counting)
    cache = ArrayCache(max_bytes=10**7)
    for penalty in ("auto", 1.0):
        fit_cached(PCEGPRegressor(degree=2, noise="constant", penalty=penalty, max_iter=2), X, Y,
                   cache)
        assert computed.count(2) == len(MONOTONE)


def test_cached_bases_change_nothing():
    cache = ArrayCache(max_bytes=10**7)
    models = [fit_cached(PCEGPRegressor(max_iter=5), X, Y, cache) for _ in range(2)]
    plain = PCEGPRegressor(max_iter=5).fit(X, Y)
    for model in models:
        np.testing.assert_array_equal(model.model_.outputs[0].base.theta,
                                      plain.model_.outputs[0].base.theta)


scores_of_folds = st.lists(st.floats(0.1, 10), min_size=6, max_size=10)


@given(scores_of_folds)
def test_no_trial_is_worse_than_itself(values):
    scores = np.array(values)
    assert not racing.is_worse(scores, scores)
    assert racing.is_worse(scores + 1.0, scores)
    assert not racing.is_worse(scores - 0.01, scores)


def raced(table, names=None):
    """Who has how many folds after a race of trials with scores (trials, folds).

    The pilot split is the first fold; trials of one name have the same settings.
    """
    names = list(names or range(len(table)))
    rungs = racing.rungs_of(table.shape[1], fold_name(0))
    have = dict.fromkeys(range(len(table)), 1)

    def records():
        return [
            TrialRecord(
                i, i, TrialState.RUNNING, {}, {}, {"penalty": names[i]},
                {fold_name(k): {"scores": {"5": dict.fromkeys(OBJECTIVES, float(row[k]))}}
                 for k in range(have[i])},
                rungs, None, None if names.index(names[i]) == i else names.index(names[i]),
            )
            for i, row in enumerate(table)
        ]

    for more_to_come in (True, False):
        while tasks := racing.wanted(records(), rungs, "crps", more_to_come):
            for record, missing in tasks:
                assert missing == [fold_name(have[record.position] + k)
                                   for k in range(len(missing))]
                have[record.position] += len(missing)
    return have


tables = st.integers(1, 41).flatmap(
    lambda n: st.integers(0, 2**32 - 1).map(
        lambda seed: np.random.default_rng(seed).uniform(0.5, 1.5, (n, 1))
        + 0.3 * np.random.default_rng(seed + 1).uniform(0, 1, (n, 10))
    )
)


@given(tables)
def test_a_race_ends_and_stays_within_its_limits(table):
    have, n = raced(table), len(table)
    assert have[0] == 10  # the reference trial
    others = [count for position, count in have.items() if position]
    assert set(others) <= {1, 3, 6, 8, 10}
    assert sum(count > 1 for count in others) <= np.ceil(0.15 * n)
    assert sum(count > 3 for count in others) <= np.ceil(0.10 * n)
    assert sum(have.values()) <= racing.most_fits(n, racing.rungs_of(10, fold_name(0)))
    if n == 40:
        assert sum(have.values()) <= 0.25 * table.size


@given(tables)
def test_a_trial_that_is_best_everywhere_wins_whatever_its_place(table):
    winner = len(table) // 2
    table[winner] = table.min() - 0.1
    have = raced(table)
    whole = [position for position, count in have.items() if count == 10]
    assert min(whole, key=lambda position: table[position].mean()) == winner


@given(tables, st.randoms())
def test_who_goes_on_does_not_depend_on_the_order_of_the_trials(table, shuffle):
    order = list(range(1, len(table)))  # all but the reference trial
    shuffle.shuffle(order)
    order = [0, *order]
    again = raced(table[order])
    assert {position: again[place] for place, position in enumerate(order)} == raced(table)


@given(st.integers(2, 10), st.integers(20, 4000), st.booleans())
def test_the_pilot_split_is_the_first_fold_with_a_limit_on_its_rows(n_folds, n_rows, exchangeable):
    splits = list(KFold(n_folds, shuffle=True, random_state=0).split(np.zeros((n_rows, 1))))
    pilot = pilot_split(splits[0], exchangeable)
    if len(splits[0][0]) <= 700:
        assert pilot is None
        return
    train, valid = pilot
    assert len(train) == 700
    assert (np.diff(train) > 0).all()
    assert set(train) <= set(splits[0][0])
    if exchangeable:
        assert sorted([*train, *valid]) == list(range(n_rows))
    else:
        assert (valid == splits[0][1]).all()


def test_a_large_table_is_scored_on_fewer_rows_first():
    rng = np.random.default_rng(0)
    many = rng.uniform(0, 1, (1000, 1))

    def cheap(trial):
        return {"penalty": trial.suggest_float("penalty", 1.0, 2.0), "degree": 1,
                "covariance": "matern52", "max_iter": 2}

    search = PCEGPSearchCV(cheap, n_trials=2, cv=4, refit=False)
    search.fit(many, np.sin(6 * many[:, 0]))
    assert search.savings_["n_fits"] == 2 + search.cv_results_["n_folds"].sum()
    assert search.cv_results_["n_folds"][0] == 4
    assert all("pilot" in record.results for record in records_of(search.study_))


def test_rows_that_a_splitter_keeps_apart_are_kept_apart_in_the_pilot_split(monkeypatch):
    many = np.linspace(0, 1, 1000)[:, None]
    seen = []

    def looked_at(settings, X, y, split):
        seen.append(split)
        return evaluate(settings, X, y, split)

    monkeypatch.setattr("pcegp.search.loop.evaluate", looked_at)
    for changes, groups in (({"cv": TimeSeriesSplit(2, test_size=100)}, None),
                            ({"cv": 4}, np.arange(1000) // 50)):
        seen.clear()
        PCEGPSearchCV(lambda t: {**small(t), "degree": 0, "max_iter": 2, "checkpoints": (2,)},
                      n_trials=1, refit=False, **changes).fit(many, many[:, 0], groups)
        train, valid = seen[0]
        assert len(train) == 700
        if groups is None:
            assert train.max() < valid.min()
        else:
            assert not set(groups[train]) & set(groups[valid])


def test_stopped_trials_had_a_reason_to_stop(fitted):
    records = records_of(fitted.study_)
    assert records[0].outcome == "complete"  # the reference trial
    best = min(record.first_score("crps") for record in records)
    stopped = [r for r in records if len(r.folds) == 1 and r.copy_of is None]
    assert stopped
    assert all(record.first_score("crps") > best for record in stopped)
    assert fitted.savings_["share"] < 0.6
    spent = sum(result["factorisations"] for r in records if r.copy_of is None
                for result in r.results.values())
    assert spent == fitted.savings_["factorisations"]


def test_the_study_says_the_same_as_the_results(fitted):
    """What a dashboard shows: ends, means over all folds, and the scores on the way."""
    for trial, record in zip(fitted.study_.trials, records_of(fitted.study_), strict=True):
        assert (trial.number, trial.state.name.lower()) == (record.position, record.outcome)
        if record.outcome == "complete":
            assert trial.value == record.mean("crps")
        assert trial.intermediate_values[1] == record.first_score("crps")
    assert fitted.study_.best_value == fitted.best_score_


def test_the_parzen_estimator_compares_all_trials_by_their_first_score():
    """Trials that went on have another value in the study; suggestions must not see it."""
    search = quick(n_trials=16)
    many, one = search.fit(X, Y).cv_results_, quick(n_trials=1).fit(X, Y).cv_results_
    assert many["params"][0] == one["params"][0]
    scores = many["pilot_crps"]
    problem = search._problem(X, Y, None)
    seen = study_before(problem, records_of(search.study_), 16).trials
    assert [trial.value for trial in seen] == scores.tolist()
    middle = study_before(problem, records_of(search.study_), 10).trials
    assert [t.state.name for t in middle] == ["COMPLETE"] * 8 + ["RUNNING"] * 2


def test_the_same_settings_get_their_folds_once():
    table = np.full((20, 10), 2.0) + np.arange(20)[:, None]
    table[3] = table[4] = 1.0
    have = raced(table, names=[*range(4), 3, *range(5, 20)])
    assert (have[3], have[4]) == (10, 1)


@pytest.mark.parametrize("where", ["pilot", "folds"])
def test_copies_of_a_trial_that_fails_fail_with_it(monkeypatch, where):
    first = next(KFold(6, shuffle=True, random_state=0).split(X))
    tried = []

    def failing(settings, X, y, split):
        is_first = len(split[0]) == len(first[0]) and (split[0] == first[0]).all()
        tried.append(is_first)
        fails = is_first if where == "pilot" else not is_first
        return {"error": "a hole"} if fails else evaluate(settings, X, y, split)

    monkeypatch.setattr("pcegp.search.loop.evaluate", failing)
    search = quick(space=lambda t: {"degree": t.suggest_int("degree", 1, 1), "max_iter": 4},
                   n_trials=6, refit=False)
    with pytest.raises(SearchError, match="a hole"):
        search.fit(X, Y)
    assert sum(tried) == 1
    assert [trial.state.name for trial in search.study_.trials] == ["FAIL"] * 6


def test_a_finalist_that_fails_is_out_and_another_takes_its_place(fitted, monkeypatch):
    first = next(KFold(6, shuffle=True, random_state=0).split(X))

    def failing(settings, X, y, split):
        if settings["penalty"] == fitted.best_params_["penalty"] and (split[0] != first[0]).any():
            return {"error": "a hole in the numbers"}
        return evaluate(settings, X, y, split)

    monkeypatch.setattr("pcegp.search.loop.evaluate", failing)
    search = quick().fit(X, Y)
    table = search.cv_results_
    assert table["state"][fitted.best_index_] == "fail"
    assert table["reason"][fitted.best_index_] == "a hole in the numbers"
    assert (table["n_folds"] > 1).sum() >= (fitted.cv_results_["n_folds"] > 1).sum()
    assert table["state"][search.best_index_] == "complete"


def test_without_racing_every_trial_gets_every_fold():
    space = spaces.Space(small, racing=False, objective="rmse", n_trials=3)
    search = PCEGPSearchCV(space, cv=3).fit(X, Y)
    assert (search.cv_results_["n_folds"] == 3).all()
    assert search.savings_["share"] == pytest.approx(1.0)
    assert "mean_test_rmse" in search.cv_results_
