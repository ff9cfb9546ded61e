"""Progress bars on stderr; silent unless asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Update = Callable[..., None]  # takes how far the work is, and the fields of the text


@contextmanager
def bar(show: bool, total: int | None, label: str, text: str = "", **fields: Any) -> Iterator[
    Update | None
]:
    """Yield a callable that moves the bar, or None if nothing is to be shown.

    Parameters
    ----------
    text : a format of what stands beside the bar, such as "loss {loss:.3f}"
    fields : what it shows before the first update
    """
    if not show:
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[text]}"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(label, total=total, text=text.format(**fields))

        def update(completed: int, **now: Any) -> None:
            shown.update(task, completed=completed, text=text.format(**(fields | now)))

        yield update
