"""Progress of long work without events: a live line on a terminal, one line a step elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from kernelcup.cli.show.output import plain


@contextmanager
def working(
    text: str, out: Console | None = None, *, quiet: bool = False, has_steps: bool = False
) -> Iterator[Callable[[str], None]]:
    """Show current work on standard error, on a terminal with its duration; ``quiet`` shows nothing.

    Yield a function that prints a line about a step of it. Work that has steps is not a line of its own.
    """
    console = out or Console(stderr=True, highlight=False, soft_wrap=True)

    def say(step: str) -> None:
        if not quiet:
            console.print(Text(plain(step)))

    if quiet or not console.is_terminal:
        if not has_steps:
            say(text)
        yield say
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(text, total=None)
        yield say
