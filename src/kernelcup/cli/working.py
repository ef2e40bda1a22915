"""What a terminal shows while something takes long of which no events are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def working(text: str, out: Console | None = None) -> Iterator[None]:
    """Show on a terminal's standard error what is done, and for how long; elsewhere nothing."""
    console = out or Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(text, total=None)
        yield
