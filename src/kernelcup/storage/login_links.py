"""Links that sign one user in once."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.storage.tables import LoginLinkRow, UserRow


def insert(session: Session, hashed: str, *, user_id: int, now: datetime, expires_at: datetime) -> None:
    """Store a link, and forget those that are over."""
    session.execute(delete(LoginLinkRow).where(LoginLinkRow.expires_at <= now))
    session.add(LoginLinkRow(hash=hashed, user_id=user_id, created_at=now, expires_at=expires_at))


def find_user(session: Session, hashed: str, *, now: datetime) -> str | None:
    """Return the name of the user whom a link would sign in, None if it is of no use."""
    return session.scalar(
        select(UserRow.name)
        .join(LoginLinkRow, LoginLinkRow.user_id == UserRow.id)
        .where(LoginLinkRow.hash == hashed, LoginLinkRow.expires_at > now)
    )


def take(session: Session, hashed: str, *, now: datetime) -> int | None:
    """Use a link up and return its user's id, None if it is of no use. Of several at once, one gets it."""
    good = (LoginLinkRow.hash == hashed, LoginLinkRow.expires_at > now)
    return session.scalar(delete(LoginLinkRow).where(*good).returning(LoginLinkRow.user_id))
