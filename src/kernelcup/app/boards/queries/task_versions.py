"""Task versions, stored once by their content."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, delete, exists, select, update
from sqlalchemy.orm import Session

from kernelcup.domain import Language, RankingBy, Task
from kernelcup.engine.database import insert_if_absent
from kernelcup.errors import NotFound
from kernelcup.tables import JobRow, LeaderboardRow, RunRow, TaskVersionRow
from kernelcup_harness.protocol import HarnessKind


def save(session: Session, task: Task, *, now: datetime) -> str:
    """Store a task unless an equal one exists, and return its hash; newer times of its reference replace older ones."""
    insert_if_absent(
        session,
        TaskVersionRow,
        hash=task.content_hash,
        name=task.name,
        lang=task.lang.value,
        ranking_by=task.ranking_by.value,
        body=dict(task.to_json()),
        created_at=now,
    )
    if task.reference_s:
        mine = TaskVersionRow.hash == task.content_hash
        session.execute(update(TaskVersionRow).where(mine).values(body=dict(task.to_json())))
    return task.content_hash


def load(session: Session, task_hash: str) -> Task:
    body = session.scalar(_BODY, {"hash": task_hash})
    if body is None:
        raise NotFound(f"There is no task version {task_hash}.")
    return Task.from_json(body)


_BODY = select(TaskVersionRow.body).where(TaskVersionRow.hash == bindparam("hash"))


def accepted(session: Session, task_hash: str, harness: HarnessKind) -> tuple[Language, ...]:
    """Return the languages of a task's submissions under a harness; the task is read once."""
    known = _LANGUAGES.get((task_hash, harness))
    if known is None:
        known = _LANGUAGES[task_hash, harness] = load(session, task_hash).accepted(harness)
    return known


_LANGUAGES: dict[tuple[str, HarnessKind], tuple[Language, ...]] = {}
"""A cache, because each submission needs it; a version never changes, since its hash covers its content."""


def judged_by(session: Session, task_hash: str, harness: HarnessKind) -> tuple[RankingBy, str]:
    """Return how a task is scored, and the hash of all that judging it under a harness depends on."""
    known = _JUDGED.get((task_hash, harness))
    if known is None:
        task = load(session, task_hash)
        known = _JUDGED[task_hash, harness] = task.ranking_by, task.judging(harness)
    return known


_JUDGED: dict[tuple[str, HarnessKind], tuple[RankingBy, str]] = {}


def delete_unused(session: Session, task_hash: str) -> None:
    """Delete a task version that no leaderboard and no job refers to any more."""
    used = exists().where(LeaderboardRow.task_hash == task_hash)
    waiting = exists().where(JobRow.task_hash == task_hash)
    judged = exists().where(RunRow.task_hash == task_hash)
    unused = (TaskVersionRow.hash == task_hash, ~used, ~waiting, ~judged)
    session.execute(delete(TaskVersionRow).where(*unused))
