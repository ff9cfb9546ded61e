"""Places for files: what a path may be, and which existing file a new one may replace.

A file takes the place of one of its own kind, as far as beginning and ending show. One of another
kind stays, unless its user says otherwise.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pcegp._kinds import Kind
from pcegp.errors import FileError, PCEGPError, shown
from pcegp.io.archive import START, is_model_start
from pcegp.io.files import check_writable

_ENDINGS = {Kind.JSON: (".json",), Kind.HTML: (".html", ".htm"), Kind.PNG: (".png",)}
_BEGINNINGS = {Kind.JSON: (b"{", b"["), Kind.HTML: (b"<!doctype html", b"<html"),
               Kind.PNG: (b"\x89png",)}
_ADDRESS, _DRIVE = re.compile(r"[^/\\]*:"), re.compile(r"[A-Za-z]:[/\\]")
_LONGEST = 1000  # characters of a path in a message


def may_replace(path: Path, kind: Kind) -> bool:
    """Tell whether what stands at a path is of that kind, empty or not there.

    Parameters
    ----------
    path : Path
    kind : Kind
        What is to be written.
    """
    if kind is Kind.ANY or not path.exists():
        return True
    with path.open("rb") as stream:
        start = stream.read(START)
    if not start:
        return True
    is_model = is_model_start(start)
    if kind is Kind.MODEL or is_model:
        return kind is Kind.MODEL and is_model
    if kind is Kind.TABLE:
        return True  # its ending says what is written, so what stands there is a table, too
    begins = start.lstrip().lower().startswith(_BEGINNINGS[kind])
    return begins or path.suffix.lower() in _ENDINGS[kind]


def output_path(
    path: Any, kind: Kind, force: bool, *, called: str = "", override: str = "force=True",
    new_folders: Collection[Path] = (),
) -> Path:
    """Make a path of what a user names for a new file, or say why it cannot be one.

    Parameters
    ----------
    path : str or path-like
    kind : Kind
        What is to be written.
    force : bool
        Whether a file of another kind may be replaced.
    called : str
        What messages call the file, such as `--out model.pcegp`; empty for its path.
    override : str
        How the user says that a file of another kind may be replaced.
    new_folders : collection of Path
        Folders that are made for the files in them.
    """
    place = named_path(path, FileError)
    name, folder = called or shown(place, _LONGEST), folder_of(place)
    check_writable(place, name)
    if not (folder in new_folders or folder.exists()):
        raise FileError(f"{name} lies in the folder {shown(folder, _LONGEST)}, which does not "
                        "exist: create it, or choose another place")
    advice = f"choose another place, or replace it with {override}"
    try:
        is_right = force or may_replace(place, kind)
    except OSError as error:
        raise FileError(f"{name} exists and cannot be read ({error.strerror}), so nobody knows "
                        f"whether it is {kind.one()}: {advice}") from error
    if not is_right:
        raise FileError(f"{name} exists and is not {kind.one()}: {advice}")
    return place


def folder_of(path: Path) -> Path:
    """Find the folder that a file will lie in; links are followed."""
    return Path(os.path.realpath(path)).parent


def is_address(text: str) -> bool:
    """Tell whether a text is meant as an address: a colon stands in it before any slash.

    So it is in `scheme:…` and `user:password@…`. A file with such a name is `./NAME`.
    """
    return _ADDRESS.match(text) is not None and _DRIVE.match(text) is None


def named_path(path: Any, failure: type[PCEGPError]) -> Path:
    """Make a path of what a user names a file by; anything else is a `failure`."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise failure(f"{shown(repr(path))} is no path: name a file by a text or a Path")
    text = os.fspath(path)
    if not text:
        raise failure("a file needs a name: give one, such as 'model.pcegp'")
    try:
        is_usable = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_usable = False
    if not is_usable:
        raise failure(f"no file can be called '{shown(text, _LONGEST)}': give another name")
    return Path(text)
