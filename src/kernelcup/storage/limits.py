"""Limits, and what was used of them.

What a deleted submission used is kept in the audit log: deleting gives nothing back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, or_, select
from sqlalchemy.orm import Session, aliased

from kernelcup.domain import JobState, Priority
from kernelcup.storage.tables import (
    AuditRow,
    JobRow,
    LeaderboardRow,
    LimitRow,
    PaceRow,
    RunRow,
    SubmissionRow,
    UserRow,
    table_of,
)
from kernelcup_harness.protocol import Mode, Verdict

DELETED = "deleted submissions"
"""Target of the entries of the audit log that say what deleted submissions had used."""

UNKNOWN_PACE_S = 30.0
"""What a job is expected to take before any was measured."""

LONGEST_WAIT = timedelta(days=7)
"""Runs of submissions that are older than a window by more than this do not count in it."""


class Quantity(StrEnum):
    """What a limit counts."""

    SUBMISSIONS = "submissions"
    GPU_SECONDS = "gpu_seconds"


class ModeGroup(StrEnum):
    """Modes with a limit of their own."""

    PRACTICE = "practice"
    RANKED = "ranked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """How much may be asked for in a time. What is None applies to all."""

    id: int
    board_id: int | None
    board: str | None
    user_id: int | None
    user: str | None
    device: str | None
    mode_group: ModeGroup | None
    per_user: bool
    """Whether each user has the amount, or all have it together."""
    quantity: Quantity
    amount: float
    window_s: int

    @property
    def text(self) -> str:
        """The limit in words, such as ``10 ranked submissions per hour on H100, for each user``."""
        one = "" if self.amount == 1 else "s"
        what = f"GPU-second{one}" if self.quantity is Quantity.GPU_SECONDS else f"submission{one}"
        kinds = f"{self.mode_group.value} " if self.mode_group is not None else ""
        where = f" to {self.board}" if self.board is not None else ""
        device = f" on {self.device}" if self.device is not None else ""
        who = "for each user" if self.per_user else "for all together"
        whose = f"for {self.user}" if self.user is not None else who
        return f"{self.amount:g} {kinds}{what} per {_window(self.window_s)}{where}{device}, {whose}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """Something that counts against a limit."""

    at: datetime
    """It counts until the window has passed since then."""
    amount: float


def insert(session: Session, limit: Limit) -> int:
    """Store a limit and return its id."""
    row = LimitRow(
        leaderboard_id=limit.board_id,
        user_id=limit.user_id,
        device=limit.device,
        mode_group=None if limit.mode_group is None else limit.mode_group.value,
        per_user=limit.per_user,
        quantity=limit.quantity.value,
        amount=limit.amount,
        window_s=limit.window_s,
    )
    session.add(row)
    session.flush()
    return row.id


def find(session: Session, limit_id: int) -> Limit | None:
    """Return a limit, None if there is no such one."""
    found = _load(session, _limits().where(_LIMITS.c.id == limit_id))
    return found[0] if found else None


def every(session: Session, *, board_id: int | None = None) -> list[Limit]:
    """Return all limits, or those of one leaderboard."""
    query = _limits()
    return _load(session, query if board_id is None else query.where(LimitRow.leaderboard_id == board_id))


def remove(session: Session, limit_id: int) -> None:
    """Delete a limit."""
    session.execute(delete(LimitRow).where(LimitRow.id == limit_id))


def applying(
    session: Session, *, board_id: int, user_id: int | None, devices: Sequence[str], group: ModeGroup | None
) -> list[Limit]:
    """Return the limits that a submission comes under, in one order; all mode groups for None."""
    found = _load(session, _applying(), {"board_id": board_id, "user_id": user_id})
    wanted = {device.lower() for device in devices}
    return [
        each
        for each in found
        if (each.device is None or each.device.lower() in wanted)
        and (group is None or each.mode_group in (None, group))
    ]


@cache
def _applying() -> Select[Any]:
    # Asked for each submission: building the query would take longer than running it.
    return _limits().where(
        or_(_LIMITS.c.leaderboard_id.is_(None), _LIMITS.c.leaderboard_id == bindparam("board_id")),
        or_(_LIMITS.c.user_id.is_(None), _LIMITS.c.user_id == bindparam("user_id")),
    )


def lock(session: Session, limit: Limit) -> None:
    """Let nobody else use a limit before the transaction ends. SQLite has one writer anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(_LOCK_SPACE, limit.id)))


_LOCK_SPACE = 0x6B63  # "kc": numbers of other locks mean something else


def submissions_since(
    session: Session, limit: Limit, *, user_id: int | None, since: datetime, most: int
) -> list[datetime]:
    """Return when the newest of those submissions arrived that count against a limit, newest first."""
    kept = list(session.scalars(_arrivals(session, limit, user_id, since).limit(most)))
    return sorted([*kept, *_deleted_arrivals(session, limit, user_id, since)], reverse=True)[:most]


def submission_before(
    session: Session, limit: Limit, *, user_id: int | None, since: datetime, newer: int
) -> datetime | None:
    """Return when the submission arrived after which so many newer ones count, None if there is none."""
    deleted = _deleted_arrivals(session, limit, user_id, since)
    arrivals = _arrivals(session, limit, user_id, since)
    if not deleted:
        return session.execute(arrivals.offset(newer).limit(1)).scalar_one_or_none()
    found = sorted([*session.scalars(arrivals.limit(newer + 1)), *deleted], reverse=True)
    return found[newer] if len(found) > newer else None


def gpu_seconds(
    session: Session, limit: Limit, *, user_id: int | None, since: datetime, now: datetime
) -> list[Use]:
    """Return what counts against a limit in GPU-seconds: runs, and estimates of what is to come."""
    paces = {(row.device, row.mode): row.mean_s for row in session.scalars(select(PaceRow))}
    jobs = (
        select(JobRow.id, JobRow.state, JobRow.device, JobRow.mode, JobRow.started_at, JobRow.finished_at)
        .add_columns(JobRow.priority)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(*_of_limit(session, limit, user_id, since - LONGEST_WAIT))
    )
    open_states = (JobState.QUEUED.value, JobState.RUNNING.value)
    jobs = jobs.where(or_(JobRow.state.in_(open_states), JobRow.finished_at > since))
    if limit.device is not None:
        jobs = jobs.where(func.lower(JobRow.device) == limit.device.lower())
    rows = session.execute(jobs).all()
    runs = _first_runs(session, [row.id for row in rows])
    used = []
    for row in rows:
        if row.id in runs:  # judged, perhaps waiting for a rejudge, which is not the user's wish
            used.append(runs[row.id])
        elif row.state in open_states and row.priority != Priority.REJUDGE:
            used.append(Use(at=now, amount=paces.get((row.device, row.mode), UNKNOWN_PACE_S)))
        elif row.state == JobState.CANCELLED.value and row.started_at is not None:
            seconds = (row.finished_at - row.started_at).total_seconds()
            used.append(Use(at=row.finished_at, amount=max(seconds, 0.0)))
    for spent in _deleted(session, limit, user_id, since):
        used += [
            Use(at=datetime.fromisoformat(use["at"]), amount=use["seconds"])
            for use in spent["gpu"]
            if limit.device is None or use["device"].lower() == limit.device.lower()
        ]
    return [use for use in used if use.at > since]


def spent_by(session: Session, submission_id: int, *, now: datetime) -> list[dict[str, Any]]:
    """Return the GPU time of a submission that is about to be deleted, in the form of the audit log."""
    jobs = session.scalars(
        select(JobRow).where(JobRow.submission_id == submission_id).order_by(JobRow.id)
    ).all()
    runs = _first_runs(session, [job.id for job in jobs])
    used = []
    for job in jobs:
        cut_off = job.state in (JobState.RUNNING.value, JobState.CANCELLED.value)
        if job.id in runs:
            used.append((job.device, runs[job.id]))
        elif cut_off and job.started_at is not None:
            end = job.finished_at or now
            seconds = max((end - job.started_at).total_seconds(), 0.0)
            used.append((job.device, Use(at=end, amount=seconds)))
    return [{"device": device, "at": use.at.isoformat(), "seconds": use.amount} for device, use in used]


def _arrivals(session: Session, limit: Limit, user_id: int | None, since: datetime) -> Select[datetime]:
    query = (
        select(SubmissionRow.created_at)
        .where(SubmissionRow.created_at > since, *_of_limit(session, limit, user_id, since))
        .order_by(SubmissionRow.created_at.desc())
    )
    if limit.device is None:
        return query
    jobs = query.join(JobRow, JobRow.submission_id == SubmissionRow.id)
    return jobs.where(func.lower(JobRow.device) == limit.device.lower())


def _deleted_arrivals(session: Session, limit: Limit, user_id: int | None, since: datetime) -> list[datetime]:
    found = [
        datetime.fromisoformat(spent["created_at"]) for spent in _deleted(session, limit, user_id, since)
    ]
    return [at for at in found if at > since]


def _first_runs(session: Session, job_ids: Sequence[int]) -> dict[int, Use]:
    """Return the first run of each job: later ones are rejudges. What no machine could judge is free."""
    other = aliased(RunRow)
    first = select(func.min(other.id)).where(other.job_id == RunRow.job_id).scalar_subquery()
    found: dict[int, Use] = {}
    for start in range(0, len(job_ids), 500):
        query = select(RunRow.job_id, RunRow.started_at, RunRow.finished_at, RunRow.verdict).where(
            RunRow.job_id.in_(job_ids[start : start + 500]), RunRow.id == first
        )
        for job_id, started_at, finished_at, verdict in session.execute(query):
            seconds = (finished_at - started_at).total_seconds()
            free = verdict == Verdict.INTERNAL_ERROR.value
            found[job_id] = Use(at=finished_at, amount=0.0 if free else max(seconds, 0.0))
    return found


def _of_limit(
    session: Session, limit: Limit, user_id: int | None, since: datetime
) -> list[ColumnElement[bool]]:
    """Return which submissions count, in a form for which there is an index."""
    wanted: list[ColumnElement[bool]] = []
    if limit.board_id is not None:
        wanted.append(SubmissionRow.leaderboard_id == limit.board_id)
    if limit.per_user:
        wanted.append(SubmissionRow.user_id == user_id)
    if limit.mode_group is ModeGroup.RANKED:
        wanted.append(SubmissionRow.mode == Mode.LEADERBOARD.value)
    elif limit.mode_group is ModeGroup.PRACTICE:
        wanted.append(SubmissionRow.mode != Mode.LEADERBOARD.value)
    if limit.per_user or limit.board_id is not None:
        wanted.append(SubmissionRow.created_at > since)
    else:
        wanted.append(SubmissionRow.id > _last_before(session, since))
    return wanted


def _last_before(session: Session, since: datetime) -> int:
    """Return the newest submission before a moment, 0 if there is none: numbers follow the time, nearly."""
    slack = timedelta(minutes=1)
    query = select(SubmissionRow.id).where(SubmissionRow.created_at < since - slack)
    return session.execute(query.order_by(SubmissionRow.id.desc()).limit(1)).scalar_one_or_none() or 0


def _deleted(session: Session, limit: Limit, user_id: int | None, since: datetime) -> list[dict[str, Any]]:
    query = select(AuditRow.detail).where(AuditRow.target == DELETED, AuditRow.at > since)
    return [spent for spent in session.scalars(query) if _counts(limit, spent, user_id)]


def _counts(limit: Limit, spent: dict[str, Any], user_id: int | None) -> bool:
    groups = {ModeGroup.RANKED: True, ModeGroup.PRACTICE: False}
    is_ranked = spent["mode"] == Mode.LEADERBOARD.value
    return (
        (limit.board_id is None or spent["board_id"] == limit.board_id)
        and (not limit.per_user or spent["user_id"] == user_id)
        and (limit.mode_group is None or groups[limit.mode_group] is is_ranked)
        and (limit.device is None or limit.device.lower() in [name.lower() for name in spent["devices"]])
    )


_LIMITS = table_of(LimitRow)


def _limits() -> Select[Any]:
    boards, people = table_of(LeaderboardRow), table_of(UserRow)
    return (
        select(*_LIMITS.c, boards.c.name.label("board"), people.c.name.label("person"))
        .join(boards, boards.c.id == _LIMITS.c.leaderboard_id, isouter=True)
        .join(people, people.c.id == _LIMITS.c.user_id, isouter=True)
        .order_by(_LIMITS.c.id)
    )


def _load(
    session: Session,
    query: Select[Any],
    values: Mapping[str, object] | None = None,
) -> list[Limit]:
    return [
        Limit(
            id=row.id,
            board_id=row.leaderboard_id,
            board=row.board,
            user_id=row.user_id,
            user=row.person,
            device=row.device,
            mode_group=None if row.mode_group is None else ModeGroup(row.mode_group),
            per_user=row.per_user,
            quantity=Quantity(row.quantity),
            amount=row.amount,
            window_s=row.window_s,
        )
        for row in session.execute(query, values)
    ]


def _window(seconds: int) -> str:
    for name, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % size == 0:
            count = seconds // size
            return name if count == 1 else f"{count} {name}s"
    return f"{seconds} seconds"
