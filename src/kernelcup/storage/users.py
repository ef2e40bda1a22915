"""People."""

from __future__ import annotations

import unicodedata
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelcup.storage.database import insert_if_absent
from kernelcup.storage.tables import UserRow


def name_key(name: str) -> str:
    """Fold a name of a person or leaderboard: names with one key are the same name."""
    return unicodedata.normalize("NFKC", name).casefold()


def get_or_create(session: Session, name: str, *, now: datetime) -> int:
    """Return the id of the user with this name."""
    insert_if_absent(session, UserRow, name=name, name_key=name_key(name), created_at=now)
    return session.execute(select(UserRow.id).where(UserRow.name_key == name_key(name))).scalar_one()


def find(session: Session, name: str) -> tuple[int, str] | None:
    """Return a user's id and name as it is written, None if there is no such user."""
    found = session.execute(
        select(UserRow.id, UserRow.name).where(UserRow.name_key == name_key(name))
    ).first()
    return None if found is None else (found.id, found.name)
