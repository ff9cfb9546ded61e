"""What the commands write: checks before the work, and models that were not finished."""

import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

from pcegp.errors import DataError, FileError, PCEGPError
from pcegp.io import at_once, check_writable, special

Echo = Callable[[str], None]

#: Kinds of files that a command writes. ANY is never refused here: what goes on with the file
#: checks it.
MODEL, TABLE, JSON, HTML, PNG, ANY = "model", "table", "JSON", "HTML", "PNG", "any"
_ENDINGS = {JSON: (".json",), HTML: (".html", ".htm"), PNG: (".png",)}
_BEGINNINGS = {JSON: (b"{", b"["), HTML: (b"<!doctype html", b"<html"), PNG: (b"\x89png",)}
_MAGIC = slice(0, 4), slice(30, 40)  # of a zip, and the name of its first member


class Saveable(Protocol):
    """A model or a mixture."""

    def save(self, path: str | Path) -> Path: ...


def check_files(
    inputs: Mapping[str, Path], outputs: Sequence[tuple[str, Path | None, str]], force: bool
) -> None:
    """Refuse, before the work, outputs that would destroy something.

    Parameters
    ----------
    inputs : what each is, such as "table", and its path
    outputs : option, path or None, and kind of each file
    force : whether a file of another kind may be replaced
    """
    for what, given in inputs.items():
        found = special(given)
        if found not in (None, "a folder"):
            raise DataError(f"the {what} {given} is {found}: save it to a file first")
    seen: list[tuple[str, Path]] = []
    for option, path, kind in outputs:
        if path is None:
            continue
        for what, given in inputs.items():
            if _is_same(path, given):
                raise FileError(f"{option} {path} is the {what} itself: choose another file")
        for earlier, written in seen:
            if _is_same(path, written):
                raise FileError(f"{option} {path} is also {earlier}: choose another file")
        seen.append((option, path))
        check_writable(path)
        if not force and not _may_replace(path, kind):
            article = "an" if kind == HTML else "a"
            raise FileError(f"{option} {path} exists and is not {article} {kind} file: choose "
                            "another file, or replace it with --force")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there yet: some file systems hold A and a for the same name
        return _plain(one) == _plain(other)


def _plain(path: Path) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


def _may_replace(path: Path, kind: str) -> bool:
    """Tell whether what stands there is of that kind, as far as its beginning and ending show."""
    if kind == ANY or not path.exists():
        return True
    with path.open("rb") as stream:
        start = stream.read(64)
    if not start:
        return True
    is_model = tuple(start[part] for part in _MAGIC) == (b"PK\x03\x04", b"model.json")
    if kind == MODEL or is_model:
        return kind == MODEL and is_model
    if kind == TABLE:
        return True  # its ending says what is written, so what stands there is a table, too
    begins = start.lstrip().lower().startswith(_BEGINNINGS[kind])
    return begins or path.suffix.lower() in _ENDINGS[kind]


@contextmanager
def keeping(model: Saveable, out: Path, how_to_go_on: str) -> Iterator[None]:
    """Keep a trained model beside `out` if the block, which writes it, does not end well."""
    try:
        yield
    except KeyboardInterrupt:
        try:
            text = f"the model so far is in {_keep(model, out, 'interrupted')}"
        except (PCEGPError, OSError) as error:
            text = f"the model so far could not be kept ({error})"
        raise KeyboardInterrupt(f"{text}, {out} was not touched; {how_to_go_on}") from None
    except Exception as error:  # a training of an hour must not be lost by any error after it
        try:
            kept = _keep(model, out, "unfinished")
        except (PCEGPError, OSError):
            raise error from None
        raise PCEGPError(f"{error}; the trained model is in {kept}") from error


def _keep(model: Saveable, out: Path, why: str) -> Path:
    """Save a model under a name that is not taken."""
    names = (f"{out.stem}.{why}{'' if k == 1 else f'-{k}'}{out.suffix}" for k in count(1))
    free = next(path for path in map(out.with_name, names) if not os.path.lexists(path))
    with at_once():
        return model.save(free)


def print_scores(scores: Mapping[str, float], echo: Echo) -> None:
    """Print scores on one line."""
    echo("  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items()))
