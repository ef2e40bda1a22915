"""The meaning of a TASK argument: a path, a shipped task, or a leaderboard's task."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from kernelcup.cli import wiring
from kernelcup.cli.backend.choosing import choose, open_backend
from kernelcup.domain import Task
from kernelcup.errors import NotFound

BOARD = "board:"
"""Prefix for a leaderboard's name, even if a shipped task has the same name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """The place to look for leaderboards, from the options."""

    server: str | None
    local: bool
    config: Path | None


def find_task(text: str, where: Where) -> Task:
    """Load the task for a TASK argument; a leaderboard's task comes without its hidden cases.

    A path comes first, then a shipped task, then a leaderboard. Raise ``NotFound`` or ``InvalidTask``.
    """
    return find_task_and_devices(text, where)[0]


def find_task_and_devices(text: str, where: Where) -> tuple[Task, list[str]]:
    """Load a task, as :func:`find_task` does, and name the devices that it or the leaderboard is meant for."""
    from kernelcup.tasks.loader import load_task

    path = _path(text, where)
    if isinstance(path, Path):
        task = load_task(path)
        return task, task.devices
    task, of_board = _of_board(text, where, path)
    return task, [*dict.fromkeys([*of_board, *task.devices])]


@contextmanager
def task_place(text: str, where: Where) -> Iterator[Path]:
    """Provide the path of the task for a TASK argument; a leaderboard's task is written to a folder first."""
    from kernelcup.tasks.writer import write_task

    path = _path(text, where)
    if isinstance(path, Path):
        yield path
        return
    task, _ = _of_board(text, where, path)
    with tempfile.TemporaryDirectory(prefix="kernelcup-task-") as folder:
        written = write_task(task, Path(folder) / task.name)
        yield written[0].parent if written[0].name == "task.yml" else written[0]


def _path(text: str, where: Where) -> Path | NotFound | None:
    """Return a path, or the error that there is none; None if the text names a leaderboard explicitly."""
    if text.startswith(BOARD):
        return None
    try:
        found = wiring.task_path(text)
    except NotFound as error:
        return error
    if not Path(text).exists():
        _say_shipped(text, where)
    return found


def _say_shipped(text: str, where: Where) -> None:
    """Report that a shipped task is used although a leaderboard could be meant."""
    if choose(where.server, local=where.local, config=where.config) is not None:
        typer.echo(f"task: {text}, a shipped task; for the leaderboard's task give {BOARD}{text}", err=True)


def _of_board(text: str, where: Where, why: NotFound | None) -> tuple[Task, Sequence[str]]:
    """Return a leaderboard's task and the names of its devices."""
    address = choose(where.server, local=where.local, config=where.config)
    place = "this machine's database" if address is None else address
    if address is None and why is not None and not _has_database(where):
        raise why
    with open_backend(where.server, where.local, where.config) as backend:
        try:
            board = backend.board(text.removeprefix(BOARD))
            return backend.whole_task(board.name), board.devices
        except NotFound as error:
            if why is None:
                raise
            raise NotFound(f"{why}, and no leaderboard of {place}") from error


def _has_database(where: Where) -> bool:
    """Return whether there is a database here: looking up a name must not create one."""
    url = wiring.load_config(where.config).database_url
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()
