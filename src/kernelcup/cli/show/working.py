"""A terminal's progress display for long work without events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def working(text: str, out: Console | None = None) -> Iterator[None]:
    """Show current work and its duration on standard error, if that is a terminal."""
    console = out or Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(text, total=None)
        yield
