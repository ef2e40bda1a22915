"""Figures about submissions and runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Float, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from kernelcup.domain import JobState
from kernelcup.domain.answers import DeviceStats, UserTime
from kernelcup.tables import JobRow, RunRow, SubmissionRow, UserRow
from kernelcup_harness.protocol import Verdict

Condition = ColumnElement[bool]


def chosen(board_id: int | None, since: datetime | None) -> list[Condition]:
    """Return the conditions for submissions to a leaderboard and since a given time; None means all."""
    conditions: list[Condition] = []
    if board_id is not None:
        conditions.append(SubmissionRow.leaderboard_id == board_id)
    if since is not None:
        conditions.append(SubmissionRow.created_at >= since)
    return conditions


def count_submissions(session: Session, conditions: list[Condition]) -> tuple[int, int, int]:
    """Return the number of submissions, of their users, and of different codes."""
    query = select(
        func.count(),
        func.count(SubmissionRow.user_id.distinct()),
        func.count(SubmissionRow.code_hash.distinct()),
    ).where(*conditions)
    submissions, users, codes = session.execute(query).one()
    return submissions, users, codes


def count_jobs(session: Session, board_id: int | None, state: JobState) -> int:
    """Return how many jobs are currently in a state."""
    query = select(func.count()).select_from(JobRow).where(JobRow.state == state.value)
    if board_id is not None:
        query = query.join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        query = query.where(SubmissionRow.leaderboard_id == board_id)
    return session.execute(query).scalar_one()


def of_devices(session: Session, conditions: list[Condition]) -> list[DeviceStats]:
    """Return the figures of each device with runs."""
    first = RunRow.attempt == 1
    delay = case((first, _seconds(session, JobRow.created_at, RunRow.started_at)))
    query = (
        select(
            JobRow.device,
            func.count(),
            func.count(case((RunRow.verdict == Verdict.ACCEPTED.value, 1))),
            func.count(RunRow.score_s),
            func.max(delay),
            func.avg(delay),
            func.sum(_seconds(session, RunRow.started_at, RunRow.finished_at)),
        )
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(*conditions)
        .group_by(JobRow.device)
        .order_by(JobRow.device)
    )
    return [
        DeviceStats(
            device=device,
            runs=runs,
            passed=passed,
            scored=scored,
            longest_delay_s=longest,
            mean_delay_s=mean,
            run_s=run_s,
        )
        for device, runs, passed, scored, longest, mean, run_s in session.execute(query)
    ]


def newest_run(session: Session) -> int:
    """Return the id of the newest run, 0 without one."""
    return session.scalar(select(func.max(RunRow.id))) or 0


def verdicts_after(session: Session, run_id: int) -> tuple[int, dict[str, int]]:
    """Return the id of the newest run, and how many runs after a given one had each verdict."""
    query = select(RunRow.verdict, func.count(), func.max(RunRow.id)).where(RunRow.id > run_id)
    rows = session.execute(query.group_by(RunRow.verdict)).all()
    return max([run_id, *(newest for *_, newest in rows)]), {verdict: count for verdict, count, _ in rows}


def top_users(session: Session, conditions: list[Condition], *, limit: int) -> list[UserTime]:
    """Return the users whose runs took longest in total."""
    total = func.sum(_seconds(session, RunRow.started_at, RunRow.finished_at))
    query = (
        select(UserRow.name, total)
        .join(SubmissionRow, SubmissionRow.user_id == UserRow.id)
        .join(JobRow, JobRow.submission_id == SubmissionRow.id)
        .join(RunRow, RunRow.job_id == JobRow.id)
        .where(*conditions)
        .group_by(UserRow.id, UserRow.name)
        .order_by(total.desc(), UserRow.name)
        .limit(limit)
    )
    return [UserTime(user=user, run_s=run_s) for user, run_s in session.execute(query)]


def _seconds(
    session: Session, start: InstrumentedAttribute[Any], end: InstrumentedAttribute[Any]
) -> ColumnElement[float]:
    if session.get_bind().dialect.name == "sqlite":
        days = func.julianday(end, type_=Float) - func.julianday(start, type_=Float)
        return days * 86400.0
    return func.date_part("epoch", end.op("-")(start), type_=Float)
