"""The life of a job: claim, renew, finish, hand back, retry.

An accepted job ends in exactly one counted run, or is cancelled. Each change is guarded by the lease, so a
holder that was taken for dead can come back without doing harm. Each change records its event in the same
transaction.

No jobs are claimed for a paused device. A pause of the service or of a leaderboard only stops new
submissions: jobs that were accepted before are judged.

Calls of a launcher outlive their dispatcher: their names are stored, and another dispatcher goes on with them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from kernelcup.app.boards.queries import boards
from kernelcup.app.machines.process_identity import is_gone
from kernelcup.app.queue.queries import claims, jobs
from kernelcup.app.results import finals, subscribers
from kernelcup.app.rules.queries import pauses
from kernelcup.app.submissions.queries import events, screenings
from kernelcup.domain import Job, JobKind, JobState, PauseScope, Priority, Run
from kernelcup.engine import Database, Session
from kernelcup.errors import NotFound, StaleLease
from kernelcup.screen.findings import Screening
from kernelcup_harness.protocol import Backend, HarnessKind, RunReport, Verdict

ADOPT_WITHIN = timedelta(minutes=10)
"""How long a call that outlives its dispatcher waits for the next one before the attempt counts as lost."""


def note_call(db: Database, lease: jobs.Lease, call: str, machine: str | None = None) -> None:
    """Store by which name the launcher knows an attempt, and where it runs. Raise ``StaleLease``."""
    with db.write() as session:
        jobs.note_call(session, lease, call, machine)


def adopt(
    db: Database,
    *,
    owner: str,
    devices: Collection[str],
    now: datetime,
    lease_s: float,
    gone: Callable[[str], bool] = is_gone,
) -> list[jobs.Lease]:
    """Take over the attempts on these devices whose dispatcher is gone but whose calls may go on."""
    if not devices:
        return []
    with db.read() as session:
        doubtful = jobs.doubtful(session, owner=owner, now=now)
    held = [each for each in doubtful if each.call and each.job.device in devices]
    ended = {each: gone(each) for each in {lease.owner for lease in held}}
    lapsed = [lease for lease in held if lease.until < now or ended[lease.owner]]
    until = now + timedelta(seconds=lease_s)
    adopted = []
    for lease in lapsed:
        with suppress(StaleLease), db.write() as session:
            adopted.append(jobs.adopt(session, lease, owner=owner, until=until))
    return adopted


MAX_ATTEMPTS = 3
"""After this many failed launches a job is given up."""

MOST_LOST = 5
"""After this many attempts that our side lost a job waits for an admin: it may be what kills."""

logger = logging.getLogger(__name__)


def claim_next(
    db: Database,
    *,
    owner: str,
    lease_s: float,
    devices: Sequence[str],
    now: datetime,
    up_to_submission: int | None = None,
    but: Sequence[JobKind] = (),
    only: Priority | None = None,
    board_id: int | None = None,
) -> jobs.Lease | None:
    """Take the first waiting job for one of the devices, None if there is none.

    Jobs of the kinds ``but`` wait on, and all that are not of the class ``only`` or of the leaderboard ``board_id``.
    """
    until = now + timedelta(seconds=lease_s)
    # Look before writing: SQLite has only one writer, and most looks find nothing.
    with db.read() as session:
        some = [
            device
            for device in devices
            if claims.has_waiting(session, device=device, up_to_submission=up_to_submission)
        ]
        stopped = paused_devices(session) if some else {}
    some = [device for device in some if device.lower() not in stopped]
    if not some:
        return None
    with db.write() as session:
        lease = claims.claim(
            session,
            owner=owner,
            until=until,
            devices=some,
            now=now,
            up_to_submission=up_to_submission,
            but=but,
            only=only,
            board_id=board_id,
        )
        if lease is not None:
            job = lease.job
            events.record(session, job.submission_id, "started", {"attempt": job.attempt}, job.id, now)
        return lease


def paused_devices(session: Session) -> dict[str, str]:
    """Return the reasons of paused devices, by their names in lower case."""
    found = pauses.every(session)
    return {pause.key: pause.reason for pause in found if pause.scope is PauseScope.DEVICE}


def renew_all(db: Database, tokens: Collection[str], *, lease_s: float, now: datetime) -> set[str]:
    """Keep the jobs of these leases for longer; return the tokens of those that still hold."""
    with db.write() as session:
        return jobs.renew_all(session, tokens, until=now + timedelta(seconds=lease_s))


def finish(
    db: Database,
    lease: jobs.Lease,
    *,
    report: RunReport,
    harness_hash: str,
    machine: str,
    now: datetime,
    rival: int | None = None,
    screening: Screening | None = None,
) -> Run:
    """Store the result of a job and mark it done.

    Args:
        rival: The submission that it was measured against.
        screening: The findings of a second opinion. They are stored first, since a leaderboard may hold back
            results with certain tags.

    Raises:
        StaleLease: The job is no longer ours.
    """
    with db.write(durable=True) as session:
        # Lock in the same order as a deletion: the job, then the data of its submission.
        started_at = jobs.complete(session, lease, now=now)
        if screening is not None:
            screenings.insert_if_absent(session, lease.job.submission_id, screening)
        return subscribers.store(
            session,
            lease.job,
            report,
            started_at=started_at,
            now=now,
            harness_hash=harness_hash,
            machine=machine,
            rival=rival,
        )


def hand_back(db: Database, lease: jobs.Lease, *, reason: str = "", now: datetime) -> None:
    """Return a job to the queue without counting the attempt. Raise ``StaleLease``."""
    with db.write() as session:
        _requeue(session, lease, reason=reason, now=now)


def lose(db: Database, lease: jobs.Lease, *, reason: str, now: datetime) -> None:
    """Try a job again without counting the attempt, which our side has ended; after :data:`MOST_LOST` halt it.

    Raise ``StaleLease`` if the job is no longer ours.
    """
    changes: dict[str, object] = {"attempt": lease.job.attempt + 1, "lost": lease.job.lost + 1}
    if (lease.job.lost + 1) % MOST_LOST == 0:
        changes["state"] = JobState.HALTED.value
        reason = f"our side lost {MOST_LOST} attempts, so it waits for an admin; the last one: {reason}"
    with db.write(durable=True) as session:
        _requeue(session, lease, reason=reason, now=now, **changes)


def fail_attempt(
    db: Database,
    lease: jobs.Lease,
    *,
    reason: str,
    now: datetime,
    backend: Backend = Backend.CUDA,
    max_attempts: int = MAX_ATTEMPTS,
) -> Run | None:
    """Try a job again after its machine failed, or give it up with an ``internal_error``.

    Returns:
        None if it waits again, or the run that ends it after the last attempt.

    Raises:
        StaleLease: The job is no longer ours.
    """
    with db.write(durable=True) as session:
        if attempts(lease.job) < max_attempts:
            _requeue(session, lease, attempt=lease.job.attempt + 1, reason=reason, now=now)
            return None
        report = _internal_error(session, lease, reason=reason, backend=backend)
        began = jobs.complete(session, lease, now=now, reason=reason)
        return subscribers.store(
            session, lease.job, report, started_at=began, now=now, harness_hash="", machine=""
        )


def reclaim(
    db: Database,
    *,
    now: datetime,
    gone: Callable[[str], bool] = is_gone,
    owner: str = "",
) -> list[int]:
    """Lose the attempts of holders that went silent or whose process has ended, and return the jobs' ids.

    ``owner`` is the holder who asks, and so has not ended.
    """
    with db.read() as session:
        held = jobs.doubtful(session, owner=owner, now=now)
    ended = {each: gone(each) for each in {lease.owner for lease in held}}
    reclaimed = []
    for lease in held:
        if lease.call and lease.until + ADOPT_WITHIN >= now:
            continue
        if lease.until >= now and not ended[lease.owner]:
            continue
        reason = f"attempt {lease.job.attempt} was lost with its dispatcher"
        try:
            lose(db, lease, reason=reason, now=now)
        except StaleLease:
            continue  # it was renewed, finished or reclaimed by another in the meantime
        logger.warning("job %d reclaimed: %s", lease.job.id, reason)
        reclaimed.append(lease.job.id)
    return reclaimed


def cancel(db: Database, job_id: int, *, now: datetime, reason: str = "cancelled") -> bool:
    """Cancel a job and return whether it was waiting or running. Raise ``NotFound``."""
    with db.write(durable=True) as session:
        job = jobs.find(session, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.")
        return cancel_jobs(session, job.submission_id, [job_id], now=now, reason=reason) == 1


def cancel_jobs(
    session: Session, submission_id: int, job_ids: Sequence[int], *, now: datetime, reason: str
) -> int:
    """Cancel those of a submission's jobs that are waiting or running, and return how many.

    A dispatcher that works on one notices at its next heartbeat and ends the process. A job that is being
    rejudged, or waits for it, becomes done again with the result that it had.
    """
    cancelled = [
        job.id for job in jobs.lock(session, job_ids) if jobs.cancel(session, job.id, now=now, reason=reason)
    ]
    for job_id in cancelled:
        events.record(session, submission_id, "cancelled", {"reason": reason}, job_id, now)
        finals.go_on_after(session, job_id, now=now)
    if cancelled:
        events.record_end(session, submission_id, now)
    return len(cancelled)


def _requeue(session: Session, lease: jobs.Lease, *, reason: str, now: datetime, **changes: object) -> None:
    job = jobs.requeue(session, lease, reason=reason, **changes)
    events.record(session, job.submission_id, "queued", {"reason": reason}, job.id, now)


def attempts(job: Job) -> int:
    """Return the number of attempts at the current judgement of a job that count, with the present one."""
    return job.attempt - job.first_attempt + 1 - job.lost


def _internal_error(session: Session, lease: jobs.Lease, *, reason: str, backend: Backend) -> RunReport:
    board = boards.some(session, [lease.job.leaderboard_id]).get(lease.job.leaderboard_id)
    return RunReport(
        job_id=job_name(lease),
        mode=lease.job.mode,
        backend=backend,
        harness=HarnessKind.STANDARD if board is None else board.harness,
        verdict=Verdict.INTERNAL_ERROR,
        message=f"No machine could judge this in {attempts(lease.job)} attempts: {reason}",
    )


def job_name(lease: jobs.Lease) -> str:
    """Return the name of an attempt for its machine; each attempt has its own, so old reports are recognized."""
    return f"{lease.job.id}.{lease.job.attempt}"
