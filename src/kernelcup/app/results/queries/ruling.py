"""What counts: one rule says of a result, for a reader and a moment, whether it counts, and if not, why.

The rule is written once, as conditions over :class:`Facts`. These may be the columns of a query or the values of one
result, so lists and single results cannot disagree. All that show results ask here; nothing else filters.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, not_, or_, select
from sqlalchemy.orm import Session

from kernelcup.domain import Job, JobState, Leaderboard, Ruling, Run, TrustRule
from kernelcup.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import TrustLevel


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What decides about a result: columns, or the values of one result."""

    state: Any
    """Of its job."""
    counted: Any
    score_s: Any
    practice: Any
    trust: Any
    judging: Any
    finished_at: Any
    takes: Any
    """The level of times that its leaderboard requires."""
    judges: Any
    """What the leaderboard is judged by now."""


COLUMNS = Facts(
    state=JobRow.state,
    counted=RunRow.counted,
    score_s=RunRow.score_s,
    practice=JobRow.practice,
    trust=RunRow.trust,
    judging=RunRow.judging,
    finished_at=RunRow.finished_at,
    takes=LeaderboardRow.trust,
    judges=LeaderboardRow.judging,
)
"""Of a query that joins runs, jobs and leaderboards."""


def reasons(of: Facts, since: datetime | None = None) -> list[tuple[Ruling, Any]]:
    """Return each reason not to count, with the condition under which it holds.

    Args:
        of: The result.
        since: The freeze from which on the reader does not see what is decided; None if there is none.
    """
    is_enough = any_of(
        of.takes == TrustRule.ANY.value,
        all_of(of.takes == TrustRule.REPLAYED.value, of.trust == TrustLevel.REPLAYED.value),
        of.trust == TrustLevel.WITNESSED.value,
    )
    return [
        (Ruling.REJECTED, of.state == JobState.REJECTED.value),
        (Ruling.HELD, of.state == JobState.QUARANTINED.value),
        *([] if since is None else [(Ruling.HIDDEN, opposite(is_shown(of.finished_at, since)))]),
        (Ruling.REPLACED, opposite(of.counted)),
        (Ruling.NO_TIME, is_none(of.score_s)),
        (Ruling.PRACTICE, of.practice),
        (Ruling.OUTDATED, of.judging != of.judges),
        (Ruling.LEVEL, opposite(is_enough)),
    ]


def rule(of: Facts, since: datetime | None = None) -> Ruling:
    """Return whether one result counts, and if not, why."""
    return next((ruling for ruling, holds in reasons(of, since) if holds), Ruling.COUNTS)


def column(since: datetime | None = None) -> ColumnElement[str]:
    """Return the same as a column of a query."""
    return case(
        *((holds, ruling.value) for ruling, holds in reasons(COLUMNS, since)), else_=Ruling.COUNTS.value
    )


def without(*rulings: Ruling, since: datetime | None = None) -> ColumnElement[bool]:
    """Return the condition for results against which none of these reasons holds."""
    return and_(*(not_(holds) for ruling, holds in reasons(COLUMNS, since) if ruling in rulings))


def counts(*but: Ruling, since: datetime | None = None) -> ColumnElement[bool]:
    """Return the condition for results that count, or would if there was none of these reasons."""
    return without(*(each for each in Ruling if each not in but), since=since)


def only(wanted: Ruling, *but: Ruling, since: datetime | None = None) -> ColumnElement[bool]:
    """Return the condition for results that would count if there was not this one reason, whatever others say."""
    (holds,) = (holds for ruling, holds in reasons(COLUMNS) if ruling is wanted)
    return and_(counts(wanted, *but, since=since), holds)


def of_job(job: Job, run: Run | None, board: Leaderboard, since: datetime | None = None) -> Ruling:
    """Return the ruling on the run that counts for a job, :attr:`Ruling.GONE` if none does."""
    if run is None:
        return Ruling.GONE
    facts = Facts(
        state=job.state,
        counted=True,
        score_s=run.score_s,
        practice=job.practice,
        trust=run.report.trust,
        judging=run.judging,
        finished_at=run.finished_at,
        takes=board.trust,
        judges=board.judging,
    )
    return rule(facts, since)


def of_submissions(session: Session, submission_ids: Collection[int], device: str) -> dict[int, Ruling]:
    """Return the ruling on the result of each submission on a device."""
    found = _of_jobs(session, submission_ids)
    return {number: found.get((number, device), Ruling.GONE) for number in submission_ids}


def of_submission(session: Session, submission_id: int) -> set[Ruling]:
    """Return the rulings on the results of a submission, on all its devices."""
    return set(_of_jobs(session, [submission_id]).values())


def are_held(jobs: Sequence[Job]) -> bool:
    """Return whether the results of all these jobs wait for a review."""
    return bool(jobs) and all(job.state is JobState.QUARANTINED for job in jobs)


def _of_jobs(session: Session, submission_ids: Collection[int]) -> dict[tuple[int, str], Ruling]:
    ruled = case((RunRow.id.is_(None), Ruling.GONE.value), else_=column())
    query = (
        select(JobRow.submission_id, JobRow.device, ruled)
        .outerjoin(RunRow, and_(RunRow.job_id == JobRow.id, CURRENT))
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .where(JobRow.submission_id.in_(submission_ids))
    )
    return {(number, device): Ruling(ruling) for number, device, ruling in session.execute(query)}


def is_shown(at: Any, since: Any) -> Any:
    """Return whether readers of a table that is frozen since a time, or None, see what was decided at a time."""
    return at is None or since is None or any_of(is_none(since), at <= since)


def any_of(*conditions: Any) -> Any:
    """Return whether one of some conditions holds, for columns the condition."""
    return or_(*conditions) if is_of_query(conditions) else any(conditions)


def all_of(*conditions: Any) -> Any:
    """Return whether all of some conditions hold, for columns the condition."""
    return and_(*conditions) if is_of_query(conditions) else all(conditions)


def opposite(condition: Any) -> Any:
    """Return whether a condition does not hold, for columns the condition."""
    return not_(condition) if hasattr(condition, "is_") else not condition


def is_none(value: Any) -> Any:
    """Return whether there is no value, for columns the condition."""
    return value.is_(None) if hasattr(value, "is_") else value is None


def is_of_query(conditions: Sequence[Any]) -> bool:
    """Return whether conditions are parts of a query."""
    return any(isinstance(each, ColumnElement) for each in conditions)


CURRENT = without(Ruling.REPLACED)
"""The condition for the run that counts for its job: at most one of each job's runs."""
