"""The bests and the last submissions of everyone on a leaderboard."""

from __future__ import annotations

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from kernelcup.tables import BestRow, ComparisonRow, JobRow, SubmissionRow, UserRow


def bests_and_lasts(session: Session, board_id: int) -> list[tuple[str, int, str]]:
    """Return user, submission and device of each best, then of each user's last, without a device; by name.

    A comparison is nobody's last: its code is a copy.
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
