"""Where Python puts files: nothing of another kind is replaced, and no folder made in silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pcegp
from pcegp import PCEGPMixture, PCEGPRegressor, report
from pcegp._kinds import Kind
from pcegp.errors import FileError, ModelFileError
from pcegp.io import places

X = np.linspace(0, 1, 12)[:, None]
MODEL = PCEGPRegressor(max_iter=3, degree=1, n_draws=0).fit(X, np.sin(5 * X[:, 0]))
MIXTURE = PCEGPMixture([PCEGPRegressor(max_iter=2, n_draws=0)] * 2).fit(X, X[:, 0])
WRITERS = {
    "model": MODEL.save,
    "mixture": MIXTURE.save,
    "report": lambda path, **more: report(MODEL, path, n_refits=0, **more),
}


@pytest.fixture(params=WRITERS)
def write(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return WRITERS[request.param]


def test_a_file_of_another_kind_is_replaced_only_by_force(write):
    table = Path("plant.csv")
    table.write_text("a,y\n1,2\n")
    with pytest.raises(FileError, match=r"plant.csv exists and is not an? \w+ file: .*force=True"):
        write(table)
    assert table.read_text() == "a,y\n1,2\n"
    assert write(table, force=True) == table
    assert write("plant.csv").stat().st_size > 1000  # by now of the right kind
    empty = Path("empty")
    empty.touch()
    assert write(empty).stat().st_size > 1000


def unreadable(path, kind):
    raise PermissionError(13, "Permission denied")


def test_a_file_that_cannot_be_read_is_replaced_only_by_force(write, monkeypatch):
    monkeypatch.setattr(places, "may_replace", unreadable)
    Path("old").touch()
    with pytest.raises(FileError, match=r"old exists and cannot be read \(Permission denied\), so "
                       r".*choose another place, or replace it with force=True"):
        write("old")
    assert write("old", force=True).stat().st_size > 1000


def test_no_folder_is_made(write):
    with pytest.raises(FileError, match=r"lies in the folder .*modles, which does not exist"):
        write("modles/a")
    assert not Path("modles").exists()


@pytest.mark.parametrize(
    ("path", "text"),
    [(None, "None is no path"), (3, "3 is no path"), (b"a", "is no path"), ("", "needs a name"),
     ("a\0b", "no file can be called"), ("\ud800", "no file can be called"), (".", "is a folder"),
     ("/dev/null", "is a device")],
)
def test_what_names_no_file_is_one_sentence(write, path, text):
    with pytest.raises(FileError, match=text) as found:
        write(path)
    assert str(found.value).isprintable()


@pytest.mark.parametrize("path", [None, "", b"a", "a\0b"])
def test_a_model_is_loaded_by_a_path(path):
    with pytest.raises(ModelFileError):
        pcegp.load(path)


@pytest.mark.parametrize("max_gb", [0, -1, "2", None, np.nan])
def test_a_limit_that_is_none_is_named(max_gb):
    with pytest.raises(ValueError, match="max_gb="):
        pcegp.load("model.pcegp", max_gb=max_gb)


def test_the_kind_of_a_file_is_told_by_its_beginning_and_ending(tmp_path):
    MODEL.save(tmp_path / "model")
    for name, start in (("a", b"{}"), ("b.json", b"?"), ("c", b" <!DOCTYPE html>"),
                        ("d", b"\x89PNG\r\n"), ("e", b"a,b\n")):
        (tmp_path / name).write_bytes(start)
    names = [*"a", "b.json", *"cde", "model", "none"]
    good = {kind: "".join(name[0] for name in names if places.may_replace(tmp_path / name, kind))
            for kind in Kind}
    assert good == {Kind.MODEL: "mn", Kind.TABLE: "abcden", Kind.JSON: "abn", Kind.HTML: "cn",
                    Kind.PNG: "dn", Kind.ANY: "abcdemn"}
