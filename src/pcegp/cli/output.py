"""Output that several commands share."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pcegp.io import check_writable

Echo = Callable[[str], None]


def check_outputs(*paths: Path | None) -> None:
    """Refuse, before the work, files that cannot be written; None is no file."""
    for path in paths:
        if path is not None:
            check_writable(path)


def print_scores(scores: Mapping[str, float], echo: Echo) -> None:
    """Print scores on one line."""
    echo("  " + "  ".join(f"{name} {value:.4g}" for name, value in scores.items()))
