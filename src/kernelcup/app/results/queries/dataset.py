"""The ranked results of a leaderboard, for those who compute with them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import literal, select
from sqlalchemy.orm import Session

from kernelcup.app.machines.queries import agreements
from kernelcup.app.results.queries import ranking_query
from kernelcup.app.results.queries.ruling import counts
from kernelcup.tables import CodeRow, JobRow, LeaderboardRow, RunRow, SubmissionRow, UserRow


def results(
    session: Session, board_id: int, *, since: datetime | None, with_code: bool
) -> list[dict[str, Any]]:
    """Return each result that counts, the oldest first, with the true name of its author.

    Args:
        session: The transaction.
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
