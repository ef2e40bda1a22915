"""One-time sign-in links."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.storage.tables import LoginLinkRow, UserRow


def insert(session: Session, hashed: str, *, user_id: int, now: datetime, expires_at: datetime) -> None:
    """Store a link, and delete expired ones."""
    session.execute(delete(LoginLinkRow).where(LoginLinkRow.expires_at <= now))
    session.add(LoginLinkRow(hash=hashed, user_id=user_id, created_at=now, expires_at=expires_at))


def find_user(session: Session, hashed: str, *, now: datetime) -> str | None:
    """Return the name of the user whom a link would sign in, None if it is not valid."""
    return session.scalar(
        select(UserRow.name)
        .join(LoginLinkRow, LoginLinkRow.user_id == UserRow.id)
        .where(LoginLinkRow.hash == hashed, LoginLinkRow.expires_at > now)
    )


def take(session: Session, hashed: str, *, now: datetime) -> int | None:
    """Use up a link and return its user's id, None if it is not valid. Only one concurrent caller gets it."""
    good = (LoginLinkRow.hash == hashed, LoginLinkRow.expires_at > now)
    return session.scalar(delete(LoginLinkRow).where(*good).returning(LoginLinkRow.user_id))
