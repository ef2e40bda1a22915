"""Courses and their leaderboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelcup.app.people.queries.users import name_key
from kernelcup.domain import Leaderboard
from kernelcup.domain.answers import Course
from kernelcup.engine.rows import made_of
from kernelcup.errors import Conflict
from kernelcup.tables import CourseRow, LeaderboardRow, MemberRow, UserRow


def insert(session: Session, *, name: str, creator_id: int, now: datetime, of_board: bool = False) -> int:
    """Store a course and return its id. Raise ``Conflict`` if the name is taken."""
    row = CourseRow(
        name=name,
        name_key=name_key(name),
        creator_id=creator_id,
        created_at=now,
        of_board=of_board,
        rules={},
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError as error:
        raise Conflict(f"There already is a course {name!r}.") from error
    return row.id


def find(session: Session, name: str) -> Course | None:
    """Return the course with this name, ignoring case, None if there is none."""
    return next(iter(_load(session, CourseRow.name_key == name_key(name))), None)


def get(session: Session, course_id: int) -> Course:
    """Return the course with this number, which exists."""
    return _load(session, CourseRow.id == course_id)[0]


def seen_by(session: Session, user_id: int | None, *, sees_all: bool) -> list[Course]:
    """Return the courses that a user created or belongs to, or all, oldest first."""
    joined = select(MemberRow.course_id).where(MemberRow.user_id == user_id)
    own = or_(CourseRow.creator_id == user_id, CourseRow.id.in_(joined))
    return _load(session, *(() if sees_all else (own,)))


def of_board(session: Session, board: Leaderboard, now: datetime) -> Course:
    """Return the course of a leaderboard; one without gets its own. The leaderboard has to be locked."""
    found = session.scalar(select(LeaderboardRow.course_id).where(LeaderboardRow.id == board.id))
    if found is None:
        name = _free_name(session, board.name)
        found = insert(session, name=name, creator_id=board.creator_id, now=now, of_board=True)
        put_board(session, board.id, found)
    return get(session, found)


def put_board(session: Session, board_id: int, course_id: int | None) -> None:
    """Put a leaderboard into a course, or take it out of its course."""
    mine = update(LeaderboardRow).where(LeaderboardRow.id == board_id)
    session.execute(mine.values(course_id=course_id))


def board_ids(session: Session, course_id: int) -> Sequence[int]:
    """Return the leaderboards of a course, by deadline."""
    query = select(LeaderboardRow.id).where(LeaderboardRow.course_id == course_id)
    order = (LeaderboardRow.deadline.is_(None), LeaderboardRow.deadline, LeaderboardRow.id)
    return list(session.scalars(query.order_by(*order)))


def change(session: Session, course_id: int, *, name: str, rules: Mapping[str, str], of_board: bool) -> None:
    """Replace what a person may change of a course. Raise ``Conflict`` if the name is taken."""
    mine = update(CourseRow).where(CourseRow.id == course_id)
    values = {"name": name, "name_key": name_key(name), "rules": dict(rules), "of_board": of_board}
    try:
        session.execute(mine.values(values))
    except IntegrityError as error:
        raise Conflict(f"There already is a course {name!r}.") from error


def remove(session: Session, course_id: int) -> None:
    """Delete a course with its register; its leaderboards stay."""
    session.execute(delete(CourseRow).where(CourseRow.id == course_id))


def rename_with_board(session: Session, board_id: int, name: str) -> None:
    """Give the course that was made for a leaderboard the leaderboard's name."""
    course = session.scalar(select(CourseRow.id).where(*_made_for(board_id)))
    if course is not None:
        free = _free_name(session, name, besides=course)
        mine = update(CourseRow).where(CourseRow.id == course)
        session.execute(mine.values(name=free, name_key=name_key(free)))


def remove_with_board(session: Session, board_id: int) -> None:
    """Delete the course that was made for a leaderboard."""
    session.execute(delete(CourseRow).where(*_made_for(board_id)))


def _made_for(board_id: int) -> tuple[ColumnElement[bool], ...]:
    course = select(LeaderboardRow.course_id).where(LeaderboardRow.id == board_id).scalar_subquery()
    return CourseRow.id == course, CourseRow.of_board.is_(True)


def _free_name(session: Session, wanted: str, *, besides: int = 0) -> str:
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    taken = select(func.count()).select_from(CourseRow).where(CourseRow.id != besides)
    return next(
        name for name in names if not session.scalar(taken.where(CourseRow.name_key == name_key(name)))
    )


def _load(session: Session, *where: ColumnElement[bool]) -> list[Course]:
    query: Select[Any] = (
        select(*CourseRow.__table__.c, UserRow.name.label("creator"))
        .join(UserRow, UserRow.id == CourseRow.creator_id)
        .where(*where)
        .order_by(CourseRow.id)
    )
    return [made_of(row, Course) for row in session.execute(query)]
