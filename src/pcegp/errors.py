"""Named failures and warnings, and the texts that several modules share."""

from __future__ import annotations

from collections.abc import Iterable


class PCEGPError(Exception):
    """Anything this package refuses or fails at, with the next step in its text."""


class DataError(PCEGPError, ValueError):
    """The data cannot be used as they are."""


class SettingError(PCEGPError, ValueError):
    """A parameter has a value that cannot work."""


class BasisTooLargeError(PCEGPError, MemoryError, ValueError):
    """The polynomial basis would need more memory than allowed."""


class TrainingError(PCEGPError, ArithmeticError):
    """No start of the training reached a finite likelihood."""


class PCEGPWarning(UserWarning):
    """Anything the user should know about a result that is still valid."""


class DataWarning(PCEGPWarning):
    """The data are unusual: constant, very few, or more terms than points."""


class ExtrapolationWarning(PCEGPWarning):
    """Rows to predict lie outside the box of the training inputs."""


class NumericalWarning(PCEGPWarning):
    """Training needed help: jitter, a lower learning rate, or it was interrupted."""


def unknown_name(parameter: str, name: object, known: Iterable[str]) -> SettingError:
    """The error for a name that is not in a list of known ones."""
    return SettingError(f"{parameter}={name!r} is not known: choose from {', '.join(known)}")
