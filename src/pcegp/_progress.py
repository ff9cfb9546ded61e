"""Progress bars on stderr; silent unless asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Update = Callable[..., None]  # takes how far the work is, and the fields of the text


class _Unknown:
    """Value that is not there yet: an ellipsis in every format."""

    def __format__(self, spec: str) -> str:
        return "…"


_UNKNOWN = _Unknown()


@contextmanager
def bar(
    show: bool, total: int | None, label: str, text: str = "", prefix: str = "", **fields: Any
) -> Iterator[Update | None]:
    """Yield a callable that moves the bar, or None if nothing is to be shown.

    The callable takes the amount done and fields of the text. With a `label`, and perhaps a
    `total`, it begins a new bar below. Without a total the bar shows only the time.

    Parameters
    ----------
    text : a format of what stands beside the bar, such as "loss {loss:.3f}"
    prefix : stands before every label
    fields : what it shows before the first update; None and NaN are shown as an ellipsis
    """
    if not show:
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    def written(values: dict[str, Any]) -> str:
        known = {name: _UNKNOWN if value is None or value != value else value  # noqa: PLR0124
                 for name, value in values.items()}
        return text.format(**known)

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
        task = shown.add_task(prefix + label, total=total, text=written(fields))

        def update(
            completed: int, label: str | None = None, total: int | None = None, **now: Any
        ) -> None:
            nonlocal task
            fields.update(now)
            if label is not None:
                shown.stop_task(task)
                # A stage that was counted stays in sight; any other one goes.
                before = shown.tasks[-1]
                shown.update(task, visible=before.total is not None and before.completed > 0)
                task = shown.add_task(prefix + label, total=total, text="")
            shown.update(task, completed=completed, text=written(fields))

        yield update
