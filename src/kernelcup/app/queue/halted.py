"""Jobs that our side has lost too often: they wait until an admin has looked, and lets them go on or cancels them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from kernelcup.app import access
from kernelcup.app.operation import SubmissionId, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.queue.queries import jobs
from kernelcup.app.submissions.queries import events
from kernelcup.domain import Actor, JobState, Role, Scope
from kernelcup.engine import Database
from kernelcup.errors import NotFound
from kernelcup.tables import JobRow


@dataclass(frozen=True, kw_only=True, slots=True)
class HaltedJob:
    """A job that waits for an admin."""

    submission: int
    job: int
    device: str
    reason: str


@operation("GET", "/jobs/halted", "admin halted", subject="administration")
def list_halted(db: Database, actor: Actor) -> list[HaltedJob]:
    """List the jobs that our side lost five times, and that wait for `admin resume` or `cancel`. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    columns = (JobRow.submission_id.label("submission"), JobRow.id.label("job"), JobRow.device, JobRow.reason)
    query = select(*columns).where(jobs.in_state(JobState.HALTED)).order_by(JobRow.id)
    with db.read() as session:
        return [HaltedJob(**row._mapping) for row in session.execute(query)]


@operation("POST", "/submissions/{submission_id}/resume", "admin resume", subject="administration")
def resume(db: Database, actor: Actor, submission_id: SubmissionId, *, now: datetime) -> list[HaltedJob]:
    """Return the halted jobs of a submission to the queue, where they are next. For admins.

    Raises:
        NotFound: It has none.
    """
    found = [each for each in list_halted(db, actor) if each.submission == submission_id]
    if not found:
        raise NotFound(f"Submission {submission_id} has no halted job.")
    with db.write(durable=True) as session:
        for job in jobs.lock(session, [each.job for each in found]):
            if job.state is JobState.HALTED:
                jobs.resume(session, job)
                events.record(session, submission_id, "queued", {"reason": "resumed"}, job.id, now)
        detail = {"jobs": [each.job for each in found]}
        audit_log.record(session, actor, "submission.resume", f"submission:{submission_id}", detail, now)
    return found
