"""Packages beyond a plain installation, imported where they are used."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pcegp.errors import SettingError
from pcegp.io import replacing


class MissingPackageError(SettingError, ImportError):
    """A package is not installed; the text names what needs it and the extra that brings it."""


def needed(module: str, by: str, extra: str = "bench") -> Any:
    """Import a module; `by` names what needs it in the error where a package is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{by} needs {error.name}: pip install 'pcegp[{extra}]'"
        ) from error


def write_picture(
    path: Path, draw: Callable[[Path], None], echo: Callable[[str], None]
) -> None:
    """Draw to a file and say so, or say what is missing."""
    try:
        needed("matplotlib", "the picture", "plot")
    except MissingPackageError as error:
        echo(f"\nNo picture: {error}")
        return
    with replacing(path) as temporary:
        draw(temporary)
    echo(f"\nPicture written to {path}")
