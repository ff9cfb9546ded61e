"""Progress bars for training and for rows of a table; silent unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    show: bool, total: int, label: str
) -> Iterator[Callable[[int, float], None] | None]:
    """A callable that takes (iteration, loss), or None if nothing is to be shown."""
    if not show:
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("loss {task.fields[loss]:.3f}"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, loss=float("nan"))

        def update(iteration: int, loss: float) -> None:
            bar.update(task, completed=iteration, loss=loss)

        yield update


@contextmanager
def row_bar(
    show: bool, total: int | None, label: str = "rows"
) -> Iterator[Callable[[int], None] | None]:
    """A callable that takes how far the work is, or None if nothing is to be shown."""
    if not show:
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda position: bar.update(task, completed=position)
