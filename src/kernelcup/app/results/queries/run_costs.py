"""What runs cost, at the prices of their machines at that time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from kernelcup.tables import JobRow, MachineRow, RunRow, SubmissionRow


def of_launcher(session: Session, launcher: str, *, since: datetime) -> float:
    """Return what the machines of a launcher cost in a time."""
    query = select(func.coalesce(func.sum(RunRow.cost), 0.0)).where(*_of_launcher(launcher, since))
    return float(session.execute(query).scalar_one())


def newest_of_launcher(
    session: Session, launcher: str, *, since: datetime
) -> Iterator[tuple[datetime, float]]:
    """Return when each run on the machines of a launcher ended, and what it cost, newest first."""
    query = select(RunRow.finished_at, RunRow.cost).where(*_of_launcher(launcher, since), RunRow.cost > 0)
    return ((at, cost) for at, cost in session.execute(query.order_by(RunRow.finished_at.desc())))


def of_board(session: Session, board_id: int) -> float:
    """Return what all runs of a leaderboard cost."""
    query = (
        select(func.coalesce(func.sum(RunRow.cost), 0.0))
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(SubmissionRow.leaderboard_id == board_id)
    )
    return float(session.execute(query).scalar_one())


def _of_launcher(launcher: str, since: datetime) -> tuple[ColumnElement[bool], ...]:
    names = select(MachineRow.name).where(MachineRow.launcher == launcher)
    return RunRow.machine.in_(names), RunRow.finished_at > since
