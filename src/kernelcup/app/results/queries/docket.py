"""The public reviewed results, including those of deleted submissions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, null, select, union_all
from sqlalchemy.orm import Session

from kernelcup.app.results.queries.ruling import is_shown
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    DeletedReviewRow,
    JobRow,
    LeaderboardRow,
    ReviewRow,
    RunRow,
    SubmissionRow,
    UserRow,
    table_of,
)

_GONE = table_of(DeletedReviewRow)
_COLUMNS = [column.name for column in _GONE.c if column.name != "deleted_at"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reviewed:
    """A result that waits or waited for a review."""

    review_id: int
    leaderboard_id: int
    submission_id: int
    user_id: int
    user: str
    device: str
    score_s: float | None
    opened_at: datetime
    opened_by: str
    reason: str
    decision: str | None
    decided_at: datetime | None
    deleted_at: datetime | None
    """When its submission was deleted; None while it exists."""


def keep_of_submission(session: Session, submission_id: int, now: datetime) -> None:
    """Keep the docket's entries for a submission that is about to be deleted."""
    found = _live().where(SubmissionRow.id == submission_id)
    rows = [
        {column: getattr(row, column) for column in _COLUMNS} | {"deleted_at": now}
        for row in session.execute(found)
    ]
    if rows:
        session.execute(insert(DeletedReviewRow), rows)


def page(
    session: Session, *, board_ids: Collection[int], before_id: int | None = None, limit: int
) -> list[Reviewed]:
    """Return reviewed results of some leaderboards, newest first.

    Results after a leaderboard's freeze are left out; a decision after the freeze is shown as pending.
    """
    gone = select(*(_GONE.c[column] for column in (*_COLUMNS, "deleted_at")))
    live = _live().add_columns(null().label("deleted_at"))
    both = union_all(
        gone.where(_GONE.c.leaderboard_id.in_(board_ids)),  # first, because it determines the column types
        # The sum avoids the index, with which SQLite would read all submissions of the leaderboards for a few reviews.
        live.where((SubmissionRow.leaderboard_id + 0).in_(board_ids)),
    ).subquery()
    query = (
        select(both, UserRow.name.label("user"), LeaderboardRow.freeze_at)
        .join(UserRow, UserRow.id == both.c.user_id)
        .join(LeaderboardRow, LeaderboardRow.id == both.c.leaderboard_id)
        .where(
            is_shown(both.c.finished_at, LeaderboardRow.freeze_at),
            is_shown(both.c.opened_at, LeaderboardRow.freeze_at),
        )
        .order_by(both.c.review_id.desc())
        .limit(limit)
    )
    if before_id is not None:
        query = query.where(both.c.review_id < before_id)
    return [_reviewed(row) for row in session.execute(query)]


def evidence(session: Session, review_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the evidence of reviews whose submissions still exist, by the review's id."""
    query = select(ReviewRow.id, ReviewRow.evidence).where(ReviewRow.id.in_(review_ids))
    return dict(session.execute(query).all())


def _live() -> Any:
    """Return the query of live reviews, with the same columns as those kept for deleted submissions."""
    return (
        select(
            ReviewRow.id.label("review_id"),
            SubmissionRow.leaderboard_id.label("leaderboard_id"),
            SubmissionRow.id.label("submission_id"),
            SubmissionRow.user_id.label("user_id"),
            JobRow.device.label("device"),
            RunRow.score_s.label("score_s"),
            RunRow.finished_at.label("finished_at"),
            ReviewRow.opened_at.label("opened_at"),
            ReviewRow.opened_by.label("opened_by"),
            ReviewRow.reason.label("reason"),
            ReviewRow.decision.label("decision"),
            ReviewRow.decided_at.label("decided_at"),
        )
        .select_from(ReviewRow)
        .join(JobRow, JobRow.id == ReviewRow.job_id)
        .join(RunRow, RunRow.id == ReviewRow.run_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
    )


def _reviewed(row: Any) -> Reviewed:
    known = is_shown(row.decided_at, row.freeze_at)
    return made_of(
        row,
        Reviewed,
        decision=row.decision if known else None,
        decided_at=row.decided_at if known else None,
        deleted_at=row.deleted_at if is_shown(row.deleted_at, row.freeze_at) else None,
    )
