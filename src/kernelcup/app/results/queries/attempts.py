"""Attempts: all judged and waiting submissions to a leaderboard, each with the ruling on its result."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, case, select
from sqlalchemy.orm import Session

from kernelcup.app.results.queries.ruling import CURRENT, column
from kernelcup.domain import JobState, Ruling
from kernelcup.engine.rows import made_of
from kernelcup.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import Backend, Mode, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A submission on a device."""

    submission_id: int
    user_id: int
    created_at: datetime
    mode: Mode
    job_id: int
    device: str
    state: JobState
    practice: bool
    run_id: int | None
    """The run that counts for the job; None until one does."""
    verdict: Verdict | None
    score_s: float | None
    speedup: float | None
    backend: Backend | None
    ruling: Ruling


def of_board(
    session: Session, board_id: int, user_ids: Collection[int] | None = None, since: datetime | None = None
) -> list[Tried]:
    """Return submissions to a leaderboard on all its devices, oldest first; no comparisons.

    Args:
        user_ids: Only of these users; None for all.
        since: The freeze from which on the reader does not see results; None if there is none.
    """
    ruled = case((RunRow.id.is_(None), Ruling.GONE.value), else_=column(since))
    query = (
        select(SubmissionRow.id.label("submission_id"), SubmissionRow.user_id, SubmissionRow.created_at)
        .add_columns(SubmissionRow.mode, JobRow.id.label("job_id"), JobRow.device, JobRow.state)
        .add_columns(JobRow.practice, RunRow.id.label("run_id"), RunRow.verdict, RunRow.score_s)
        .add_columns(RunRow.speedup, RunRow.backend, ruled.label("ruling"))
        .join(JobRow, JobRow.submission_id == SubmissionRow.id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .outerjoin(RunRow, and_(RunRow.job_id == JobRow.id, CURRENT))
        .where(SubmissionRow.leaderboard_id == board_id)
        .where(SubmissionRow.client.not_in(("compare", "final")))
        .order_by(SubmissionRow.id, JobRow.id)
    )
    if user_ids is not None:
        query = query.where(SubmissionRow.user_id.in_(user_ids))
    return [made_of(row, Tried) for row in session.execute(query)]
