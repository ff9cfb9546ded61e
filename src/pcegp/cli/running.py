"""How a command runs: its checks, the places of its files, and how it ends.

Outputs that would destroy something are refused before the work. Errors and interrupts become
one sentence and an exit code here and nowhere else; warnings become notes.
"""

import io
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from pcegp.cli.ctrl_c import interrupts, listen
from pcegp.cli.paths import Input, Output
from pcegp.cli.terminal import Echo, say, stage

FAILED, TYPED_WRONGLY, INTERRUPTED = 1, 2, 130

#: Whether the command is the whole process, and not run by a test.
is_process: ContextVar[bool] = ContextVar("is_process", default=False)


def begin_process() -> None:
    """Prepare a process that is one command: what it can print, and Ctrl-C."""
    is_process.set(True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # of any encoding, which may lack letters of names
            stream.reconfigure(errors="backslashreplace")
    listen()


# What users type for the parameters that errors name.
_OPTIONS = {
    "n_jobs": "jobs", "random_state": "seed",
    **{name: name for name in (
        "band", "budget", "categorical", "features", "interval", "jobs", "methods", "objective",
        "only", "out", "preset", "protocol", "space", "time")},
}


@contextmanager
def running(
    command: str, debug: bool, *, inputs: Sequence[Input] = (), outputs: Sequence[Output] = (),
    force: bool = False, at_the_end: bool = False, if_interrupted: str = "",
) -> Iterator[Echo]:
    """Run the block of a command; yield the function by which it prints.

    Parameters
    ----------
    inputs, outputs, force : see `pcegp.cli.output.check_files`
    at_the_end : whether all files take their places, and all is printed, when the work is done;
        an interrupt before that changes no file, and one after it comes too late
    if_interrupted : what the user should know after Ctrl-C, unless the block itself says more
    """
    try:
        with _notes(command):
            with interrupts():
                with stage("starting"):
                    from pcegp.cli.output import check_files
                check_files(inputs, outputs, force)
            if at_the_end:
                yield from _finished()
            else:
                with interrupts():
                    yield _print
    except BrokenPipeError:
        raise  # the reader has enough, as in `| head`: typer ends quietly
    except KeyboardInterrupt as reason:
        what = str(reason) or if_interrupted or ("no file was changed" if at_the_end else "")
        _end(command, f"interrupted: {what}" if what else "interrupted", INTERRUPTED)
    except Exception as error:  # the user gets one sentence, whatever went wrong
        if debug:
            raise
        _end(command, *_explained(error))


def _end(command: str, text: str, code: int) -> NoReturn:
    say(command, text)
    raise SystemExit(code) from None


def _explained(error: Exception) -> tuple[str, int]:
    """Give the sentence and the exit code of an error."""
    from pcegp.errors import MissingPackageError, PCEGPError, SettingError

    text, code = str(error) or _without_text(error), FAILED
    if isinstance(error, SettingError) and not isinstance(error, MissingPackageError):
        text, code = _as_typed(text)
    elif not isinstance(error, (PCEGPError, OSError, MemoryError)):
        text = (f"an error of pcegp itself ({type(error).__name__}: {text}): please report it "
                "with what --debug shows")
    return "; ".join([text, *getattr(error, "__notes__", ())]), code


def _without_text(error: Exception) -> str:
    return "out of memory" if isinstance(error, MemoryError) else "no text"


def _as_typed(text: str) -> tuple[str, int]:
    """Name the option that an error is about, as the user types it, and tell the exit code.

    An error about the value of an option begins with it, as `n_jobs=-3 must be …` or
    `--time 'soon' is …`. Others are about something that is not on the command line, such as the
    settings in a model file.
    """
    match = re.match(r"(?:--(\w+)\b|(\w+)=)", text)
    option = _OPTIONS.get(match[1] or match[2]) if match else None
    if match is None or option is None:
        return text, FAILED
    return f"--{option} {text[match.end():].lstrip()}", TYPED_WRONGLY


@contextmanager
def _notes(command: str) -> Iterator[None]:
    """Say our warnings as notes."""
    from pcegp.errors import PCEGPWarning

    def note(message: Warning | str, *_: object, **__: object) -> None:
        say(command, f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", PCEGPWarning)
        warnings.showwarning = note
        yield


def _print(line: str) -> None:
    from pcegp.errors import FileError

    try:
        print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(f"the standard output takes no more text ({error.strerror}): make room "
                        "where it goes") from error


def _finished() -> Iterator[Echo]:
    """Yield a function that keeps lines, and print them when the files are in their places."""
    from pcegp.errors import FileError
    from pcegp.io import Together

    lines: list[str] = []
    with Together() as files:
        with interrupts():
            yield lines.append
        with _uninterrupted():
            written = files.commit()
            try:
                for line in lines:
                    _print(line)
            except FileError as error:
                if written:
                    error.add_note(f"{', '.join(map(str, written))} was written before")
                raise


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C in the block; if the command is the whole process, up to its end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no signal arrives in this thread
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if not is_process.get():
            signal.signal(signal.SIGINT, before)
