"""Rate limits and their use.

The use by a deleted submission is kept in a table of its own: deleting a submission gives nothing back. The duels of
a final count against no limit, since the leaderboard asked for them, and neither do jobs that no machine could judge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, or_, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from kernelcup.app.machines.queries import machines
from kernelcup.app.rules.queries.gpu_uses import (
    IS_ATTEMPT,
    IS_LOST,
    LONGEST_WAIT,
    UNKNOWN_PACE_S,
    Use,
    first_runs,
    lasted_s,
)
from kernelcup.domain import OPEN, JobState, ModeGroup, Priority, Submission
from kernelcup.domain.answers import Limit, Quantity
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    DeletedUseRow,
    FinalDuelRow,
    JobRow,
    LeaderboardRow,
    LimitRow,
    PaceRow,
    SubmissionRow,
    UserRow,
    table_of,
)


def insert(session: Session, limit: Limit) -> int:
    """Store a limit and return its id."""
    row = LimitRow(
        leaderboard_id=limit.board_id,
        user_id=limit.user_id,
        device=limit.device,
        launcher=limit.launcher,
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
    """Return a limit, None if it does not exist."""
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
    """Return the limits that apply to a submission, in a fixed order; None means all mode groups."""
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
    # Cached, because each submission needs it: building the query takes longer than running it.
    return _limits().where(
        _LIMITS.c.launcher.is_(None),
        or_(_LIMITS.c.leaderboard_id.is_(None), _LIMITS.c.leaderboard_id == bindparam("board_id")),
        or_(_LIMITS.c.user_id.is_(None), _LIMITS.c.user_id == bindparam("user_id")),
    )


def lock(session: Session, limit: Limit) -> None:
    """Lock a limit until the transaction ends. SQLite has only one writer anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(_LOCK_SPACE, limit.id)))


_LOCK_SPACE = 0x6B63  # "kc", to keep these locks apart from others


def submissions_since(
    session: Session, limit: Limit, *, user_ids: Collection[int], since: datetime, most: int
) -> list[datetime]:
    """Return the arrival times of the newest submissions that count against a limit, newest first."""
    kept = list(session.scalars(_arrivals(session, limit, user_ids, since).limit(most)))
    deleted = list(session.scalars(_deleted_arrivals(limit, user_ids, since).limit(most)))
    return sorted([*kept, *deleted], reverse=True)[:most]


def submission_before(
    session: Session, limit: Limit, *, user_ids: Collection[int], since: datetime, newer: int
) -> datetime | None:
    """Return the arrival time of the submission that ``newer`` later ones follow, None if there are fewer."""
    arrivals = _arrivals(session, limit, user_ids, since)
    deleted = _deleted_arrivals(limit, user_ids, since)
    if session.execute(deleted.limit(1)).first() is None:
        return session.execute(arrivals.offset(newer).limit(1)).scalar_one_or_none()
    # Most users are far below their limit: counting needs no sorting, and reads no more rows than the limit.
    counted = [
        session.execute(
            select(func.count()).select_from(each.order_by(None).limit(newer + 1).subquery())
        ).scalar_one()
        for each in (arrivals, deleted)
    ]
    if sum(counted) <= newer:
        return None
    both = union_all(
        arrivals.limit(newer + 1).subquery().select(), deleted.limit(newer + 1).subquery().select()
    )
    at = both.subquery().c.created_at
    found: datetime = session.execute(select(at).order_by(at.desc()).offset(newer).limit(1)).scalar_one()
    return found


def of_launchers(session: Session) -> list[Limit]:
    """Return the budgets of launchers."""
    return _load(session, _limits().where(_LIMITS.c.launcher.is_not(None)))


def gpu_uses(
    session: Session, limit: Limit, *, user_ids: Collection[int], since: datetime, now: datetime
) -> list[Use]:
    """Return the uses that count against a limit in GPU-seconds or cost: runs, and estimates for jobs to come."""
    price = machines.prices(session) if limit.quantity is Quantity.COST else _no_price
    known = select(PaceRow).where(PaceRow.mean_s >= 0)
    paces = {(row.device, row.mode): row.mean_s for row in session.scalars(known)}
    jobs = (
        select(JobRow.id, JobRow.state, JobRow.device, JobRow.mode, JobRow.started_at, JobRow.finished_at)
        .add_columns(JobRow.priority)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(*_of_limit(session, limit, user_ids, since - LONGEST_WAIT))
    )
    jobs = jobs.where(or_(JobRow.state.in_(OPEN), JobRow.finished_at > since))
    if limit.device is not None:
        jobs = jobs.where(func.lower(JobRow.device) == limit.device.lower())
    rows = session.execute(jobs).all()
    runs = first_runs(session, [row.id for row in rows])
    used = []
    for row in rows:
        if row.id in runs:  # judged; a pending rejudge does not count, since the user did not ask for it
            use = runs[row.id]
        elif row.state in OPEN and row.priority != Priority.REJUDGE:
            pace_s = paces.get((row.device, row.mode), UNKNOWN_PACE_S)
            use = Use(at=now, amount=pace_s, cost=pace_s / 3600 * price(row.device))
        elif row.state == JobState.CANCELLED.value and row.started_at is not None:
            lasted = lasted_s(row.started_at, row.finished_at)
            use = Use(at=row.finished_at, amount=lasted, cost=lasted / 3600 * price(row.device))
        else:
            continue
        used.append(use.on(row.device))
    used += _deleted_gpu_uses(session, limit, user_ids, since)
    if limit.quantity is Quantity.COST:
        used = [replace(use, amount=use.cost) for use in used]
    return [use for use in used if use.at > since]


def _no_price(_: str) -> float:
    return 0.0


def keep_uses(session: Session, submission: Submission, *, now: datetime) -> None:
    """Keep the uses of a submission that is about to be deleted."""
    if session.execute(_duels_of_finals(submission.id).limit(1)).first() is not None:
        return
    query = select(JobRow).where(JobRow.submission_id == submission.id, ~IS_LOST).order_by(JobRow.id)
    jobs = session.scalars(query).all()
    runs, price = first_runs(session, [job.id for job in jobs]), machines.prices(session)
    for number, job in enumerate(jobs):
        use = runs.get(job.id)
        cut_off = job.state in (JobState.RUNNING.value, JobState.CANCELLED.value)
        if use is None and cut_off and job.started_at is not None:
            end = job.finished_at or now
            lasted = lasted_s(job.started_at, end)
            use = Use(at=end, amount=lasted, cost=lasted / 3600 * price(job.device))
        session.add(
            DeletedUseRow(
                submission_id=submission.id,
                device=job.device,
                is_first=number == 0,
                user_id=submission.user_id,
                leaderboard_id=submission.leaderboard_id,
                mode=submission.mode.value,
                created_at=submission.created_at,
                used_at=None if use is None else use.at,
                seconds=0.0 if use is None else use.on(job.device).amount,
                cost=0.0 if use is None else use.cost,
            )
        )
    session.flush()


def _arrivals(session: Session, limit: Limit, user_ids: Collection[int], since: datetime) -> Select[datetime]:
    query = (
        select(SubmissionRow.created_at)
        .where(SubmissionRow.created_at > since, *_of_limit(session, limit, user_ids, since))
        .order_by(SubmissionRow.created_at.desc())
    )
    if limit.device is None:
        counts = select(JobRow.id).where(JobRow.submission_id == SubmissionRow.id, IS_ATTEMPT)
        return query.where(counts.correlate(SubmissionRow).exists())
    jobs = query.join(JobRow, JobRow.submission_id == SubmissionRow.id)
    return jobs.where(func.lower(JobRow.device) == limit.device.lower(), IS_ATTEMPT)


def _deleted_arrivals(limit: Limit, user_ids: Collection[int], since: datetime) -> Select[datetime]:
    wanted = _of_deleted(limit, user_ids, since)
    if limit.device is None:
        wanted.append(DeletedUseRow.is_first.is_(True))
    return select(DeletedUseRow.created_at).where(*wanted).order_by(DeletedUseRow.created_at.desc())


def _of_limit(
    session: Session, limit: Limit, user_ids: Collection[int], since: datetime
) -> list[ColumnElement[bool]]:
    """Return the condition for the submissions that count, in a form that an index supports."""
    wanted: list[ColumnElement[bool]] = []
    if limit.board_id is not None:
        wanted.append(SubmissionRow.leaderboard_id == limit.board_id)
    if limit.per_user:
        wanted.append(SubmissionRow.user_id.in_(user_ids))
    if limit.mode_group is not None:
        wanted.append(SubmissionRow.mode.in_(limit.mode_group.modes))
    if limit.mode_group is not ModeGroup.RANKED:
        wanted.append(~_duels_of_finals(SubmissionRow.id).correlate(SubmissionRow).exists())
    if limit.per_user or limit.board_id is not None:
        wanted.append(SubmissionRow.created_at > since)
    else:
        wanted.append(SubmissionRow.id > _last_before(session, since))
    return wanted


def _duels_of_finals(submission_id: int | InstrumentedAttribute[int]) -> Select[int]:
    duels = select(FinalDuelRow.job_id).join(JobRow, JobRow.id == FinalDuelRow.job_id)
    return duels.where(JobRow.submission_id == submission_id)


def _last_before(session: Session, since: datetime) -> int:
    """Return the newest submission before a given time, 0 if there is none: numbers nearly follow the time."""
    slack = timedelta(minutes=1)
    query = select(SubmissionRow.id).where(SubmissionRow.created_at < since - slack)
    return session.execute(query.order_by(SubmissionRow.id.desc()).limit(1)).scalar_one_or_none() or 0


def _deleted_gpu_uses(
    session: Session, limit: Limit, user_ids: Collection[int], since: datetime
) -> list[Use]:
    wanted = _of_deleted(limit, user_ids, since - LONGEST_WAIT)
    columns = (DeletedUseRow.used_at, DeletedUseRow.seconds, DeletedUseRow.cost)
    rows = session.execute(select(*columns).where(*wanted, DeletedUseRow.used_at > since))
    return [Use(at=at, amount=seconds, cost=cost) for at, seconds, cost in rows if at is not None]


def _of_deleted(limit: Limit, user_ids: Collection[int], since: datetime) -> list[ColumnElement[bool]]:
    """Return the condition for the deleted submissions that count, in a form that an index supports."""
    wanted: list[ColumnElement[bool]] = [DeletedUseRow.created_at > since]
    if limit.board_id is not None:
        wanted.append(DeletedUseRow.leaderboard_id == limit.board_id)
    if limit.per_user:
        wanted.append(DeletedUseRow.user_id.in_(user_ids))
    if limit.mode_group is not None:
        wanted.append(DeletedUseRow.mode.in_(limit.mode_group.modes))
    if limit.device is not None:
        wanted.append(func.lower(DeletedUseRow.device) == limit.device.lower())
    return wanted


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
        made_of(row, Limit, board_id=row.leaderboard_id, user=row.person)
        for row in session.execute(query, values)
    ]
