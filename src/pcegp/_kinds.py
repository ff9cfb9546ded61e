"""Kinds and names of files, without the packages that read and write them: help stays quick."""

from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """Kinds of files; the texts stand in messages."""

    MODEL = "model"
    TABLE = "table"
    JSON = "JSON"
    HTML = "HTML"
    PNG = "PNG"
    #: Never refused for its content: what goes on with the file checks it.
    ANY = "any"

    def one(self) -> str:
        """Name one file of this kind."""
        return f"{'an' if self is Kind.HTML else 'a'} {self} file"


def journal_of(study: str) -> Path:
    """Name the journal file of a study for which no storage is given."""
    return Path(f"{study}.journal")
