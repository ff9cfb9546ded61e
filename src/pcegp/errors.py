"""Named failures and warnings, and the texts that several modules share."""

import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).parent)


class PCEGPError(Exception):
    """Anything this package refuses or fails at, with the next step in its text."""


class DataError(PCEGPError, ValueError):
    """The data cannot be used as they are."""


class SettingError(PCEGPError, ValueError):
    """A parameter has a value that cannot work."""


class MissingPackageError(SettingError, ImportError):
    """A package is not installed; the text names what needs it and the extra that brings it."""


class BasisTooLargeError(PCEGPError, MemoryError, ValueError):
    """The polynomial basis would need more memory than allowed."""


class OutOfMemoryError(PCEGPError, MemoryError):
    """A fit would need more memory than there is."""


class TrainingError(PCEGPError, ArithmeticError):
    """No start of the training reached a finite likelihood."""


class NotPositiveDefiniteError(PCEGPError, ArithmeticError):
    """A covariance matrix has no Cholesky factor, even with the largest jitter."""

    def __init__(self) -> None:
        super().__init__(
            "the covariance is not positive definite, even with jitter: raise noise_floor"
        )


class FileError(PCEGPError, OSError):
    """A file cannot be written."""


class ModelFileError(PCEGPError, ValueError):
    """A file is not a model that can be loaded."""


class StorageError(PCEGPError, OSError):
    """The place where a search keeps its trials cannot be used."""


class SearchError(PCEGPError, ArithmeticError):
    """No trial of a search could be evaluated."""


class PCEGPWarning(UserWarning):
    """Anything the user should know about a result that is still valid."""


class DataWarning(PCEGPWarning):
    """The data are unusual: constant, very few, or more terms than points."""


class ExtrapolationWarning(PCEGPWarning):
    """Rows to predict lie outside the box of the training inputs."""


class NumericalWarning(PCEGPWarning):
    """Training needed help: jitter, a lower learning rate, or it was interrupted."""


def needed(module: str, by: str, extra: str = "bench") -> Any:
    """Import a module; `by` names what needs it in the error where a package is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{by} needs {error.name}: pip install 'pcegp[{extra}]'"
        ) from error


def shown(text: object, limit: int = 60) -> str:
    """Make a text of the user's safe to print in a message: on one line, and not too long.

    Control characters, line ends, half surrogate pairs and marks that turn the direction of
    writing are escaped, so a name or cell of a table cannot steer a terminal or forge a message.

    Parameters
    ----------
    text : object
        What is shown, by its `str`.
    limit : int
        The most characters of it that are shown.

    Returns
    -------
    str
        Printable characters only.
    """
    whole = str(text)
    part = whole[:limit]
    if not part.isprintable():
        part = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in part
        )
    return part + ("…" if len(whole) > limit else "")


def unknown_name(parameter: str, name: object, known: Iterable[str]) -> SettingError:
    """Make the error for a name that is not in a list of known ones."""
    return SettingError(f"{parameter}={name!r} is not known: choose from {', '.join(known)}")


def warn(text: str, category: type[PCEGPWarning]) -> None:
    """Warn at the line outside this package that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
