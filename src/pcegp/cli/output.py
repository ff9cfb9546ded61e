"""What the commands write: checks before the work, and models that were not finished."""

import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Protocol

from pcegp._kinds import Kind
from pcegp.cli.ctrl_c import interrupts
from pcegp.cli.paths import Input, Output
from pcegp.cli.terminal import Echo
from pcegp.errors import DataError, FileError, ModelFileError, PCEGPError, shown
from pcegp.io import (
    START,
    ZIP_START,
    check_plain,
    folder_of,
    is_model_start,
    output_path,
    taking_place_alone,
)

_WORKBOOKS = (".xlsx", ".xlsm")
_PATH = 1000  # characters of a path in a message


class Saveable(Protocol):
    """A model or a mixture."""

    def save(self, path: str | Path) -> Path: ...


def check_files(inputs: Sequence[Input], outputs: Sequence[Output], force: bool) -> None:
    """Refuse, before the work, inputs that cannot be read and outputs that would destroy something.

    Parameters
    ----------
    inputs, outputs : files of the command
    force : whether a file of another kind may be replaced
    """
    for each in inputs:
        _check_input(each)
    named = [(*output, output.path) for output in outputs if output.path is not None]
    made = {folder_of(path) for *_, makes_folder, path in named if makes_folder}
    others = [(f"the {given.what} itself", given.path) for given in inputs]
    for option, _, kind, _, path in named:
        called = f"{option} {shown(path, _PATH)}"
        for what, other in others:
            if _is_same(path, other):
                raise FileError(f"{called} is {what}: choose another file")
        others.append((f"also {option}", path))
        output_path(path, kind, force, called=called, override="--force", new_folders=made)


def _check_input(given: Input) -> None:
    what, path, kind = given
    if not path.is_dir():  # whoever reads the file says what it should be
        check_plain(path, DataError, f"save the {what} to a file first")
    if kind == Kind.MODEL:
        _check_model(path)


def _check_model(path: Path) -> None:
    """Refuse what is known to be no model; whoever reads the file checks the rest."""
    if str(path) == "-":
        raise ModelFileError("a model cannot come from the standard input (-): give the path of "
                             "its file")
    with suppress(OSError), path.open("rb") as stream:
        start = stream.read(START)
        if start.startswith(ZIP_START) and not is_model_start(start):
            seen = "an Excel workbook" if path.suffix.lower() in _WORKBOOKS else "a zip archive"
            raise ModelFileError(f"{path} is {seen}, not a model file: give one that pcegp fit, "
                                 "pcegp tune or model.save made")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there yet: some file systems hold A and a for the same name
        return _plain(one) == _plain(other)


def _plain(path: Path) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


@contextmanager
def keeping(model: Saveable, out: Path, how_to_go_on: str) -> Iterator[None]:
    """Keep a trained model beside `out` if the block, which writes it, does not end well.

    An interrupt, or whatever went wrong, goes on; it tells where the model is. The block may train
    the model itself: before it is trained, there is nothing to keep.
    """
    try:
        with interrupts():
            yield
    except KeyboardInterrupt:
        if not _is_trained(model):
            raise
        try:
            text = f"the model so far is in {_keep(model, out, 'interrupted')}"
        except (PCEGPError, OSError) as error:
            text = f"the model so far could not be kept ({error})"
        raise KeyboardInterrupt(f"{text}, {out} was not touched; {how_to_go_on}") from None
    except Exception as error:  # a training of an hour must not be lost by any error after it
        if not _is_trained(model):
            raise
        with suppress(PCEGPError, OSError):  # the first error is what the user must know
            error.add_note(f"the trained model is in {_keep(model, out, 'unfinished')}")
        raise


def _is_trained(model: Saveable) -> bool:
    return hasattr(model, "model_") or hasattr(model, "estimators_")


def _keep(model: Saveable, out: Path, why: str) -> Path:
    """Save a model under a name that is not taken."""
    names = (f"{out.stem}.{why}{'' if k == 1 else f'-{k}'}{out.suffix}" for k in count(1))
    free = next(path for path in map(out.with_name, names) if not os.path.lexists(path))
    with taking_place_alone():
        return model.save(free)


def print_structure(text: str, echo: Echo) -> None:
    """Print what a model is made of, see `pcegp.inspection.structure_text`."""
    echo("\nStructure")
    for line in text.splitlines():
        echo(f"  {line}")


def print_scores(scores: Mapping[str, float], echo: Echo) -> None:
    """Print scores on one line."""
    echo("  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items()))
