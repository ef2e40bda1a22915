"""Consoles that print for people: on a terminal, or into a file."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from rich.console import Console
from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 160


class PlainConsole(Console):
    """A console that leaves a broken pipe to its caller."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise the error; rich would end the process."""
        raise BrokenPipeError


def console() -> Console:
    """Return a console for standard output. Prose is wrapped on a terminal; in a file, tables are wide."""
    terminal = sys.stdout.isatty()
    free = not terminal and "COLUMNS" not in os.environ
    width = WIDTH_WITHOUT_TERMINAL if free else None
    return PlainConsole(highlight=False, soft_wrap=not terminal, width=width)


def raw(out: Console, text: str) -> None:
    """Print lines as they are, however long."""
    out.print(Text(text), soft_wrap=True)
