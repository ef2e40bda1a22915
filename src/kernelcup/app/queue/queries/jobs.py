"""Jobs, their order in the queue, and the leases under which they run.

A lease is identified by its token and its attempt. A caller with an old lease changes nothing and gets
``StaleLease``.

The queue of a device is ordered by priority, then by turn, then by number. Turns implement start-time fair
queueing: each job of a user gets the turn after the user's last waiting job, but none before the lowest
waiting turn, so that users alternate however many files one of them sends.

To avoid deadlocks, rows are locked in this order: jobs by number, their submissions by number, the
leaderboard, the user, the bests.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, case, func, literal_column, or_, select, update
from sqlalchemy import insert as insert_into
from sqlalchemy.orm import Session

from kernelcup.domain import OPEN, Job, JobState, Priority
from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.engine.views import once
from kernelcup.errors import StaleLease
from kernelcup.tables import JobRow, PaceRow, table_of
from kernelcup_harness.protocol import Mode


def in_state(state: JobState) -> ColumnElement[bool]:
    """Return the condition as literal SQL: SQLite uses a partial index only if it can see its condition."""
    return JobRow.state == literal_column(f"'{state.value}'")


QUEUED = in_state(JobState.QUEUED)
RUNNING = in_state(JobState.RUNNING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to work on a job until a given time."""

    job: Job
    owner: str
    token: str
    until: datetime
    call: str = ""
    """The launcher's name for this attempt, if it outlives the dispatcher."""


def enqueue(
    session: Session,
    *,
    submission_id: int,
    user_id: int,
    leaderboard_id: int,
    task_hash: str,
    device: str,
    mode: Mode,
    priority: Priority,
    now: datetime,
    practice: bool = False,
) -> Job:
    """Add a new job to the queue of its device. Its user has to be locked."""
    values = {
        "submission_id": submission_id,
        "user_id": user_id,
        "leaderboard_id": leaderboard_id,
        "task_hash": task_hash,
        "device": device,
        "mode": mode.value,
        "state": JobState.QUEUED.value,
        "priority": int(priority),
        "practice": practice,
        "turn": next_turn(session, user_id=user_id, device=device, priority=priority),
        "created_at": now,
        "queued_at": now,
    }
    job_id: int = session.execute(_INSERT, values).scalar_one()
    return Job(
        id=job_id,
        submission_id=submission_id,
        task_hash=task_hash,
        device=device,
        mode=mode,
        state=JobState.QUEUED,
        attempt=1,
        reason="",
        user_id=user_id,
        leaderboard_id=leaderboard_id,
        priority=priority,
        first_attempt=1,
        queued_at=now,
        practice=practice,
    )


def lowest_turn(session: Session, *, device: str, priority: int) -> int:
    """Return the turn that is being served, 0 if no job waits."""
    place = {"device": device, "priority": int(priority)}
    return session.execute(_LOWEST_TURN, place).scalar_one() or 0


def next_turn(session: Session, *, user_id: int, device: str, priority: int) -> int:
    """Return the turn of a user's next job."""
    place = {"device": device, "priority": int(priority), "user_id": user_id}
    lowest, last = session.execute(_TURNS, place).one()
    return (lowest or 0) if last is None else max(lowest or 0, last + 1)


# Built once, because each submission needs them: building them takes longer than running them.
_INSERT = insert_into(table_of(JobRow)).returning(table_of(JobRow).c.id)
_TABLE = table_of(JobRow)
_IN_CLASS = (
    _TABLE.c.state == literal_column(f"'{JobState.QUEUED.value}'"),
    _TABLE.c.device == bindparam("device"),
    _TABLE.c.priority == bindparam("priority"),
)
_LOWEST_TURN = select(func.min(_TABLE.c.turn)).where(*_IN_CLASS)
_LAST_TURN = select(func.max(_TABLE.c.turn)).where(_TABLE.c.user_id == bindparam("user_id"), *_IN_CLASS)
_TURNS = select(_LOWEST_TURN.scalar_subquery(), _LAST_TURN.scalar_subquery())
_OF_SUBMISSION = (
    select(_TABLE).where(_TABLE.c.submission_id == bindparam("submission_id")).order_by(_TABLE.c.id)
)


def renew_all(session: Session, tokens: Collection[str], *, until: datetime) -> set[str]:
    """Extend leases, and return the tokens of those that still hold."""
    mine = (RUNNING, JobRow.lease_token.in_(tokens))
    session.execute(select(JobRow.id).where(*mine).order_by(JobRow.id).with_for_update())
    renewed = update(JobRow).where(*mine).values(lease_until=until).returning(JobRow.lease_token)
    return {token for token in session.scalars(renewed, execution_options=NO_SYNC) if token is not None}


def note_call(session: Session, lease: Lease, call: str, machine: str | None) -> None:
    """Store by which name the launcher knows an attempt, and where it runs. Raise ``StaleLease``."""
    _change(session, lease, call=call, machine=machine)


def adopt(session: Session, lease: Lease, *, owner: str, until: datetime) -> Lease:
    """Take over a running attempt from another holder. Raise ``StaleLease`` if it holds it no more.

    Its duration excludes the time without a holder, because its report may have waited for one.
    """
    row = _change(session, lease, lease_owner=owner, lease_token=secrets.token_hex(16), lease_until=until)
    # Leases last equally long, so their ends are as far apart as the last sign of life and now.
    if row.started_at is not None and until > lease.until:
        row = _change(session, lease_of(row), started_at=row.started_at + (until - lease.until))
    return lease_of(row)


def is_adopted(session: Session, lease: Lease) -> bool:
    """Return whether an attempt goes on under another holder."""
    row = session.get(JobRow, lease.job.id, populate_existing=True)
    return row is not None and (row.state, row.attempt) == (JobState.RUNNING.value, lease.job.attempt)


def requeue(session: Session, lease: Lease, *, reason: str, **changes: object) -> Job:
    """Return a job to the queue, or to the state in ``changes``. Raise ``StaleLease`` if it is not ours.

    It becomes the first of the jobs that wait now. Keeping its older turn would lower the turns of new jobs too.
    """
    waiting = {**_waiting_first(session, lease.job), **changes, "started_at": None, "reason": reason}
    return _job(_change(session, lease, **waiting, **_NO_LEASE))


def resume(session: Session, job: Job) -> None:
    """Return a halted job to the queue, as its first."""
    values = _waiting_first(session, job)
    session.execute(update(JobRow).where(JobRow.id == job.id).values(**values), execution_options=NO_SYNC)


def halted(session: Session) -> list[Job]:
    """Return the jobs that wait for an admin."""
    query = select(JobRow).where(in_state(JobState.HALTED)).order_by(JobRow.id)
    return [_job(row) for row in session.scalars(query)]


def _waiting_first(session: Session, job: Job) -> dict[str, object]:
    turn = lowest_turn(session, device=job.device, priority=job.priority)
    later = case((JobRow.turn < turn, turn), else_=JobRow.turn)
    return {"state": JobState.QUEUED.value, "turn": later}


def complete(
    session: Session, lease: Lease, *, now: datetime, reason: str = "", state: JobState = JobState.DONE
) -> datetime:
    """Mark a job as judged and return when its attempt began. Raise ``StaleLease`` if it is not ours."""
    row = _change(session, lease, state=state.value, finished_at=now, reason=reason, **_NO_LEASE)
    return row.started_at or now


def cancel(session: Session, job_id: int, *, now: datetime, reason: str) -> bool:
    """Cancel a waiting or running job; return whether it was one. Its holder notices at the next renewal.

    A job that is being rejudged, or waits for it, becomes done again with its earlier result.
    """
    was_judged = JobRow.first_attempt > 1
    cancelled = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.state.in_(OPEN))
        .values(
            state=case((was_judged, JobState.DONE.value), else_=JobState.CANCELLED.value),
            finished_at=case((was_judged, JobRow.finished_at), else_=now),
            reason=reason,
            **_NO_LEASE,
        )
        .returning(JobRow.id),
        execution_options=NO_SYNC,
    )
    return cancelled.first() is not None


def quarantine(session: Session, job_id: int, *, reason: str) -> None:
    """Take the result of a job out of the ranking, and end a rejudge of it."""
    values = {"state": JobState.QUARANTINED.value, "reason": reason, **_NO_LEASE}
    session.execute(update(JobRow).where(JobRow.id == job_id).values(**values), execution_options=NO_SYNC)


def reject(session: Session, job_id: int) -> None:
    """Keep the result of a quarantined job out of the ranking for good."""
    _decide(session, job_id, state=JobState.REJECTED.value)


def release(session: Session, job_id: int) -> None:
    """Let the result of a quarantined job count again."""
    _decide(session, job_id, state=JobState.DONE.value, reason="")


def _decide(session: Session, job_id: int, **values: str) -> None:
    quarantined = [JobRow.id == job_id, in_state(JobState.QUARANTINED)]
    session.execute(update(JobRow).where(*quarantined).values(**values), execution_options=NO_SYNC)


def lock(session: Session, job_ids: Iterable[int]) -> list[Job]:
    """Return the current jobs, and lock them until the transaction ends."""
    query = select(JobRow).where(JobRow.id.in_(list(job_ids))).order_by(JobRow.id).with_for_update()
    return [_job(row) for row in session.scalars(query.execution_options(populate_existing=True))]


def running(session: Session) -> list[Lease]:
    rows = session.scalars(select(JobRow).where(RUNNING)).all()  # ordered by id, SQLite would read all jobs
    return [lease_of(row) for row in sorted(rows, key=lambda row: row.id)]


def doubtful(session: Session, *, owner: str, now: datetime) -> list[Lease]:
    """Return the leases that a holder cannot take for granted: those of others, and its own that have lapsed."""
    query = select(JobRow).where(RUNNING, or_(JobRow.lease_owner != owner, JobRow.lease_until < now))
    return [lease_of(row) for row in sorted(session.scalars(query), key=lambda row: row.id)]


def running_on(session: Session) -> dict[str, list[int]]:
    """Return the jobs that each machine judges."""
    found: dict[str, list[int]] = {}
    query = select(JobRow.id, JobRow.machine, JobRow.lease_owner).where(RUNNING)
    for job_id, machine, owner in session.execute(query):
        found.setdefault(machine or (owner or "").partition(":")[0], []).append(job_id)
    return {machine: sorted(some) for machine, some in found.items()}


def find(session: Session, job_id: int) -> Job | None:
    """Return a job, None if it does not exist."""
    row = session.get(JobRow, job_id)
    return None if row is None else _job(row)


@once
def of_submission(session: Session, submission_id: int) -> list[Job]:
    """Return a submission's jobs in the order of its devices."""
    return [_job(row) for row in session.execute(_OF_SUBMISSION, {"submission_id": submission_id})]


def of_submissions(session: Session, submission_ids: Sequence[int]) -> dict[int, list[Job]]:
    """Return the jobs of submissions, by the submission's id and in the order of its devices."""
    found: dict[int, list[Job]] = {}
    query = select(_TABLE).where(_TABLE.c.submission_id.in_(submission_ids)).order_by(_TABLE.c.id)
    for row in session.execute(query):
        found.setdefault(row.submission_id, []).append(_job(row))
    return found


_NO_LEASE = {"lease_owner": None, "lease_token": None, "lease_until": None, "call": None, "machine": None}
NO_SYNC = {"synchronize_session": False, "populate_existing": True}


def _change(session: Session, lease: Lease, **values: object) -> JobRow:
    changed = session.execute(
        update(JobRow).where(*_held(lease)).values(**values).returning(JobRow), execution_options=NO_SYNC
    )
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


def lease_of(row: JobRow) -> Lease:
    assert row.lease_owner is not None
    assert row.lease_token is not None
    assert row.lease_until is not None
    return Lease(
        job=_job(row),
        owner=row.lease_owner,
        token=row.lease_token,
        until=row.lease_until,
        call=row.call or "",
    )


def _job(row: Any) -> Job:
    return made_of(row, Job)


WEIGHT = 0.2
"""The weight of the newest job in the mean, so that a change shows after a handful of jobs."""


def add_duration(session: Session, *, device: str, mode: Mode, seconds: float) -> None:
    """Add a job's duration to the mean of its kind, unless the clock was set back meanwhile."""
    if seconds < 0:
        return
    offer = upsert(session, PaceRow).values(device=device, mode=mode.value, mean_s=seconds, count=1)
    moved = {
        "mean_s": PaceRow.mean_s + WEIGHT * (offer.excluded.mean_s - PaceRow.mean_s),
        "count": PaceRow.count + 1,
    }
    session.execute(offer.on_conflict_do_update(index_elements=["device", "mode"], set_=moved))


def mean_durations(session: Session, device: str) -> dict[Mode, float]:
    """Return the mean seconds of a device's jobs by mode, for the modes with past jobs."""
    query = select(PaceRow.mode, PaceRow.mean_s).where(PaceRow.device == device, PaceRow.mean_s >= 0)
    return {Mode(mode): mean_s for mode, mean_s in session.execute(query)}
