"""Users by name."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kernelcup.domain import Actor, Role, Scope
from kernelcup.storage.engine.database import insert_if_absent
from kernelcup.storage.tables import UserRow


def name_key(name: str) -> str:
    """Return the folded name of a user or leaderboard: names with equal keys are the same name."""
    return unicodedata.normalize("NFKC", name).casefold()


def get_or_create(session: Session, name: str, *, now: datetime) -> int:
    """Return the id of the user with this name, and create the user if needed."""
    insert_if_absent(session, UserRow, name=name, name_key=name_key(name), created_at=now)
    return session.execute(select(UserRow.id).where(UserRow.name_key == name_key(name))).scalar_one()


def find_actor(session: Session, name: str) -> Actor | None:
    """Return the user with this name as an actor with all scopes, None if the user does not exist."""
    row = session.scalar(select(UserRow).where(UserRow.name_key == name_key(name)))
    if row is None:
        return None
    return Actor(user_id=row.id, name=row.name, role=Role(row.role), scopes=frozenset(Scope))


def only_admin(session: Session) -> str | None:
    """Return the name of the only admin who is not banned, None if there is none or more than one."""
    admins = (UserRow.role == Role.ADMIN.value, UserRow.banned_at.is_(None))
    found = session.scalars(select(UserRow.name).where(*admins).limit(2)).all()
    return found[0] if len(found) == 1 else None


def raise_to_creator(session: Session, user_id: int) -> None:
    """Make a participant a creator; others keep their role."""
    participant = (UserRow.id == user_id, UserRow.role == Role.PARTICIPANT.value)
    session.execute(update(UserRow).where(*participant).values(role=Role.CREATOR.value))


def find(session: Session, name: str) -> tuple[int, str] | None:
    """Return a user's id and the stored spelling of the name, None if the user does not exist."""
    found = session.execute(
        select(UserRow.id, UserRow.name).where(UserRow.name_key == name_key(name))
    ).first()
    return None if found is None else (found.id, found.name)


def names(session: Session, ids: Sequence[int]) -> dict[int, str]:
    """Return the names of users by id."""
    query = select(UserRow.id, UserRow.name).where(UserRow.id.in_(ids))
    return {row.id: row.name for row in session.execute(query)}
