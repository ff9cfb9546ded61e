"""What a search says when its storage or its space fails: one sentence, and no password."""

from __future__ import annotations

import json
import os
import pickle
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from optuna.storages import RDBStorage
from sklearn.base import clone
from sqlalchemy.exc import OperationalError

from pcegp import PCEGPRegressor, PCEGPSearchCV, nested_cv
from pcegp.errors import DataError, SearchError, SettingError, StorageError
from pcegp.search import without_password
from pcegp.search.storage import _reason
from small_search import X, Y, quick, small

pytestmark = pytest.mark.filterwarnings("ignore::pcegp.errors.ExtrapolationWarning")

SECRETS = ("s3cret", "p@ss", "p%40ss", "pa ss", "pa+ss", "pa?ss", "a/b:c")


@pytest.mark.parametrize(("url", "shown"), [
    ("postgresql://me:s3cret@host:5432/db", "postgresql://me:***@host:5432/db"),
    ("postgresql://me:p%40ss@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:p@ss@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:pa?ss@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:a/b:c@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:x@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:s3cret@host:notaport/db", "postgresql://me:***@host:notaport/db"),
    ("postgresql://host/db?user=me&password=s3cret&port=5",
     "postgresql://host/db?user=me&password=***&port=5"),
    ("postgresql://host/db?passfile=s3cret&sslmode=require",
     "postgresql://host/db?passfile=***&sslmode=require"),
    ("postgresql://host/db?sslPassword=pa+ss", "postgresql://host/db?sslPassword=***"),
    ("postgresql://me@host/db", "postgresql://me@host/db"),
    ("sqlite:////data/a:b@c/study.db", "sqlite:////data/a:b@c/study.db"),
    ("folder/me:s3cret@study.journal", "folder/me:s3cret@study.journal"),
    ("postgresql:/me:s3cret@host:1/db", "postgresql:***@host:1/db"),
    ("postgres:me:s3cret@host", "postgres:***@host"),
    ("me:s3cret@host/db", "me:***@host/db"),
    ("postgresql:host/db?password=s3cret", "postgresql:host/db?password=***"),
    (r"C:\me:s3cret@study.journal", r"C:\me:s3cret@study.journal"),
])
def test_passwords_are_hidden_wherever_they_stand(url, shown):
    assert without_password(url) == shown


@pytest.mark.parametrize("address", [
    "postgresql:/me:s3cret@127.0.0.1:1/db", "me:s3cret@host/db", "postgres:me:s3cret@host",
    Path("postgresql://me:s3cret@host/db"), "sqlite:study.db",
])
def test_an_address_that_is_no_url_is_no_file(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    search = quick(storage=address)
    with pytest.raises(StorageError, match="is no URL of a database: write postgresql:") as caught:
        search.fit(X, Y)
    assert "s3cret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_file_with_a_colon_in_its_name_is_named_from_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick(storage="./a:b@c.journal", n_trials=1, refit=False).fit(X, Y)
    assert (tmp_path / "a:b@c.journal").exists()


@pytest.mark.parametrize("url", [
    "postgresql://me:s3cret@127.0.0.1:notaport/db",
    "postgresql://me:s3cret@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=me&password=s3cret",
    "postgresql://127.0.0.1:1/db?nosuchoption=1&password=s3cret&passfile=s3cret",
    "postgresql://me:s3cret@[::1/db",
    "nosuch://me:s3cret@host/db",
])
def test_no_refusal_of_a_database_tells_its_password(url, monkeypatch):
    monkeypatch.setattr("pcegp.search.loop.evaluate", None)
    with pytest.raises(StorageError) as caught:
        quick(storage=url).fit(X, Y)
    whole = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in whole.replace(url, "")  # the line of a test may stand in it
    assert "s3cret" not in str(caught.value)


def test_what_the_driver_says_is_hidden_too(monkeypatch):
    url = "postgresql://me:p%40ss@127.0.0.1:1/db"

    def fail(*_, **__):
        raise OperationalError("SELECT", {}, Exception('bad "user=me password=p@ss" (p%40ss)'))

    monkeypatch.setattr(RDBStorage, "__init__", fail)
    with pytest.raises(StorageError, match=r"password=\*\*\*") as caught:
        quick(storage=url).fit(X, Y)
    whole = "".join(traceback.format_exception(caught.value))
    assert not [secret for secret in SECRETS if secret in whole]
    assert "no such table" in _reason(Exception("no such\n table"), url)


@pytest.mark.parametrize("line", [
    {"op_code": 99, "worker_id": "a"}, {"op_code": "x", "worker_id": "a"}, {"op_code": None},
    {"op_code": 0}, {"op_code": 2, "study_id": 0},
])
def test_a_journal_with_operations_that_make_no_sense(tmp_path, line):
    file = tmp_path / "study.journal"
    file.write_text(json.dumps(line) + "\n")
    before = file.read_bytes()
    with pytest.raises(StorageError, match="is not the journal of a study"):
        quick(storage=file).fit(X, Y)
    assert file.read_bytes() == before


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")],
                         ids=["pipe", "folder", "device"])
def test_a_journal_that_is_no_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "odd")
    with pytest.raises(StorageError, match=r"odd is a \w+: choose another path") as caught:
        quick(storage=tmp_path / "odd").fit(X, Y)
    assert str(caught.value).count("odd") == 1


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
@pytest.mark.parametrize("place", ["journal", "database"])
def test_names_that_no_file_and_no_database_can_hold(tmp_path, name, place, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = None if place == "journal" else f"sqlite:///{tmp_path}/study.db"
    if place == "database" and "\0" in name:
        return  # it can
    with pytest.raises(StorageError):
        quick(storage=storage, study=name, n_trials=1).fit(X, Y)


def test_a_column_name_that_cannot_be_written_is_refused_before_the_search(monkeypatch):
    monkeypatch.setattr("pcegp.search.loop.evaluate", None)
    frame = pd.DataFrame(X, columns=pd.Index(["a", "\ud800"], dtype=object))
    with pytest.raises(DataError, match="no text"):
        quick().fit(frame, Y)


def test_what_a_space_raises_when_it_is_asked_first_is_told_once_before_any_training(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("pcegp.search.loop.evaluate", None)

    def broken(trial):
        raise RuntimeError("the lab is closed")

    with pytest.raises(SettingError, match="RuntimeError: the lab is closed") as caught:
        quick(space=broken, storage=tmp_path / "study.journal").fit(X, Y)
    assert str(caught.value).count("the lab is closed") == 1
    assert not list(tmp_path.iterdir())

    def impossible(trial):
        return {"penalty": trial.suggest_float("penalty", 2.0, 1.0)}

    with pytest.raises(SettingError, match="the space raised ValueError"):
        quick(space=impossible).fit(X, Y)


def test_a_space_that_cannot_repeat_its_settings_ends_the_search_in_one_sentence():
    asked = []

    def forgetful(trial):
        asked.append(trial)
        if len(asked) > 5:
            raise RuntimeError("I forgot")
        return small(trial)

    with pytest.raises(SearchError, match=r"RuntimeError.*\(I forgot\): it must give the same"):
        quick(space=forgetful, n_trials=4).fit(X, Y)


def test_a_space_that_raises_in_every_trial_says_why_once():
    asked = []

    def later(trial):
        asked.append(trial)
        settings = small(trial)
        if len(asked) > 1:
            raise RuntimeError("I forgot")
        return settings

    with pytest.raises(SearchError, match=r"none of 4 trials.*RuntimeError: I forgot") as caught:
        quick(space=later, n_trials=4).fit(X, Y)
    assert str(caught.value).count("I forgot") == 1


URL = "postgresql://me:s3cret@host/db"


def test_no_text_of_a_search_has_the_password():
    search = quick(storage=URL)
    texts = [repr(search), str(search.get_params()), search._repr_html_(), repr(clone(search)),
             repr(PCEGPSearchCV(storage=URL))]
    for text in texts:
        assert "s3cret" not in text
        assert "me:***@host" in text
    assert str(clone(search).get_params()["storage"]) == URL
    assert pickle.loads(pickle.dumps(search)).storage == URL  # noqa: S301


class Folds:
    """A splitter of one fold."""

    def __init__(self, *parts):
        self.parts = parts

    def __repr__(self):
        return "Folds()"

    def split(self, *_):
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part


HALF = np.arange(20), np.arange(20, 40)


@pytest.mark.parametrize(("changes", "error", "text"), [
    ({"n_jobs": "zz"}, SettingError, "n_jobs='zz' must be a whole number"),
    ({"n_jobs": 0}, SettingError, "n_jobs=0 must be"),
    ({"cv": "zz"}, SettingError, "cv='zz' must be a number or a splitter, such as KFold(5)"),
    ({"cv": Folds}, SettingError, "must be a number or a splitter"),
    ({"cv": Folds()}, SettingError, "cv=Folds() gives no folds"),
    ({"cv": Folds(RuntimeError("no"))}, SettingError, "raised RuntimeError: no"),
    ({"cv": Folds(HALF, 3)}, SettingError, "fold 1 of cv=Folds() is no pair"),
    ({"cv": Folds((HALF[0], []))}, SettingError, "scored part of fold 0 of cv=Folds() is empty"),
    ({"cv": Folds((HALF[0], HALF[0]))}, SettingError, "has 20 rows in both parts, such as 0"),
    ({"cv": Folds((HALF[0], HALF[1] + 1))}, SettingError, "has row 40: rows are 0 to 39"),
    ({"cv": Folds((HALF[0], -HALF[1]))}, SettingError, "has row -39"),
    ({"cv": Folds((HALF[0], [0.5]))}, SettingError, "must be a vector of whole numbers"),
    ({"study": ""}, SettingError, "study='' must be a text"),
    ({"storage": 3}, StorageError, "storage=3 must be the path of a journal file"),
    ({"storage": "sqlite:///"}, StorageError, "names no file, so nothing would be kept"),
    ({"storage": "sqlite:///:memory:"}, StorageError, "write sqlite:///study.db"),
    ({"estimator": "gp"}, SettingError, "estimator='gp' must be a PCEGPRegressor"),
    ({"random_state": "one"}, SettingError, "random_state='one' must be a whole number"),
])
def test_what_no_search_can_use_is_one_sentence(monkeypatch, changes, error, text):
    monkeypatch.setattr("pcegp.search.loop.evaluate", None)
    with pytest.raises(error) as found:
        quick(**changes).fit(X, Y)
    assert text in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(("groups", "text"), [
    (np.arange(3), "groups has shape"), (np.full(40, np.nan), "groups holds 40 missing values"),
    ([None, *range(39)], "groups holds missing values"), ("a", "groups is a str"),
])
def test_groups_that_make_no_sense_are_named(groups, text):
    with pytest.raises(DataError, match=text):
        quick().fit(X, Y, groups)


def test_nested_scores_are_of_a_search():
    with pytest.raises(SettingError, match="nested_cv takes a PCEGPSearchCV, not PCEGPRegressor"):
        nested_cv(PCEGPRegressor(), X, Y)


def test_marks_for_each_row_are_folds_too():
    marks = np.arange(40) < 20
    one, other = (quick(n_trials=1, refit=False, cv=Folds(pair)).fit(X, Y).best_score_
                  for pair in (HALF, (marks, ~marks)))
    assert one == other
