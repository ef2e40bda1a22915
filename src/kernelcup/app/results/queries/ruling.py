"""What counts: one rule says of a result, for a reader and a moment, whether it counts, and if not, why.

The rule is written once, as conditions over :class:`Facts`. These may be the columns of a query or the values of one
result, so lists and single results cannot disagree. All that show results ask here; nothing else filters.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, and_, case, not_, or_, select
from sqlalchemy.orm import Session

from kernelcup.domain import JobState, TrustRule
from kernelcup.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import Mode, TrustLevel


class Ruling(StrEnum):
    """Whether a result counts; any but the first says why it does not. If several hold, the first is told."""

    COUNTS = "counts"
    REJECTED = "rejected"
    """A review rejected it."""
    HELD = "held"
    """It waits for a review."""
    REPLACED = "replaced"
    """It was judged again, and the other run counts."""
    NO_TIME = "no_time"
    HIDDEN = "hidden"
    """It was found after the freeze, and this reader does not see what is decided then."""
    LEVEL = "level"
    """The leaderboard requires another level of times."""
    OUTDATED = "outdated"
    """It was judged with another version of the task, or by another harness, than the leaderboard has now."""
    GONE = "gone"
    """Its submission was deleted, or has no result on this device."""


ASIDE = (Ruling.REJECTED, Ruling.HELD)
"""A review keeps it from everybody but the leaderboard's managers and its author."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What decides about a result: columns, or the values of one result."""

    state: Any
    """Of its job."""
    counted: Any
    score_s: Any
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
    hidden = [] if since is None else [(Ruling.HIDDEN, of.finished_at > since)]
    is_enough = any_of(
        of.takes == TrustRule.ANY.value,
        all_of(of.takes == TrustRule.REPLAYED.value, of.trust == TrustLevel.REPLAYED.value),
        of.trust == TrustLevel.WITNESSED.value,
    )
    return [
        (Ruling.REJECTED, of.state == JobState.REJECTED.value),
        (Ruling.HELD, of.state == JobState.QUARANTINED.value),
        (Ruling.REPLACED, opposite(of.counted)),
        (Ruling.NO_TIME, is_none(of.score_s)),
        *hidden,
        (Ruling.LEVEL, opposite(is_enough)),
        (Ruling.OUTDATED, of.judging != of.judges),
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


def only(wanted: Ruling, *but: Ruling) -> ColumnElement[bool]:
    """Return the condition for results that would count if there was not this one reason, whatever others say."""
    (holds,) = (holds for ruling, holds in reasons(COLUMNS) if ruling is wanted)
    return and_(counts(wanted, *but), holds)


def of_submissions(
    session: Session, submission_ids: Collection[int], device: str, since: datetime | None = None
) -> dict[int, Ruling]:
    """Return the ruling on the ranked result of each submission on a device."""
    query = (
        select(JobRow.submission_id, column(since))
        .join(RunRow, and_(RunRow.job_id == JobRow.id, RunRow.counted))
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .where(JobRow.submission_id.in_(submission_ids), JobRow.device == device)
        .where(JobRow.mode == Mode.LEADERBOARD.value)
    )
    found = {number: Ruling(ruling) for number, ruling in session.execute(query)}
    return {number: found.get(number, Ruling.GONE) for number in submission_ids}


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
