"""Ctrl-C in a process that is one command: the first one ends it, whatever it turns into."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_pressed: list[int] = []  # signals that have arrived; there is one at most


def listen() -> None:
    """Let the first Ctrl-C interrupt the command."""
    # Who starts a command in the background may have turned Ctrl-C off.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt_once)


def _interrupt_once(number: int, _frame: FrameType | None) -> NoReturn:
    """Interrupt the command; another Ctrl-C must not end what keeps its model."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _pressed.append(number)
    raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[None]:
    """Let what a Ctrl-C has become in the block be an interrupt again.

    In the import of a compiled extension, say, it surfaces as an ImportError.
    """
    try:
        yield
    except Exception as error:  # an interrupt may surface as any error of other code
        if _pressed:
            raise KeyboardInterrupt from error
        raise
