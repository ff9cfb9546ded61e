"""The progress of a search: trials, best score and time left; silent unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pcegp.records import Record, finished


@contextmanager
def search_progress(
    show: bool, total: int, objective: str
) -> Iterator[Callable[[Sequence[Record]], None] | None]:
    """A callable that takes the trials so far, or None if nothing is to be shown."""
    if not show:
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn(f"best {objective} {{task.fields[best]}}"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("trials", total=total, best="-")

        def update(records: Sequence[Record]) -> None:
            done = [record for record in records if record.state.is_finished()]
            scores = [record.mean(objective, objective) for record in finished(done)]
            bar.update(task, completed=len(done), best=f"{min(scores):.4g}" if scores else "-")

        yield update
