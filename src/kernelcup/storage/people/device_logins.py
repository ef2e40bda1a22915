"""Pending sign-ins of command lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from kernelcup.domain import Scope
from kernelcup.storage.engine.database import upsert
from kernelcup.storage.people.tokens import read_scopes, scope_text
from kernelcup.storage.tables import DeviceLoginRow


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingLogin:
    """A pending sign-in, as shown to the person who may approve it."""

    user_code: str
    client: str
    """The client's description of itself."""
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class PolledLogin:
    """The state of a sign-in."""

    client: str
    scopes: frozenset[Scope]
    expires_at: datetime
    polled_at: datetime | None
    user_id: int | None
    denied: bool


def insert(session: Session, hashed: str, pending: PendingLogin) -> bool:
    """Store a sign-in. Return False if its user code is in use."""
    statement = upsert(session, DeviceLoginRow).values(
        device_code_hash=hashed,
        user_code=pending.user_code,
        client=pending.client,
        scopes=scope_text(pending.scopes),
        created_at=pending.created_at,
        expires_at=pending.expires_at,
        denied=False,
    )
    stored = statement.on_conflict_do_nothing().returning(DeviceLoginRow.user_code)
    return session.scalar(stored) is not None


def find_pending(session: Session, user_code: str, *, now: datetime) -> PendingLogin | None:
    """Return the undecided, unexpired sign-in with this user code, None if there is none."""
    row = session.scalar(select(DeviceLoginRow).where(*_undecided(user_code, now)))
    if row is None:
        return None
    return PendingLogin(
        user_code=row.user_code,
        client=row.client,
        scopes=read_scopes(row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


def approve(
    session: Session, user_code: str, *, user_id: int, scopes: frozenset[Scope], now: datetime
) -> bool:
    """Approve a sign-in as a user. Return False if it is no longer pending."""
    values = {"user_id": user_id, "scopes": scope_text(scopes)}
    return _decide(session, user_code, values, now)


def deny(session: Session, user_code: str, *, now: datetime) -> bool:
    """Refuse a sign-in. Return False if it is no longer pending."""
    return _decide(session, user_code, {"denied": True}, now)


def find_polled(session: Session, hashed: str) -> PolledLogin | None:
    """Return the state of the sign-in with this device code, None if there is none."""
    row = session.get(DeviceLoginRow, hashed)
    if row is None:
        return None
    return PolledLogin(
        client=row.client,
        scopes=read_scopes(row.scopes),
        expires_at=row.expires_at,
        polled_at=row.polled_at,
        user_id=row.user_id,
        denied=row.denied,
    )


def note_poll(session: Session, hashed: str, *, now: datetime) -> None:
    """Store the time of a poll."""
    mine = DeviceLoginRow.device_code_hash == hashed
    session.execute(update(DeviceLoginRow).where(mine).values(polled_at=now))


def take(session: Session, hashed: str) -> bool:
    """Remove a sign-in and return whether it existed. Of several concurrent callers only one gets True."""
    mine = DeviceLoginRow.device_code_hash == hashed
    taken = session.scalar(delete(DeviceLoginRow).where(mine).returning(DeviceLoginRow.device_code_hash))
    return taken is not None


def remove_expired(session: Session, *, now: datetime) -> None:
    """Delete expired sign-ins."""
    session.execute(delete(DeviceLoginRow).where(DeviceLoginRow.expires_at <= now))


def remove_silent(session: Session, *, keep: int) -> None:
    """Delete the sign-ins that have not polled for the longest, until ``keep`` remain; approved ones go last."""
    too_many = session.execute(select(func.count()).select_from(DeviceLoginRow)).scalar_one() - keep
    if too_many <= 0:
        return
    heard = func.coalesce(DeviceLoginRow.polled_at, DeviceLoginRow.created_at)
    silent = (
        select(DeviceLoginRow.device_code_hash)
        .order_by(DeviceLoginRow.user_id.is_not(None), heard, DeviceLoginRow.created_at)
        .limit(too_many)
    )
    session.execute(delete(DeviceLoginRow).where(DeviceLoginRow.device_code_hash.in_(silent)))


def _decide(session: Session, user_code: str, values: dict[str, object], now: datetime) -> bool:
    change = update(DeviceLoginRow).where(*_undecided(user_code, now)).values(**values)
    return session.scalar(change.returning(DeviceLoginRow.user_code)) is not None


def _undecided(user_code: str, now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (
        DeviceLoginRow.user_code == user_code,
        DeviceLoginRow.user_id.is_(None),
        DeviceLoginRow.denied.is_(False),
        DeviceLoginRow.expires_at > now,
    )
