"""The public part of a leaderboard's task: everything but the hidden cases, ready to be used with it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kernelcup.app.boards.boards import visible_task
from kernelcup.app.submissions.directives import write_directives
from kernelcup.domain import OPERATOR, Actor, Language, Leaderboard, Task
from kernelcup.engine.database import Database
from kernelcup.tasks.starter import all_templates


@dataclass(frozen=True, kw_only=True, slots=True)
class HandedOut:
    """A leaderboard's task in the form that its viewers may run."""

    task: Task
    """With the leaderboard's name and harness, without hidden cases."""
    hidden_tests: int
    hidden_benchmarks: int


def hand_out(db: Database, name: str, viewer: Actor = OPERATOR) -> HandedOut:
    """Return a leaderboard's task without hidden cases, for every viewer.

    Raise ``NotFound`` if the leaderboard does not exist for the viewer.
    """
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
