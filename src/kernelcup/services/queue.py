"""Who works on what: claim, keep, finish, hand back, try again.

A job that was accepted ends in exactly one counted run, or is cancelled. Each change is guarded
by the lease, so a holder that was given up for lost can come back and do no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from kernelcup.domain import Run
from kernelcup.errors import NotFound, StaleLease
from kernelcup.scoring import score_s
from kernelcup.services.owners import is_gone
from kernelcup.storage import boards, jobs, runs, submissions, tasks
from kernelcup.storage.database import Database
from kernelcup.storage.jobs import Lease
from kernelcup_harness.protocol import Backend, HarnessKind, RunReport, Verdict

MAX_ATTEMPTS = 3
"""After so many launches that failed, a job is given up."""

MAX_LOST_ATTEMPTS = 10
"""A dispatcher that dies is rarely the job's fault, but a job that kills each of them must end too."""

logger = logging.getLogger(__name__)


def claim_next(
    db: Database,
    *,
    owner: str,
    lease_s: float,
    devices: Sequence[str],
    now: datetime,
    up_to_submission: int | None = None,
) -> Lease | None:
    """Take the oldest waiting job for one of the devices, None if there is none."""
    until = now + timedelta(seconds=lease_s)
    with db.write() as session:
        return jobs.claim(
            session, owner=owner, until=until, devices=devices, now=now, up_to_submission=up_to_submission
        )


def renew(db: Database, lease: Lease, *, lease_s: float, now: datetime) -> Lease:
    """Keep a job for longer. Raise ``StaleLease`` if it was cancelled, deleted or reclaimed."""
    with db.write() as session:
        return jobs.renew(session, lease, until=now + timedelta(seconds=lease_s))


def finish(
    db: Database, lease: Lease, *, report: RunReport, harness_hash: str, machine: str, now: datetime
) -> Run:
    """Store what came of a job and mark it done. Raise ``StaleLease`` if it is not ours any more."""
    with db.write(durable=True) as session:
        return _record(session, lease, report, harness_hash=harness_hash, machine=machine, now=now)


def hand_back(db: Database, lease: Lease, *, reason: str = "") -> None:
    """Give a job back unharmed: the attempt does not count. Raise ``StaleLease``."""
    with db.write() as session:
        jobs.requeue(session, lease, attempt=lease.job.attempt, reason=reason)


def fail_attempt(
    db: Database,
    lease: Lease,
    *,
    reason: str,
    now: datetime,
    backend: Backend = Backend.CUDA,
    max_attempts: int = MAX_ATTEMPTS,
) -> Run | None:
    """Try a job again after its machine failed, or give it up with an ``internal_error``.

    Returns:
        None if it waits again, the run that ends it after the last attempt.

    Raises:
        StaleLease: The job is not ours any more.
    """
    with db.write(durable=True) as session:
        if lease.job.attempt < max_attempts:
            jobs.requeue(session, lease, attempt=lease.job.attempt + 1, reason=reason)
            return None
        report = _internal_error(session, lease, reason=reason, backend=backend)
        return _record(session, lease, report, harness_hash="", machine="", now=now, reason=reason)


def reclaim(
    db: Database,
    *,
    now: datetime,
    backends: Mapping[str, Backend] | None = None,
    max_attempts: int = MAX_LOST_ATTEMPTS,
    gone: Callable[[str], bool] = is_gone,
) -> list[int]:
    """Take the jobs of holders that went silent or whose process has ended, and return their ids."""
    with db.read() as session:
        held = jobs.running(session)
    reclaimed = []
    for lease in held:
        if lease.until >= now and not gone(lease.owner):
            continue
        backend = (backends or {}).get(lease.job.device, Backend.CUDA)
        reason = f"attempt {lease.job.attempt} was lost with its dispatcher"
        try:
            fail_attempt(db, lease, reason=reason, now=now, backend=backend, max_attempts=max_attempts)
        except StaleLease:
            continue  # it was renewed, finished or reclaimed by another in the meantime
        logger.warning("job %d reclaimed: %s", lease.job.id, reason)
        reclaimed.append(lease.job.id)
    return reclaimed


def cancel(db: Database, job_id: int, *, now: datetime, reason: str = "cancelled") -> bool:
    """Cancel a job and return whether it was waiting or running. Raise ``NotFound``."""
    with db.write(durable=True) as session:
        if jobs.find(session, job_id) is None:
            raise NotFound(f"There is no job {job_id}.")
        return jobs.cancel(session, job_id, now=now, reason=reason)


def position(db: Database, job_id: int) -> int | None:
    """Return a job's place in the queue of its device, 1 for the next; None if it does not wait."""
    with db.read() as session:
        job = jobs.find(session, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        return jobs.position(session, job)


def _record(
    session: Session,
    lease: Lease,
    report: RunReport,
    *,
    harness_hash: str,
    machine: str,
    now: datetime,
    reason: str = "",
) -> Run:
    started_at = jobs.complete(session, lease, now=now, reason=reason)
    return runs.insert(
        session,
        job=lease.job,
        report=report,
        score_s=score_s(report, tasks.ranking_by(session, lease.job.task_hash)),
        started_at=started_at,
        finished_at=now,
        harness_hash=harness_hash,
        machine=machine,
    )


def _internal_error(session: Session, lease: Lease, *, reason: str, backend: Backend) -> RunReport:
    submission = submissions.find(session, lease.job.submission_id)
    board = None if submission is None else boards.find(session, submission.leaderboard)
    return RunReport(
        job_id=job_name(lease),
        mode=lease.job.mode,
        backend=backend,
        harness=HarnessKind.STANDARD if board is None else board.harness,
        verdict=Verdict.INTERNAL_ERROR,
        message=f"No machine could judge this in {lease.job.attempt} attempts: {reason}",
    )


def job_name(lease: Lease) -> str:
    """Return the name under which a machine sees an attempt: an old attempt's report has an old name."""
    return f"{lease.job.id}.{lease.job.attempt}"
