"""Submissions and their code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Select, delete, exists, select
from sqlalchemy.orm import Session

from kernelcup.domain import JobState, Leaderboard, Priority, Submission
from kernelcup.storage.database import insert_if_absent
from kernelcup.storage.tables import (
    CodeRow,
    JobRow,
    LeaderboardRow,
    ScreeningFindingRow,
    SubmissionRow,
    UserRow,
)
from kernelcup_harness.protocol import Mode


def insert(
    session: Session,
    *,
    board: Leaderboard,
    user_id: int,
    code: str,
    file_name: str,
    mode: Mode,
    devices: Sequence[str],
    now: datetime,
) -> int:
    """Store a submission with one queued job for each device, and return its id."""
    code_hash = hashlib.sha256(code.encode()).hexdigest()
    insert_if_absent(session, CodeRow, hash=code_hash, text=code)
    row = SubmissionRow(
        leaderboard_id=board.id,
        user_id=user_id,
        code_hash=code_hash,
        file_name=file_name,
        mode=mode.value,
        created_at=now,
    )
    session.add(row)
    session.flush()
    session.add_all(
        JobRow(
            submission_id=row.id,
            user_id=user_id,
            priority=priority_of(mode),
            queued_at=now,
            task_hash=board.task_hash,
            device=device,
            mode=mode.value,
            state=JobState.QUEUED.value,
            created_at=now,
        )
        for device in devices
    )
    session.flush()
    return row.id


def priority_of(mode: Mode) -> Priority:
    """Return the class of the queue that a new submission's jobs belong to."""
    return Priority.RANKED if mode is Mode.LEADERBOARD else Priority.PRACTICE


def find(session: Session, submission_id: int) -> Submission | None:
    """Return a submission, None if there is no such one."""
    found = _load(session, _submissions().where(SubmissionRow.id == submission_id))
    return found[0] if found else None


def newest(
    session: Session,
    *,
    user_id: int | None = None,
    board_id: int | None = None,
    tag: str | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> list[Submission]:
    """Return a page of submissions, the newest first."""
    query = _submissions().order_by(SubmissionRow.id.desc()).limit(limit)
    if user_id is not None:
        query = query.where(SubmissionRow.user_id == user_id)
    if board_id is not None:
        query = query.where(SubmissionRow.leaderboard_id == board_id)
    if tag is not None:
        tagged = (ScreeningFindingRow.submission_id == SubmissionRow.id, ScreeningFindingRow.tag == tag)
        query = query.where(exists().where(*tagged))
    if before_id is not None:
        query = query.where(SubmissionRow.id < before_id)
    return _load(session, query)


def code(session: Session, submission_id: int) -> str:
    """Return the text of a submission."""
    query = (
        select(CodeRow.text)
        .join(SubmissionRow, SubmissionRow.code_hash == CodeRow.hash)
        .where(SubmissionRow.id == submission_id)
    )
    return session.execute(query).scalar_one()


def delete_submission(session: Session, submission_id: int) -> None:
    """Delete a submission with its jobs and runs."""
    session.execute(delete(SubmissionRow).where(SubmissionRow.id == submission_id))


def delete_unused_code(session: Session, *, code_hash: str | None = None) -> None:
    """Delete the texts, or the one text, that no submission has any more."""
    unused = ~exists().where(SubmissionRow.code_hash == CodeRow.hash)
    query = delete(CodeRow).where(unused)
    session.execute(query if code_hash is None else query.where(CodeRow.hash == code_hash))


def _submissions() -> Select[SubmissionRow, str, str]:
    return (
        select(SubmissionRow, LeaderboardRow.name, UserRow.name)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .join(UserRow, UserRow.id == SubmissionRow.user_id)
    )


def _load(session: Session, query: Select[SubmissionRow, str, str]) -> list[Submission]:
    rows = session.execute(query).all()
    devices: dict[int, list[str]] = {row.id: [] for row, _, _ in rows}
    jobs = (
        select(JobRow.submission_id, JobRow.device)
        .where(JobRow.submission_id.in_(devices))
        .order_by(JobRow.id)
    )
    for submission_id, device in session.execute(jobs):
        devices[submission_id].append(device)
    return [_submission(row, board, user, devices[row.id]) for row, board, user in rows]


def _submission(row: SubmissionRow, board: str, user: str, devices: Sequence[str]) -> Submission:
    return Submission(
        id=row.id,
        leaderboard=board,
        leaderboard_id=row.leaderboard_id,
        user=user,
        user_id=row.user_id,
        mode=Mode(row.mode),
        devices=tuple(devices),
        file_name=row.file_name,
        code_hash=row.code_hash,
        created_at=row.created_at,
        client=row.client,
    )
