"""The public part of a leaderboard's task: everything but the hidden cases, ready to be used with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kernelcup.app.boards.boards import visible_task
from kernelcup.app.machines.queries import calibrations
from kernelcup.app.operation import Board, Given, operation
from kernelcup.app.submissions.directives import write_directives
from kernelcup.domain import OPERATOR, Actor, Device, Language, Leaderboard, Task, TaskInfo
from kernelcup.engine import Database
from kernelcup.launchers import environments
from kernelcup.tasks.public_code import judging_code, our_code
from kernelcup.tasks.starter import all_templates


@dataclass(frozen=True, kw_only=True, slots=True)
class HandedOut:
    """A leaderboard's task in the form that its viewers may run."""

    task: Task
    """With the leaderboard's name and harness, without hidden cases."""
    hidden_tests: int
    hidden_benchmarks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A text file."""

    name: str
    text: str


@operation("GET", "/leaderboards/{name}/task", subject="tasks")
def show_task(
    db: Database,
    name: Board,
    viewer: Actor = OPERATOR,
    *,
    known_devices: Sequence[Device] = (),
    home: Path | None = None,
) -> TaskInfo:
    """Show a leaderboard's task: statement, cases, limits. Hidden cases are counted."""
    found = visible_task(db, name, viewer)
    return dataclasses.replace(
        TaskInfo.of(found.task),
        content_hash=found.board.task_hash,
        harness=found.board.harness,
        hidden_tests=found.hidden_tests,
        hidden_benchmarks=found.hidden_benchmarks,
        hidden_cases=[*found.task.hidden_tests, *found.task.hidden_benchmarks],
        templates=list(templates_of(found.board, found.task)),
        packages=packages_of(db, found.board, found.task, known_devices=known_devices, home=home),
    )


def packages_of(
    db: Database, board: Leaderboard, task: Task, *, known_devices: Sequence[Device], home: Path | None
) -> str:
    """Return the packages of the environment of a leaderboard's submissions, empty if they are not known."""
    if home is not None and any(each.is_here and each.name in board.devices for each in known_devices):
        return environments.packages_here(home / environments.FOLDER, task.environment)
    with db.read() as session:
        elsewhere = [each for each in calibrations.newest(session) if each.device in board.devices]
    return "" if task.environment else next((each.found.packages for each in elsewhere), "")


@operation("GET", "/leaderboards/{name}/task/definition", subject="tasks")
def hand_out(db: Database, name: Board, viewer: Actor = OPERATOR) -> HandedOut:
    """Show the whole task, as `kernelcup board get` writes it to a folder. Hidden cases are left out."""
    visible = visible_task(db, name, viewer)
    task = dataclasses.replace(
        visible.task,
        name=visible.board.name,
        harness=visible.board.harness,
        templates=templates_of(visible.board, visible.task),
        hidden_tests=[],
        hidden_benchmarks=[],
        hidden_work=[],
    )
    return HandedOut(
        task=task, hidden_tests=visible.hidden_tests, hidden_benchmarks=visible.hidden_benchmarks
    )


@operation("GET", "/leaderboards/{name}/harness", subject="tasks")
def show_harness(db: Database, name: Board, viewer: Actor) -> list[File]:
    """Show the judging code: ours, or the task's own. No part of the evaluation is hidden."""
    found = visible_task(db, name, viewer)
    return _files(judging_code(found.task, found.board.harness))


@operation("GET", "/harness", subject="tasks")
def show_our_harness(
    language: Annotated[
        Language, Given(help="Of the submissions that the overview is for.")
    ] = Language.PYTHON,
) -> list[File]:
    """Show the standard harness. The first file is an overview for submissions in `language`."""
    return _files(our_code(language))


def _files(texts: Mapping[str, str]) -> list[File]:
    return [File(name=name, text=text) for name, text in texts.items()]


def templates_of(board: Leaderboard, task: Task) -> dict[str, str]:
    """Return the templates by language, with directives for the leaderboard."""
    return {
        language: write_directives(
            text,
            board.name,
            board.devices,
            mark="//" if task.language_of_template(text) is Language.CUDA else "#",
        )
        for language, text in all_templates(task, board.harness).items()
    }
