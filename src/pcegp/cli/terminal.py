"""What commands say on the terminal beside their results."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size

#: Prints a line of the results.
Echo = Callable[[str], None]

_LONGEST = 10_000  # characters of a message
_CLEAR = "\r\x1b[K"  # back to the start of the line, and delete it

_stages: list[str] = []  # those on the terminal now; only the last is seen


def is_terminal() -> bool:
    """Tell whether bars and stages are seen."""
    return sys.stderr.isatty()


def say(command: str, text: object) -> None:
    """Say something about a command on stderr, in one line.

    Nothing that a path or a name holds may steer the terminal.
    """
    from pcegp.errors import shown

    line = f"pcegp {command}: {shown(' '.join(str(text).split()), _LONGEST)}"
    _hide_stage()
    print(line, file=sys.stderr, flush=True)
    _show_stage()


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Show on a terminal what is being done, until it is done."""
    if not is_terminal():
        yield
        return
    from pcegp.errors import shown

    # A line that is broken in two could not be deleted. What is escaped gets longer.
    width = max(1, get_terminal_size().columns - 2)
    _hide_stage()
    _stages.append(shown(shown(f"{text} ...", width), width))
    _show_stage()
    try:
        yield
    finally:
        _hide_stage()
        _stages.pop()
        _show_stage()


def _hide_stage() -> None:
    if _stages:
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def _show_stage() -> None:
    if _stages:
        print(_stages[-1], end="", file=sys.stderr, flush=True)
