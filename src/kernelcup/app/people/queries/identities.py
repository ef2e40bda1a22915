"""Users' accounts at sign-in providers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from kernelcup.domain.answers import Identity
from kernelcup.engine.database import insert_if_absent
from kernelcup.tables import IdentityRow


def owner(session: Session, provider: str, subject: str) -> int | None:
    """Return the id of the user with this identity, None if there is none."""
    row = session.get(IdentityRow, (provider, subject))
    return None if row is None else row.user_id


def add(session: Session, user_id: int, identity: Identity, *, now: datetime) -> int:
    """Give an identity to a user unless it has an owner already, and return its owner."""
    insert_if_absent(
        session,
        IdentityRow,
        provider=identity.provider,
        subject=identity.subject,
        user_id=user_id,
        login=identity.login,
        created_at=now,
    )
    return session.execute(select(IdentityRow.user_id).where(*_key(identity))).scalar_one()


def rename(session: Session, identity: Identity) -> None:
    """Store the account's current name."""
    changed = (*_key(identity), IdentityRow.login != identity.login)
    session.execute(update(IdentityRow).where(*changed).values(login=identity.login))


def remove(session: Session, user_id: int, provider: str, subject: str) -> None:
    mine = (
        IdentityRow.provider == provider,
        IdentityRow.subject == subject,
        IdentityRow.user_id == user_id,
    )
    session.execute(delete(IdentityRow).where(*mine))


def of_users(session: Session, user_ids: Collection[int]) -> dict[int, tuple[Identity, ...]]:
    """Return the identities of each user, sorted by provider."""
    rows = session.scalars(
        select(IdentityRow)
        .where(IdentityRow.user_id.in_(user_ids))
        .order_by(IdentityRow.provider, IdentityRow.subject)
    )
    found: dict[int, tuple[Identity, ...]] = defaultdict(tuple)
    for row in rows:
        found[row.user_id] += (Identity(provider=row.provider, subject=row.subject, login=row.login),)
    return found


def _key(identity: Identity) -> tuple[ColumnElement[bool], ...]:
    return IdentityRow.provider == identity.provider, IdentityRow.subject == identity.subject
