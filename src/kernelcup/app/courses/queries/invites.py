"""Codes that make one user each a member of some courses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, delete, insert, select, update
from sqlalchemy.orm import Session

from kernelcup.domain.answers import Invite, Person
from kernelcup.engine.rows import made_of
from kernelcup.tables import CourseRow, InviteCourseRow, InviteRow, LeaderboardRow, UserRow


@dataclass(frozen=True, kw_only=True, slots=True)
class NewInvite(Person):
    """An invite to be stored."""

    code: str
    position: int | None = None


def insert_all(
    session: Session,
    new: Sequence[NewInvite],
    *,
    course_ids: Sequence[int],
    created_by: int | None,
    now: datetime,
) -> None:
    """Store invites to the same courses."""
    if not new:
        return
    rows = [dataclasses.asdict(each) | {"created_by": created_by, "created_at": now} for each in new]
    session.execute(insert(InviteRow), rows)
    opened = [{"code": each.code, "course_id": course_id} for each in new for course_id in course_ids]
    session.execute(insert(InviteCourseRow), opened)


def find(session: Session, code: str) -> Invite | None:
    """Return an invite, None if the code does not exist."""
    found = _load(session, _invites().where(InviteRow.code == code))
    return found[0] if found else None


def of_course(
    session: Session, course_id: int, *, after: str | None = None, limit: int | None = None
) -> list[Invite]:
    """Return the invites that open a course, sorted by code."""
    codes = select(InviteCourseRow.code).where(InviteCourseRow.course_id == course_id)
    query = _invites().where(InviteRow.code.in_(codes)).order_by(InviteRow.code).limit(limit)
    return _load(session, query if after is None else query.where(InviteRow.code > after))


def write(session: Session, code: str, person: Person, position: int | None) -> None:
    """Give an invite another line of the register."""
    values = {"name": person.name, "group": person.group, "pseudonym": person.pseudonym, "position": position}
    session.execute(update(InviteRow).where(InviteRow.code == code).values(values))


def claim(session: Session, code: str, *, user_id: int, now: datetime) -> bool:
    """Claim an invite for a user; return whether it was free. Of several concurrent claims one succeeds."""
    free = (InviteRow.code == code, InviteRow.claimed_at.is_(None))
    claimed = update(InviteRow).where(*free).values(claimed_by=user_id, claimed_at=now)
    return session.execute(claimed.returning(InviteRow.code)).first() is not None


def remove(session: Session, code: str) -> None:
    """Delete an invite; the user who claimed it stays a member."""
    session.execute(delete(InviteRow).where(InviteRow.code == code))


def _invites() -> Select[InviteRow, str | None]:
    return select(InviteRow, UserRow.name).join(UserRow, UserRow.id == InviteRow.claimed_by, isouter=True)


def _load(session: Session, query: Select[InviteRow, str | None]) -> list[Invite]:
    rows = session.execute(query).all()
    opened: dict[str, dict[str, None]] = {}
    boards: dict[str, list[str]] = {}
    codes = [row.code for row, _ in rows]
    for start in range(0, len(codes), 500):
        names = (
            select(InviteCourseRow.code, CourseRow.name, LeaderboardRow.name)
            .join(CourseRow, CourseRow.id == InviteCourseRow.course_id)
            .outerjoin(LeaderboardRow, LeaderboardRow.course_id == CourseRow.id)
            .where(InviteCourseRow.code.in_(codes[start : start + 500]))
            .order_by(CourseRow.id, LeaderboardRow.id)
        )
        for code, course, board in session.execute(names):
            opened.setdefault(code, {})[course] = None
            boards.setdefault(code, []).extend([] if board is None else [board])
    return [
        made_of(
            row,
            Invite,
            courses=tuple(opened.get(row.code, ())),
            boards=tuple(boards.get(row.code, ())),
            claimed_by=user,
            claimed_by_id=row.claimed_by,
        )
        for row, user in rows
    ]
