"""How a bench that looks for faults ends: it shows some, writes all, and a fault is an error."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pcegp.errors import PCEGPError
from pcegp.io import write_figures

_SHOWN = 5  # faults printed


def conclude(
    faults: Sequence[str], well: str, figures: Mapping[str, Any], json_path: Path | None,
    echo: Callable[[str], None],
) -> None:
    """Print the first faults, write the figures, and raise an error if there is a fault.

    Parameters
    ----------
    faults : what went wrong, each in one line
    well : what is printed where nothing did
    figures, json_path : what is written, and where
    echo : prints a line
    """
    for fault in faults[:_SHOWN]:
        echo(f"  {fault}")
    write_figures(json_path, figures, echo)
    if faults:
        count = "1 fault was" if len(faults) == 1 else f"{len(faults)} faults were"
        raise PCEGPError(f"{count} seen: look at the first above, and at all with --json")
    echo(well)
