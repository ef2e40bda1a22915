"""The GPU time that runs used, as limits count it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from kernelcup.app.results.queries.ruling import CURRENT
from kernelcup.domain import split_count
from kernelcup.tables import DeletedUseRow, JobRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import Reason, Verdict

UNKNOWN_PACE_S = 30.0
"""The expected time of a job, in seconds, before one was measured or if the clock was set back."""

LONGEST_WAIT = timedelta(days=7)
"""A window does not count runs of submissions that are older than the window by more than this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """A use that counts against a limit."""

    at: datetime
    """It counts for one window from this time on."""
    amount: float
    cost: float = 0.0
    """What it cost, for all its GPUs."""

    def on(self, device: str) -> Use:
        """Return the use on a device: each GPU of ``H200x2`` counts."""
        return replace(self, amount=self.amount * split_count(device)[1])


NO_MACHINE = and_(RunRow.verdict == Verdict.INTERNAL_ERROR.value, RunRow.machine == "")
"""The condition for runs that ended a job after its last attempt was lost: no machine could judge it."""

NOT_MEASURED = and_(
    RunRow.verdict == Verdict.INTERNAL_ERROR.value, RunRow.report["reason"].as_string() == Reason.BUSY.value
)
"""The condition for runs that a busy machine could not measure: no attempts, but their seconds were used."""

_RUN = select(RunRow.id).where(RunRow.job_id == JobRow.id, CURRENT).correlate(JobRow)
IS_LOST = _RUN.where(NO_MACHINE).exists()
"""The condition for jobs that we lost: they are given back to all limits."""
IS_ATTEMPT = ~_RUN.where(or_(NO_MACHINE, NOT_MEASURED)).exists()
"""The condition for jobs that count as submissions."""

_OTHER = aliased(RunRow)
_IS_FIRST = RunRow.id == select(func.min(_OTHER.id)).where(_OTHER.job_id == RunRow.job_id).scalar_subquery()
"""The condition for the first run of a job."""


def count_not_measured(session: Session, since: datetime) -> int:
    """Return how many runs busy machines could not measure since then."""
    runs = select(func.count()).select_from(RunRow)
    return session.scalars(runs.where(RunRow.finished_at > since, NOT_MEASURED)).one()


def first_runs(session: Session, job_ids: Sequence[int]) -> dict[int, Use]:
    """Return the first run of each job; later runs are rejudges.

    Free are a job that we lost, and a user's first other internal error of a day, unless the machine was busy.
    """
    found: dict[int, Use] = {}
    failed: list[int] = []
    for start in range(0, len(job_ids), 500):
        columns = (RunRow.job_id, RunRow.started_at, RunRow.finished_at, RunRow.verdict, RunRow.cost)
        query = select(*columns, NO_MACHINE).where(RunRow.job_id.in_(job_ids[start : start + 500]), _IS_FIRST)
        for job_id, started_at, finished_at, verdict, cost, is_lost in session.execute(query):
            amount = 0.0 if is_lost else lasted_s(started_at, finished_at)
            found[job_id] = Use(at=finished_at, amount=amount, cost=cost)
            if verdict == Verdict.INTERNAL_ERROR.value and not is_lost:
                failed.append(job_id)
    for job_id in _free(session, failed):
        if job_id in found:
            found[job_id] = replace(found[job_id], amount=0.0, cost=0.0)
    return found


def _free(session: Session, failed: Sequence[int]) -> list[int]:
    """Return the jobs that ended with their user's first internal error of a day (UTC), of the users of some jobs.

    A deleted one stays the first: its use is kept, with no seconds.
    """
    if not failed:
        return []
    times = session.scalars(select(func.min(RunRow.finished_at)).where(RunRow.job_id.in_(failed))).one()
    since = times - timedelta(days=1)
    users = set(session.scalars(select(SubmissionRow.user_id).join(JobRow).where(JobRow.id.in_(failed))))
    deleted = select(DeletedUseRow.user_id, DeletedUseRow.used_at).where(
        DeletedUseRow.user_id.in_(users),
        DeletedUseRow.created_at > since - LONGEST_WAIT,
        DeletedUseRow.used_at.is_not(None),
        DeletedUseRow.seconds == 0.0,
    )
    had = {(user_id, at.date()) for user_id, at in session.execute(deleted) if at is not None}
    errors = (
        select(SubmissionRow.user_id, RunRow.finished_at, RunRow.job_id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(SubmissionRow.user_id.in_(users), SubmissionRow.created_at > since - LONGEST_WAIT)
        .where(RunRow.verdict == Verdict.INTERNAL_ERROR.value, RunRow.machine != "", ~NOT_MEASURED, _IS_FIRST)
        .order_by(RunRow.finished_at, RunRow.id)
    )
    free = []
    for user_id, at, job_id in session.execute(errors):
        if (user_id, at.date()) not in had:
            had.add((user_id, at.date()))
            free.append(job_id)
    return free


def lasted_s(started_at: datetime, finished_at: datetime) -> float:
    """Return the duration in seconds; an estimate if the clock was set back meanwhile."""
    seconds = (finished_at - started_at).total_seconds()
    return seconds if seconds >= 0 else UNKNOWN_PACE_S
