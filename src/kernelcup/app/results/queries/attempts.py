"""Attempts: all submissions to a leaderboard, each with the ruling on its result; the bests, and what counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, case, exists, func, literal, select
from sqlalchemy.orm import Session

from kernelcup.app.machines.queries import agreements
from kernelcup.app.results.queries import ranking_query
from kernelcup.app.results.queries.ruling import CURRENT, column, counts
from kernelcup.domain import JobState, Ruling
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    BestRow,
    CodeRow,
    ComparisonRow,
    JobRow,
    LeaderboardRow,
    RunRow,
    SubmissionRow,
    UserRow,
)
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


def bests_and_lasts(session: Session, board_id: int) -> list[tuple[str, int, str]]:
    """Return user, submission and device of each best, then of each user's last, without a device; by name.

    A comparison is left out: its code is a copy.
    """
    best = (
        select(UserRow.name, BestRow.submission_id, BestRow.device)
        .join(BestRow, BestRow.user_id == UserRow.id)
        .where(BestRow.leaderboard_id == board_id)
        .order_by(UserRow.name_key, BestRow.device, BestRow.submission_id)
    )
    is_comparison = (
        exists()
        .where(ComparisonRow.job_id == JobRow.id, JobRow.submission_id == SubmissionRow.id)
        .correlate(SubmissionRow)
    )
    last = (
        select(UserRow.name, func.max(SubmissionRow.id))
        .join(SubmissionRow, SubmissionRow.user_id == UserRow.id)
        .where(SubmissionRow.leaderboard_id == board_id, ~is_comparison)
        .group_by(UserRow.name, UserRow.name_key)
        .order_by(UserRow.name_key)
    )
    bests = dict.fromkeys((name, number, device) for name, number, device in session.execute(best))
    return [*bests, *((name, number, "") for name, number in session.execute(last))]


def results(
    session: Session, board_id: int, *, since: datetime | None, with_code: bool
) -> list[dict[str, Any]]:
    """Return each result that counts, the oldest first, with the true name of its author.

    Args:
        board_id: The leaderboard.
        since: The freeze after which results are hidden; None without one.
        with_code: Whether to return the code of those that were not withdrawn.
    """
    query = (
        select(
            JobRow.device,
            ranking_query.host_class(agreements.groups(session)).label("host_class"),
            SubmissionRow.id.label("submission"),
            SubmissionRow.user_id,
            UserRow.name.label("user"),
            SubmissionRow.created_at.label("submitted_at"),
            SubmissionRow.file_name,
            RunRow.score_s,
            RunRow.low_s,
            RunRow.high_s,
            ranking_query.RANKED_S.label("rank_s"),
            RunRow.speedup,
            RunRow.trust,
            RunRow.task_hash,
            RunRow.harness_hash,
            SubmissionRow.withdrawn_at,
            SubmissionRow.code_hash,
            (CodeRow.files if with_code else literal(None)).label("code"),
        )
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .join(UserRow, UserRow.id == SubmissionRow.user_id)
        .join(CodeRow, CodeRow.hash == SubmissionRow.code_hash)
        .where(SubmissionRow.leaderboard_id == board_id, counts(since=since))
        .order_by(RunRow.finished_at, RunRow.id)
    )
    return [dict(row._mapping) for row in session.execute(query)]
