"""The options of `pcegp tune`, apart from the search, which takes long to import."""

import re
from dataclasses import dataclass
from pathlib import Path


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

    def file(self, data: Path, target: str) -> Path | None:
        """Find the file that holds the study; None if there is none, as on a server."""
        place = self.storage or f"{self.named(data, target)}.journal"
        scheme, found, rest = place.partition(":///")
        if found and scheme.startswith("sqlite"):
            file = rest.partition("?")[0]
            return Path(file) if file else None  # in memory, which the storage refuses
        from pcegp.io import is_address

        # What is neither a file nor a URL is refused by the storage, which hides a password.
        return None if self.storage and is_address(place) else Path(place)
