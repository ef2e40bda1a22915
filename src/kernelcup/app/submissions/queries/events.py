"""Events of submissions, for their viewers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, exists, func, insert, literal, select
from sqlalchemy.orm import Session

from kernelcup.domain import OPEN
from kernelcup.tables import EventRow, JobRow, SubmissionRow, table_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """An event of a submission."""

    id: int
    submission_id: int
    job_id: int | None
    at: datetime
    kind: str
    data: dict[str, Any]


def record(
    session: Session,
    submission_id: int,
    kind: str,
    data: Mapping[str, Any],
    job_id: int | None,
    now: datetime,
) -> bool:
    """Record an event; return whether the submission still exists.

    The submission is locked until the transaction ends. So its events become visible in the order of their
    numbers, and a reader who has seen one has missed none before it.
    """
    if not _lock(session, submission_id):
        return False
    record_first(session, submission_id, kind, data, job_id, now)
    return True


def record_first(
    session: Session,
    submission_id: int,
    kind: str,
    data: Mapping[str, Any],
    job_id: int | None,
    now: datetime,
) -> None:
    """Record an event of a submission that is locked, or was stored in this transaction."""
    values = {"submission_id": submission_id, "job_id": job_id, "at": now, "kind": kind, "data": dict(data)}
    session.execute(_INSERT, values)


def record_end(session: Session, submission_id: int, now: datetime) -> None:
    """Record that a submission is done, if none of its jobs is waiting or running.

    Another event of it was recorded in this transaction, which locks it.
    """
    session.execute(_END, {"submission_id": submission_id, "now": now})


def record_many(
    session: Session, jobs: Sequence[tuple[int, int]], kind: str, data: Mapping[str, Any], now: datetime
) -> None:
    """Record the same event for many (submission, job) pairs."""
    wanted = sorted({submission_id for submission_id, _ in jobs})
    for start in range(0, len(wanted), 500):
        ids = wanted[start : start + 500]
        query = select(SubmissionRow.id).where(SubmissionRow.id.in_(ids)).order_by(SubmissionRow.id)
        session.execute(query.with_for_update(key_share=True)).all()
    same = {"kind": kind, "data": dict(data), "at": now}
    rows = [{"submission_id": submission, "job_id": job, **same} for submission, job in sorted(jobs)]
    if rows:
        session.execute(insert(EventRow), rows)


def of_submission(session: Session, submission_id: int, *, after_id: int, limit: int) -> list[Event]:
    """Return a submission's events after a given one, oldest first."""
    wanted = {"submission_id": submission_id, "after_id": after_id, "limit": limit}
    return [Event(**row._mapping) for row in session.execute(_OF_ONE, wanted)]


def of_all(session: Session, *, after_id: int, limit: int, also: Collection[int] = ()) -> list[Event]:
    """Return the events of all submissions after a given one, oldest first, and some events by number."""
    late = session.execute(_BY_ID, {"ids": sorted(also)}).all() if also else []
    found = session.execute(_OF_ALL, {"after_id": after_id, "limit": limit})
    return [Event(**row._mapping) for row in [*late, *found]]


def newest_id(session: Session) -> int:
    """Return the number of the newest event, 0 if there is none."""
    return session.execute(select(func.max(EventRow.id))).scalar_one() or 0


def _lock(session: Session, submission_id: int) -> bool:
    return session.execute(_LOCKED, {"submission_id": submission_id}).first() is not None


_INSERT = insert(table_of(EventRow))
_TABLE = table_of(EventRow)
_ANY = select(*(_TABLE.c[name] for name in Event.__slots__)).order_by(_TABLE.c.id)
_OF_ALL = _ANY.where(_TABLE.c.id > bindparam("after_id")).limit(bindparam("limit"))
_BY_ID = _ANY.where(_TABLE.c.id.in_(bindparam("ids", expanding=True)))
_OF_ONE = _OF_ALL.where(_TABLE.c.submission_id == bindparam("submission_id"))
_OPEN = exists().where(
    JobRow.submission_id == SubmissionRow.id,
    JobRow.state.in_(OPEN),
)
_END = insert(_TABLE).from_select(
    ["submission_id", "at", "kind", "data"],
    select(
        SubmissionRow.id,
        bindparam("now", type_=_TABLE.c.at.type),
        literal("done", _TABLE.c.kind.type),
        literal({}, _TABLE.c.data.type),
    ).where(SubmissionRow.id == bindparam("submission_id"), ~_OPEN),
)
_LOCKED = (
    select(SubmissionRow.id)
    .where(SubmissionRow.id == bindparam("submission_id"))
    .with_for_update(key_share=True)
)
