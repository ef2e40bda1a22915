"""Jobs and the leases under which they are worked on.

A lease is proven by its token and the attempt it was taken for. Whoever comes with an old one
changes nothing and gets ``StaleLease``.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from kernelcup.domain import Job, JobState, Priority
from kernelcup.errors import StaleLease
from kernelcup.storage.tables import JobRow
from kernelcup_harness.protocol import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to work on a job until a moment."""

    job: Job
    owner: str
    token: str
    until: datetime


def claim(
    session: Session,
    *,
    owner: str,
    until: datetime,
    devices: Sequence[str],
    now: datetime,
    up_to_submission: int | None = None,
) -> Lease | None:
    """Take the oldest queued job on one of the devices, None if there is none."""
    waiting = [JobRow.state == JobState.QUEUED.value, JobRow.device.in_(devices)]
    if up_to_submission is not None:
        waiting.append(JobRow.submission_id <= up_to_submission)
    oldest = (
        select(JobRow.id)
        .where(*waiting)
        .order_by(JobRow.id)
        .limit(1)
        .with_for_update(skip_locked=True)  # SQLite leaves this out; it has one writer anyway
        .scalar_subquery()  # with `=`: PostgreSQL may run an IN more than once and lock more rows
    )
    row = session.execute(
        update(JobRow)
        .where(JobRow.id == oldest)
        .values(
            state=JobState.RUNNING.value,
            lease_owner=owner,
            lease_token=secrets.token_hex(16),
            lease_until=until,
            started_at=now,
        )
        .returning(JobRow)
    ).scalar_one_or_none()
    return None if row is None else _lease(row)


def renew(session: Session, lease: Lease, *, until: datetime) -> Lease:
    """Keep a lease for longer. Raise ``StaleLease`` if it is gone."""
    _change(session, lease, lease_until=until)
    return dataclasses.replace(lease, until=until)


def requeue(session: Session, lease: Lease, *, attempt: int, reason: str) -> Job:
    """Put a job back into the queue. Raise ``StaleLease`` if it is not ours."""
    row = _change(session, lease, state=JobState.QUEUED.value, attempt=attempt, reason=reason, **_NO_LEASE)
    return _job(row)


def complete(session: Session, lease: Lease, *, now: datetime, reason: str = "") -> datetime:
    """Mark a job done and return when its attempt began. Raise ``StaleLease`` if it is not ours."""
    row = _change(session, lease, state=JobState.DONE.value, finished_at=now, reason=reason, **_NO_LEASE)
    return row.started_at or now


def cancel(session: Session, job_id: int, *, now: datetime, reason: str) -> bool:
    """Cancel a job that waits or runs; return whether it did. Its holder notices at the next renewal."""
    cancelled = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.state.in_([JobState.QUEUED.value, JobState.RUNNING.value]))
        .values(state=JobState.CANCELLED.value, finished_at=now, reason=reason, **_NO_LEASE)
        .returning(JobRow.id)
    )
    return cancelled.first() is not None


def running(session: Session) -> list[Lease]:
    """Return all leases."""
    rows = session.scalars(select(JobRow).where(JobRow.state == JobState.RUNNING.value).order_by(JobRow.id))
    return [_lease(row) for row in rows]


def find(session: Session, job_id: int) -> Job | None:
    """Return a job, None if there is no such one."""
    row = session.get(JobRow, job_id)
    return None if row is None else _job(row)


def of_submission(session: Session, submission_id: int) -> list[Job]:
    """Return a submission's jobs in the order of its devices."""
    rows = session.scalars(select(JobRow).where(JobRow.submission_id == submission_id).order_by(JobRow.id))
    return [_job(row) for row in rows]


def position(session: Session, job: Job) -> int | None:
    """Return a job's place in the queue of its device, 1 for the next; None if it does not wait."""
    if job.state is not JobState.QUEUED:
        return None
    ahead = [JobRow.state == JobState.QUEUED.value, JobRow.device == job.device, JobRow.id < job.id]
    return 1 + session.execute(select(func.count()).select_from(JobRow).where(*ahead)).scalar_one()


def count(session: Session, state: JobState, *, devices: Sequence[str]) -> int:
    """Return how many jobs on the devices are in a state."""
    wanted = [JobRow.state == state.value, JobRow.device.in_(devices)]
    return session.execute(select(func.count()).select_from(JobRow).where(*wanted)).scalar_one()


_NO_LEASE = {"lease_owner": None, "lease_token": None, "lease_until": None}


def _change(session: Session, lease: Lease, **values: object) -> JobRow:
    changed = session.execute(update(JobRow).where(*_held(lease)).values(**values).returning(JobRow))
    row = changed.scalar_one_or_none()
    if row is None:
        raise StaleLease(f"job {lease.job.id}, attempt {lease.job.attempt}, is no longer {lease.owner}'s")
    return row


def _held(lease: Lease) -> list[ColumnElement[bool]]:
    return [
        JobRow.id == lease.job.id,
        JobRow.lease_token == lease.token,
        JobRow.attempt == lease.job.attempt,
        JobRow.state == JobState.RUNNING.value,
    ]


def _lease(row: JobRow) -> Lease:
    assert row.lease_owner is not None
    assert row.lease_token is not None
    assert row.lease_until is not None
    return Lease(job=_job(row), owner=row.lease_owner, token=row.lease_token, until=row.lease_until)


def _job(row: JobRow) -> Job:
    return Job(
        id=row.id,
        submission_id=row.submission_id,
        task_hash=row.task_hash,
        device=row.device,
        mode=Mode(row.mode),
        state=JobState(row.state),
        attempt=row.attempt,
        reason=row.reason,
        user_id=row.user_id,
        priority=Priority(row.priority),
        first_attempt=row.first_attempt,
        queued_at=row.queued_at,
    )
