"""Members of courses, in the order of the register."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelcup.domain.answers import Member
from kernelcup.engine.database import insert_if_absent
from kernelcup.engine.rows import made_of
from kernelcup.engine.views import once
from kernelcup.errors import Conflict
from kernelcup.tables import InviteCourseRow, InviteRow, LeaderboardRow, MemberRow, UserRow, table_of

PERSON = ("label", "name", "group", "position")
"""Columns of a line of the register, in addition to the pseudonym."""


@once
def is_member(session: Session, course_id: int | None, user_id: int) -> bool:
    """Return whether a user is a member of a course."""
    return course_id is not None and session.get(MemberRow, (course_id, user_id)) is not None


def boards_of(session: Session, user_id: int) -> set[int]:
    """Return the leaderboards of the courses that a user is a member of."""
    return set(session.scalars(_BOARDS_OF, {"user_id": user_id}))


_TABLE, _BOARDS = table_of(MemberRow), table_of(LeaderboardRow)
_BOARDS_OF = (
    select(_BOARDS.c.id)
    .join(_TABLE, _TABLE.c.course_id == _BOARDS.c.course_id)
    .where(_TABLE.c.user_id == bindparam("user_id"))
)


def add(
    session: Session,
    *,
    course_id: int,
    user_id: int,
    now: datetime,
    pseudonym: str | None = None,
    **person: Any,
) -> bool:
    """Make a user a member; return whether they were not one before.

    A pseudonym and what is said of :data:`PERSON` replace theirs, unless empty.
    Raise ``Conflict`` if another user has the pseudonym.
    """
    was_member = is_member(session, course_id, user_id)
    if not was_member:
        insert_if_absent(session, MemberRow, course_id=course_id, user_id=user_id, joined_at=now)
    said = {name: value for name, value in person.items() if value not in ("", None)}
    said |= {} if pseudonym is None else {"pseudonym": pseudonym}
    if said:
        own = update(MemberRow).where(MemberRow.course_id == course_id, MemberRow.user_id == user_id)
        try:
            session.execute(own.values(said))
        except IntegrityError as error:
            raise Conflict(f"The pseudonym {pseudonym!r} is already taken.") from error
    return not was_member


def remove(session: Session, *, course_id: int, user_id: int) -> bool:
    """End a membership and return whether there was one."""
    own = (MemberRow.course_id == course_id, MemberRow.user_id == user_id)
    return session.execute(delete(MemberRow).where(*own).returning(MemberRow.user_id)).first() is not None


def register(session: Session, course_id: int) -> list[tuple[int | None, Member]]:
    """Return the members and those of the register who have not joined, with the ids of users, in its order.

    Those who stand in no register follow by name.
    """
    joined = (
        select(MemberRow.__table__, UserRow.name.label("user"))
        .join(UserRow, UserRow.id == MemberRow.user_id)
        .where(MemberRow.course_id == course_id)
    )
    absent = (
        select(InviteRow.__table__)
        .join(InviteCourseRow, InviteCourseRow.code == InviteRow.code)
        .where(InviteCourseRow.course_id == course_id)
        .where(InviteRow.claimed_at.is_(None), InviteRow.position.is_not(None))
    )
    rows = [(row.user_id, made_of(row, Member)) for row in session.execute(joined)]
    rows += [(None, made_of(row, Member, user="", joined_at=None)) for row in session.execute(absent)]
    return sorted(rows, key=lambda row: _place(row[1]))


def _place(each: Member) -> tuple[bool, int, str, str]:
    return each.position is None, each.position or 0, each.user.lower(), each.label.lower()


def shift(session: Session, course_id: int, by: int) -> None:
    """Move the whole register, so that others have place before it."""
    codes = select(InviteCourseRow.code).where(InviteCourseRow.course_id == course_id)
    for row, mine in ((MemberRow, MemberRow.course_id == course_id), (InviteRow, InviteRow.code.in_(codes))):
        session.execute(update(row).where(mine).values(position=row.position + by))


def next_position(session: Session, course_id: int) -> int:
    """Return the place behind the last of the register."""
    last = max((each.position or 0 for _, each in register(session, course_id)), default=0)
    return last + 1


def with_label(session: Session, course_id: int) -> dict[str, tuple[int, str]]:
    """Return the members with a label, as id and name of the user."""
    found = register(session, course_id)
    return {each.label: (user_id, each.user) for user_id, each in found if user_id is not None and each.label}


def pseudonyms(session: Session, course_id: int | None, user_ids: Collection[int]) -> dict[int, str]:
    """Return the pseudonyms in a course, by user id, for those users who have one."""
    query = select(MemberRow.user_id, MemberRow.pseudonym).where(
        MemberRow.course_id == course_id, MemberRow.user_id.in_(user_ids)
    )
    return {row.user_id: row.pseudonym for row in session.execute(query) if row.pseudonym is not None}


def with_pseudonym(session: Session, course_id: int | None, pseudonym: str) -> int | None:
    """Return the member with a pseudonym, ignoring case; None if there is none."""
    query = select(MemberRow.user_id).where(
        MemberRow.course_id == course_id, func.lower(MemberRow.pseudonym) == pseudonym.lower()
    )
    return session.execute(query.limit(1)).scalar_one_or_none()
