"""The options of `pcegp tune`, apart from the search, which takes long to import."""

import re
from dataclasses import dataclass
from pathlib import Path

from pcegp._kinds import Kind, journal_of
from pcegp.cli.paths import Output


@dataclass(frozen=True)
class Choices:
    """The options of the command that describe the search."""

    space: str = "auto"
    objective: str | None = None
    trials: int | None = None
    time: str | None = None
    jobs: int = 1
    storage: str | None = None
    study: str | None = None
    ensemble: int | None = None
    seed: int = 0

    def named(self, data: Path, target: str) -> str:
        """Name the study as the user does, or by table and target; a file may have that name."""
        stem = "table" if str(data) == "-" else Path(data.name.removesuffix(".gz")).stem
        return self.study or re.sub(r"[/\\]", "_", f"{stem}-{target}")

    def place(self, data: Path, target: str) -> str:
        """Tell where the study is kept: in a journal file or a database."""
        return self.storage or str(journal_of(self.named(data, target)))

    def output(self, data: Path, target: str) -> Output:
        """Declare the file that holds the study; it has no path if there is none, as on a server.

        Messages call it by the option that names it.
        """
        option = ("--storage" if self.storage else
                  "the journal of --study" if self.study else "the journal of the study")
        from pcegp.io import is_address

        place = self.place(data, target)
        scheme, found, rest = place.partition(":///")
        path: Path | None = None if "://" in place else Path(place)
        if found and scheme.startswith("sqlite"):
            file = rest.partition("?")[0]
            path = Path(file) if file else None  # in memory, which the storage refuses
        elif self.storage and is_address(place):
            path = None  # neither a file nor a URL: the storage refuses it, and hides a password
        return Output(option, path, Kind.ANY)
