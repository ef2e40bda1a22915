"""Members of closed leaderboards."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelcup.domain.answers import Member
from kernelcup.engine.database import insert_if_absent
from kernelcup.engine.views import once
from kernelcup.errors import Conflict
from kernelcup.tables import MemberRow, UserRow, table_of


@once
def is_member(session: Session, board_id: int, user_id: int) -> bool:
    """Return whether a user is a member of a leaderboard."""
    return session.get(MemberRow, (board_id, user_id)) is not None


def boards_of(session: Session, user_id: int) -> set[int]:
    """Return the leaderboards that a user is a member of."""
    return set(session.scalars(_BOARDS_OF, {"user_id": user_id}))


_TABLE = table_of(MemberRow)
_BOARDS_OF = select(_TABLE.c.leaderboard_id).where(_TABLE.c.user_id == bindparam("user_id"))


def add(
    session: Session, *, board_id: int, user_id: int, pseudonym: str | None, label: str = "", now: datetime
) -> bool:
    """Make a user a member; return whether they were not one before. A given pseudonym or label replaces theirs.

    Raise ``Conflict`` if another user has it.
    """
    was_member = is_member(session, board_id, user_id)
    if not was_member:
        insert_if_absent(session, MemberRow, leaderboard_id=board_id, user_id=user_id, joined_at=now)
    own = (MemberRow.leaderboard_id == board_id, MemberRow.user_id == user_id)
    if label:
        session.execute(update(MemberRow).where(*own).values(label=label))
    if pseudonym is not None:
        try:
            session.execute(update(MemberRow).where(*own).values(pseudonym=pseudonym))
        except IntegrityError as error:
            raise Conflict(f"The pseudonym {pseudonym!r} is already taken.") from error
    return not was_member


def remove(session: Session, *, board_id: int, user_id: int) -> bool:
    """End a membership and return whether there was one."""
    own = (MemberRow.leaderboard_id == board_id, MemberRow.user_id == user_id)
    return session.execute(delete(MemberRow).where(*own).returning(MemberRow.user_id)).first() is not None


def of_board(session: Session, board_id: int) -> list[Member]:
    """Return the members of a leaderboard, sorted by name."""
    query = (
        select(UserRow.name, MemberRow.pseudonym, MemberRow.label, MemberRow.joined_at)
        .join(MemberRow, MemberRow.user_id == UserRow.id)
        .where(MemberRow.leaderboard_id == board_id)
        .order_by(UserRow.name_key)
    )
    return [
        Member(user=row.name, pseudonym=row.pseudonym, label=row.label, joined_at=row.joined_at)
        for row in session.execute(query)
    ]


def pseudonyms(session: Session, board_id: int, user_ids: Collection[int]) -> dict[int, str]:
    """Return the pseudonyms on a leaderboard, by user id, for those users who have one."""
    query = select(MemberRow.user_id, MemberRow.pseudonym).where(
        MemberRow.leaderboard_id == board_id, MemberRow.user_id.in_(user_ids)
    )
    return {row.user_id: row.pseudonym for row in session.execute(query) if row.pseudonym is not None}


def with_pseudonym(session: Session, board_id: int, pseudonym: str) -> int | None:
    """Return the member with a pseudonym, ignoring case; None if there is none."""
    query = select(MemberRow.user_id).where(
        MemberRow.leaderboard_id == board_id, func.lower(MemberRow.pseudonym) == pseudonym.lower()
    )
    return session.execute(query.limit(1)).scalar_one_or_none()
