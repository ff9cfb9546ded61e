"""A picture of a benchmark, where matplotlib is installed."""

from collections.abc import Callable
from pathlib import Path

from pcegp.errors import MissingPackageError, needed
from pcegp.io import replacing


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
