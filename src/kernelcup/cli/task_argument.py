"""What a TASK argument means: a path, a task that ships, or a leaderboard's task."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kernelcup.domain import Task
    from kernelcup.errors import NotFound

BOARD = "board:"
"""Before a name, it means the leaderboard even where a task that ships has the same name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """Where leaderboards are looked for, as the options say."""

    server: str | None
    local: bool
    config: Path | None


def find_task(text: str, where: Where) -> Task:
    """Load the task that a TASK argument means, of a leaderboard without its hidden cases.

    A path comes first, then a task that ships, then a leaderboard. Raise ``NotFound`` or ``InvalidTask``.
    """
    from kernelcup.tasks.loader import load_task

    path = _path(text, where)
    return load_task(path) if isinstance(path, Path) else _of_board(text, where, path)


@contextmanager
def task_place(text: str, where: Where) -> Iterator[Path]:
    """Give the path of the task that a TASK argument means; of a leaderboard it is written down first."""
    from kernelcup.tasks.writing import write_task

    path = _path(text, where)
    if isinstance(path, Path):
        yield path
        return
    task = _of_board(text, where, path)
    with tempfile.TemporaryDirectory(prefix="kernelcup-task-") as folder:
        written = write_task(task, Path(folder) / task.name)
        yield written[0].parent if written[0].name == "task.yml" else written[0]


def _path(text: str, where: Where) -> Path | NotFound | None:
    """Return a path; else why there is none; None where a leaderboard is meant for certain."""
    from kernelcup.cli import platform
    from kernelcup.errors import NotFound

    if text.startswith(BOARD):
        return None
    try:
        found = platform.task_path(text)
    except NotFound as error:
        return error
    if not Path(text).exists():
        _say_shipped(text, where)
    return found


def _say_shipped(text: str, where: Where) -> None:
    """Say that a task that ships is meant, where a leaderboard could be."""
    from kernelcup.cli.venue import choose

    if choose(where.server, local=where.local, config=where.config) is not None:
        typer.echo(f"task: {text}, which ships; the leaderboard's is {BOARD}{text}", err=True)


def _of_board(text: str, where: Where, why: NotFound | None) -> Task:
    from kernelcup.cli.board import find_board
    from kernelcup.cli.venue import choose, open_venue
    from kernelcup.errors import NotFound

    address = choose(where.server, local=where.local, config=where.config)
    place = "this machine's database" if address is None else address
    if address is None and why is not None and not _has_database(where):
        raise why
    with open_venue(where.server, where.local, where.config) as venue:
        try:
            return venue.whole_task(find_board(venue, text.removeprefix(BOARD)).name)
        except NotFound as error:
            if why is None:
                raise
            raise NotFound(f"{why}, and no leaderboard of {place}") from error


def _has_database(where: Where) -> bool:
    """Tell whether there is a database here: to look for a name must not make one."""
    from kernelcup.cli import platform

    url = platform.load_config(where.config).database_url
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()
