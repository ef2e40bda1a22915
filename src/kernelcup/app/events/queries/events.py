"""Events of leaderboards."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import Enum
from typing import Any

from sqlalchemy import Select, and_, delete, false, func, or_, select, update
from sqlalchemy.orm import Session

from kernelcup.app.people.queries.users import name_key
from kernelcup.domain import OPEN
from kernelcup.domain.events import EVENT_SETTING_TYPES, Event, EventSettings, earliest
from kernelcup.engine.database import insert_or_none
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    BoardEventRow,
    DeadlineExceptionRow,
    JobRow,
    LeaderboardRow,
    RunRow,
    SubmissionRow,
    UserRow,
)
from kernelcup_harness.protocol import Mode


def find(session: Session, name: str) -> Event | None:
    """Return the event with this name, ignoring case, None if there is none."""
    return _one(session, _events().where(BoardEventRow.name_key == name_key(name)))


def of_board(session: Session, board_id: int) -> Event | None:
    """Return the event that a leaderboard belongs to, None if there is none."""
    mine = select(LeaderboardRow.event_id).where(LeaderboardRow.id == board_id).scalar_subquery()
    return _one(session, _events().where(BoardEventRow.id == mine))


def every(session: Session) -> list[Event]:
    """Return all events, newest first."""
    return [_event(row, name) for row, name in session.execute(_events().order_by(BoardEventRow.id.desc()))]


def insert(
    session: Session, name: str, settings: EventSettings, *, creator_id: int, now: datetime
) -> int | None:
    """Store an event and return its id, None if the name is taken."""
    values = {"name": name, "name_key": name_key(name), "creator_id": creator_id, "created_at": now}
    row = insert_or_none(session, BoardEventRow, **values, **_columns(settings))
    return None if row is None else row.id


def find_id(session: Session, name: str) -> int | None:
    """Return the number of the event with this name, ignoring case; None if there is none."""
    query = select(BoardEventRow.id).where(BoardEventRow.name_key == name_key(name))
    return session.execute(query).scalar_one_or_none()


def ensure(session: Session, name: str, *, creator_id: int, now: datetime) -> int | None:
    """Return the number of the event with this name, which is made if there is none; None for an empty name."""
    if not name:
        return None
    known = find_id(session, name)
    return known or insert(session, name, EventSettings(), creator_id=creator_id, now=now)


def change(session: Session, event_id: int, settings: EventSettings, names: Collection[str]) -> None:
    """Change the named settings of an event."""
    values = {name: column for name, column in _columns(settings).items() if name in names}
    if values:
        session.execute(update(BoardEventRow).where(BoardEventRow.id == event_id).values(values))


def remove(session: Session, event_id: int) -> None:
    """Delete an event; its leaderboards stay."""
    session.execute(delete(BoardEventRow).where(BoardEventRow.id == event_id))


def board_ids(session: Session, event_id: int) -> list[int]:
    """Return the leaderboards of an event, oldest first."""
    query = select(LeaderboardRow.id).where(LeaderboardRow.event_id == event_id).order_by(LeaderboardRow.id)
    return list(session.scalars(query))


def count_outside(
    session: Session, board_id: int, opens_at: datetime | None, ends_at: datetime | None
) -> int:
    """Return how many ranked submissions, without those that failed, were made before or after these times.

    What a late exception let in counts as made in time.
    """
    made, late = SubmissionRow.created_at, DeadlineExceptionRow
    outside = [] if opens_at is None else [made < opens_at]
    if ends_at is not None:
        outside.append(and_(made > ends_at, or_(late.until.is_(None), made > late.until)))
    query = (
        select(func.count(SubmissionRow.id.distinct()))
        .join(JobRow, JobRow.submission_id == SubmissionRow.id)
        .outerjoin(RunRow, RunRow.job_id == JobRow.id)
        .outerjoin(late, and_(late.leaderboard_id == board_id, late.user_id == SubmissionRow.user_id))
        .where(SubmissionRow.leaderboard_id == board_id, or_(false(), *outside))
        .where(JobRow.mode == Mode.LEADERBOARD.value, JobRow.practice.is_(False))
        .where(or_(JobRow.state.in_(OPEN), RunRow.score_s.is_not(None)))
    )
    return session.execute(query).scalar_one()


def _events() -> Select[BoardEventRow, str]:
    return select(BoardEventRow, UserRow.name).join(UserRow, UserRow.id == BoardEventRow.creator_id)


def _one(session: Session, query: Select[BoardEventRow, str]) -> Event | None:
    found = session.execute(query).first()
    return None if found is None else _event(*found)


def _event(row: BoardEventRow, creator: str) -> Event:
    return made_of(
        row,
        Event,
        creator=creator,
        fields=tuple(row.fields),
        prizes=tuple(row.prizes),
        register_by=row.register_by and earliest(row.register_by, row.ends_at),
        teams_until=row.teams_until and earliest(row.teams_until, row.ends_at),
    )


def _columns(settings: EventSettings) -> dict[str, Any]:
    return {name: _column(getattr(settings, name)) for name in EVENT_SETTING_TYPES}


def _column(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple | list) else value
