"""What a command reads and writes, as its options declare it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pcegp._kinds import Kind


class Input(NamedTuple):
    """A file that a command reads: what it is in messages, its path, and its kind."""

    what: str
    path: Path
    kind: Kind


class Output(NamedTuple):
    """A file that a command writes, if there is a path.

    Parameters
    ----------
    option : the option that names it
    path : its place
    kind : what it will hold
    makes_folder : whether the command fills a whole folder and makes that
    """

    option: str
    path: Path | None
    kind: Kind
    makes_folder: bool = False


def files_in(folder: Path | None, what: str) -> Iterator[Input]:
    """List the files of a folder as inputs; none if there is no such folder."""
    if folder is not None and folder.is_dir():
        for path in folder.iterdir():
            if path.is_file():
                yield Input(f"{what} {path.name}", path, Kind.ANY)
