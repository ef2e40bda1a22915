"""The waiting and running jobs of a device: their number, and the position of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, func, literal, select, tuple_
from sqlalchemy.orm import Session

from kernelcup.app.queue.queries.jobs import QUEUED, RUNNING
from kernelcup.domain import Job, JobKind, JobState, Priority
from kernelcup.tables import JobRow, LeaderboardRow
from kernelcup_harness.protocol import Mode

MOST_COUNTED = 1000
"""The maximum number of jobs that are counted ahead of a waiting one; with more, its position is None."""


def ahead(session: Session, job: Job) -> dict[Mode, int]:
    """Return how many jobs are ahead of a waiting one, by mode; counting stops above ``MOST_COUNTED``.

    Of other leaderboards in its class as many are expected to go first as their shares allow meanwhile.
    """
    turn = session.execute(select(JobRow.turn).where(JobRow.id == job.id)).scalar_one()
    here = (QUEUED, JobRow.device == job.device)
    in_class = (JobRow.priority == int(job.priority), JobRow.leaderboard_id == job.leaderboard_id)
    earlier = tuple_(JobRow.turn, JobRow.id) < tuple_(literal(turn), literal(job.id))
    found: Counter[Mode] = Counter()
    for where in (JobRow.priority < int(job.priority), and_(*in_class, earlier)):
        before = select(JobRow.mode).where(*here, where).limit(MOST_COUNTED + 1).subquery()
        query = select(before.c.mode, func.count()).group_by(before.c.mode)
        found.update({Mode(mode): count for mode, count in session.execute(query)})
    own = session.execute(
        select(func.count()).where(*here, *in_class, earlier).select_from(JobRow)
    ).scalar_one()
    for mode, count in _of_other_boards(session, job, own + 0.5):
        found[mode] += count
    return dict(found)


def _of_other_boards(session: Session, job: Job, own: float) -> Iterator[tuple[Mode, int]]:
    """Yield how many jobs of each other leaderboard go while ``own`` of the job's are served, by mode."""
    query = (
        select(JobRow.leaderboard_id, LeaderboardRow.share, JobRow.mode, func.count().label("waiting"))
        .join(LeaderboardRow, LeaderboardRow.id == JobRow.leaderboard_id)
        .where(QUEUED, JobRow.device == job.device, JobRow.priority == int(job.priority))
        .group_by(JobRow.leaderboard_id, LeaderboardRow.share, JobRow.mode)
    )
    rows = session.execute(query).all()
    mine = next((row.share for row in rows if row.leaderboard_id == job.leaderboard_id), 1.0)
    totals: Counter[int] = Counter()
    for row in rows:
        totals[row.leaderboard_id] += row.waiting
    for row in rows:
        if row.leaderboard_id != job.leaderboard_id:
            served = min(totals[row.leaderboard_id], int(own * row.share / mine))
            yield Mode(row.mode), round(served * row.waiting / totals[row.leaderboard_id])


def under_way(session: Session, *, device: str) -> list[tuple[Mode, datetime]]:
    """Return the mode and the start of each job that runs on a device."""
    query = select(JobRow.mode, JobRow.started_at).where(RUNNING, JobRow.device == device)
    return [(Mode(mode), started_at) for mode, started_at in session.execute(query) if started_at is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """The waiting jobs of a device in one class of the queue."""

    device: str
    priority: Priority
    count: int
    oldest_queued_at: datetime
    """The time since which the job with the lowest number waits."""


def backlogs(session: Session, *, devices: Collection[str] | None = None) -> list[Backlog]:
    """Return the backlogs of all devices, or of some, by classes."""
    groups = (
        select(JobRow.device, JobRow.priority, func.count(), func.min(JobRow.id))
        .where(QUEUED)
        .group_by(JobRow.device, JobRow.priority)
        .order_by(JobRow.device, JobRow.priority)
    )
    if devices is not None:
        groups = groups.where(JobRow.device.in_(devices))
    found = session.execute(groups).all()
    first = [job_id for *_, job_id in found]
    query = select(JobRow.id, JobRow.queued_at, JobRow.created_at).where(JobRow.id.in_(first))
    since = {job_id: queued_at or created_at for job_id, queued_at, created_at in session.execute(query)}
    return [
        Backlog(device=device, priority=Priority(priority), count=number, oldest_queued_at=since[job_id])
        for device, priority, number, job_id in found
    ]


def position(session: Session, job: Job) -> int | None:
    """Return a job's position in the queue of its device, 1 for the next.

    Return None if it is not waiting, or if more than ``MOST_COUNTED`` jobs are ahead.
    """
    if job.state is not JobState.QUEUED:
        return None
    before = sum(ahead(session, job).values())
    return None if before > MOST_COUNTED else before + 1


def waiting_kinds(session: Session, *, device: str) -> list[JobKind]:
    is_ranked = (JobRow.mode == Mode.LEADERBOARD.value).label("is_ranked")
    waiting = (QUEUED, JobRow.device == device)
    query = select(JobRow.leaderboard_id, is_ranked).where(*waiting).distinct()
    return sorted(JobKind(board_id=board, is_ranked=bool(ranked)) for board, ranked in session.execute(query))
