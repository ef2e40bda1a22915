"""Reviews of results, and their decisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, not_, or_, select
from sqlalchemy.orm import Session

from kernelcup.app.results.queries.ruling import without
from kernelcup.domain import Ruling, Submission
from kernelcup.domain.answers import Review
from kernelcup.domain.results import RULE
from kernelcup.engine.rows import made_of
from kernelcup.tables import JobRow, LeaderboardRow, ReviewRow, RunRow, SubmissionRow, UserRow
from kernelcup_harness.protocol import Mode


def insert(
    session: Session,
    *,
    job_id: int,
    run_id: int,
    opened_by: str,
    reason: str,
    evidence: Mapping[str, Any],
    now: datetime,
) -> int:
    code = select(SubmissionRow.code_hash).join(JobRow, JobRow.submission_id == SubmissionRow.id)
    row = ReviewRow(
        job_id=job_id,
        run_id=run_id,
        code_hash=session.execute(code.where(JobRow.id == job_id)).scalar_one(),
        opened_at=now,
        opened_by=opened_by,
        reason=reason,
        evidence=dict(evidence),
    )
    session.add(row)
    session.flush()
    return row.id


def find(session: Session, review_id: int) -> Review | None:
    """Return a review, None if it does not exist."""
    found = _load(session, _reviews().where(ReviewRow.id == review_id))
    return found[0] if found else None


def last_of_code(session: Session, submission: Submission) -> Review | None:
    """Return the review in which a person speaks of a code on a leaderboard, of any user; None if there is none.

    One that a person opened and that waits comes before the last decision.
    """
    # Search the reviews instead of the submissions of a code: there may be many, and few were reviewed.
    waits = ReviewRow.decision.is_(None)
    query = _reviews().where(
        *_same(submission, ReviewRow.code_hash), or_(not_(waits), ReviewRow.opened_by != RULE)
    )
    found = _load(
        session, query.order_by(waits.desc(), ReviewRow.decided_at.desc(), ReviewRow.id.desc()).limit(1)
    )
    return found[0] if found else None


def of_equal_code(session: Session, submission: Submission, decided_at: datetime | None) -> list[Review]:
    """Return the reviews of a code on its leaderboard that were decided at a time, None for those that are open."""
    query = _reviews().where(*_same(submission, ReviewRow.code_hash), ReviewRow.decided_at == decided_at)
    return _load(session, query.order_by(ReviewRow.id))


def jobs_of_code(session: Session, submission: Submission, *but: Ruling) -> list[int]:
    """Return the jobs with results of a code on its leaderboard, without those of some rulings."""
    query = (
        select(JobRow.id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .join(RunRow, RunRow.job_id == JobRow.id)
        .where(*_same(submission, SubmissionRow.code_hash), JobRow.mode == Mode.LEADERBOARD.value)
        .where(without(*but, Ruling.REPLACED, Ruling.NO_TIME))
        .order_by(JobRow.id)
    )
    return list(session.scalars(query))


def _same(submission: Submission, column: Any) -> tuple[ColumnElement[bool], ...]:
    return column == submission.code_hash, SubmissionRow.leaderboard_id == submission.leaderboard_id


def page(
    session: Session,
    *,
    board_id: int | None = None,
    creator_id: int | None = None,
    is_open: bool | None = None,
    after_id: int | None = None,
    limit: int,
) -> list[Review]:
    """Return reviews, oldest first.

    Args:
        board_id: Return only reviews of this leaderboard.
        creator_id: Return only reviews of this user's leaderboards.
        is_open: Return only open reviews, or only decided ones.
        after_id: Return only reviews that are newer than this one.
        limit: The maximum number of reviews.
    """
    query = _reviews().order_by(ReviewRow.id).limit(limit)
    if board_id is not None:
        query = query.where(SubmissionRow.leaderboard_id == board_id)
    if creator_id is not None:
        query = query.where(LeaderboardRow.creator_id == creator_id)
    if is_open is not None:
        query = query.where(ReviewRow.decision.is_(None) if is_open else ReviewRow.decision.is_not(None))
    if after_id is not None:
        query = query.where(ReviewRow.id > after_id)
    return _load(session, query)


def decide(session: Session, review_id: int, *, decision: str, by: str, note: str, now: datetime) -> None:
    """Store a decision."""
    row = session.get_one(ReviewRow, review_id)
    row.decision, row.decided_by, row.decided_at, row.note = decision, by, now, note
    session.flush()


def _reviews() -> Select[ReviewRow, int, str, str, str, float | None]:
    return (
        select(
            ReviewRow, JobRow.submission_id, LeaderboardRow.name, JobRow.device, UserRow.name, RunRow.score_s
        )
        .join(JobRow, JobRow.id == ReviewRow.job_id)
        .join(RunRow, RunRow.id == ReviewRow.run_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .join(UserRow, UserRow.id == SubmissionRow.user_id)
        .execution_options(populate_existing=True)
    )


def _load(session: Session, query: Select[ReviewRow, int, str, str, str, float | None]) -> list[Review]:
    return [
        made_of(
            row,
            Review,
            submission_id=submission_id,
            leaderboard=board,
            device=device,
            user=user,
            score_s=score_s,
            same_code=[],
        )
        for row, submission_id, board, device, user, score_s in session.execute(query)
    ]
