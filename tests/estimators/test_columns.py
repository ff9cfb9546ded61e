"""Columns and rows that stand in another order than their labels say are not taken in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

import pcegp
from pcegp import PCEGPMixture, PCEGPRegressor, PCEGPSearchCV
from pcegp.errors import DataError, DataWarning, ModelFileError, SettingError
from small_search import quick as small_search

RNG = np.random.default_rng(6)
FRAME = pd.DataFrame(RNG.uniform(size=(20, 3)), columns=[10, 20, 30])
Y = FRAME[10] + FRAME[20] ** 2


def fitted(frame=FRAME, y=Y):
    return PCEGPRegressor(max_iter=3, degree=1, n_draws=0).fit(frame, y)


def test_numbers_as_names_are_compared_by_place(tmp_path):
    model = fitted()
    other = FRAME[[20, 10, 30]]
    for each in (model, pcegp.load(model.save(tmp_path / "m.pcegp"))):
        with pytest.raises(DataError, match="columns 20, 10, 30, and the training had 10, 20, 30"):
            each.predict(other)
        plain = each.predict(FRAME.to_numpy())
        np.testing.assert_array_equal(each.predict(FRAME), plain)
        # 0, 1, 2 name nothing.
        np.testing.assert_array_equal(each.predict(pd.DataFrame(FRAME.to_numpy())), plain)
    unnamed = fitted(FRAME.to_numpy(), Y.to_numpy())
    with pytest.raises(DataError, match="the training had 0, 1, 2"):
        unnamed.predict(pd.DataFrame(FRAME.to_numpy())[[1, 0, 2]])


@pytest.mark.parametrize(("names", "other"), [
    ([10, 20, 30], [20, 10, 30]), ([0, 1, 2], [1, 0, 2]), (["a", "b", "c"], ["b", "a", "c"]),
    (["10", "20", "30"], [20, 10, 30]),
])
def test_members_of_columns_in_another_order_are_no_mixture(tmp_path, names, other):
    frame = FRAME.set_axis(names, axis=1)
    one, two = fitted(frame), fitted(frame.set_axis(other, axis=1))
    with pytest.raises(SettingError, match="columns of other names, or in another order"):
        PCEGPMixture([FrozenEstimator(one), FrozenEstimator(two)]).fit(frame, Y)
    mixture = PCEGPMixture([FrozenEstimator(one)] * 2).fit(frame, Y)
    mixture.estimators_[1] = two
    path = mixture.save(tmp_path / "m.pcegp")
    with pytest.raises(ModelFileError, match=r"different data: .*in another order"):
        pcegp.load(path)


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("names", ["abc", [10, 20, 30], [0, 1, 2]])
def test_a_member_without_names_goes_with_others_and_is_loaded(tmp_path, names):
    frame = FRAME.set_axis(list(names), axis=1)
    plain = FrozenEstimator(fitted(FRAME.to_numpy()))
    mixture = PCEGPMixture([FrozenEstimator(fitted(frame)), plain]).fit(frame, Y)
    loaded = pcegp.load(mixture.save(tmp_path / "m.pcegp"))
    np.testing.assert_array_equal(loaded.predict(frame), mixture.predict(frame))


def test_names_of_two_types_are_refused():
    with pytest.raises(DataError, match=r"X.columns.astype\(str\)"):
        fitted(FRAME.rename(columns={10: "ten"}))


def test_a_constant_column_goes_by_its_label():
    frame = FRAME.copy()
    frame[20] = 7.0
    with pytest.warns(DataWarning, match="constant column '20': ignored"):
        fitted(frame)


@pytest.mark.parametrize("make", [fitted, lambda frame, y: small_search(
    n_trials=1, refit=False, cv=2).fit(frame, y)])
def test_rows_in_another_order_are_noticed(make):
    frame = FRAME.set_axis(list("abc"), axis=1)
    with pytest.warns(DataWarning, match=r"pass y.loc\[X.index\]"):
        make(frame, Y[::-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        make(frame, Y)
        make(frame, Y.set_axis(range(100, 120)))  # labels that say nothing


def test_a_search_that_fails_leaves_no_old_answer():
    search = small_search(n_trials=1, cv=2).fit(FRAME.to_numpy(), Y.to_numpy())
    assert isinstance(search, PCEGPSearchCV)
    with pytest.raises(DataError):
        search.fit(FRAME.to_numpy(), np.full(20, np.nan))
    assert not hasattr(search, "best_params_")
