"""One-time codes: sign-in links, codes that link accounts, and pending sign-ins of command lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from kernelcup.app.people.queries.tokens import read_scopes, scope_text
from kernelcup.domain import Scope
from kernelcup.domain.answers import OpenSignIn
from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.tables import OneTimeCodeRow, UserRow

Kind = Literal["sign_in", "link", "device"]


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


def insert(
    session: Session, hashed: str, *, kind: Kind, user_id: int, now: datetime, expires_at: datetime
) -> None:
    """Store a code of a user, and delete expired ones."""
    remove_expired(session, now=now)
    row = OneTimeCodeRow(hash=hashed, kind=kind, user_id=user_id, created_at=now, expires_at=expires_at)
    session.add(row)


def open_sign_ins(session: Session, *, now: datetime) -> list[OpenSignIn]:
    """Return the sign-in links that can still be used, the newest first."""
    columns = UserRow.name, OneTimeCodeRow.created_at, OneTimeCodeRow.expires_at
    found = select(*columns).join(UserRow, OneTimeCodeRow.user_id == UserRow.id)
    good = OneTimeCodeRow.kind == "sign_in", OneTimeCodeRow.expires_at > now
    rows = session.execute(found.where(*good).order_by(OneTimeCodeRow.created_at.desc(), UserRow.name_key))
    return [OpenSignIn(user=row.name, created_at=row.created_at, expires_at=row.expires_at) for row in rows]


def remove_sign_ins(session: Session, user_id: int, *, now: datetime) -> bool:
    """Delete the sign-in links of a user, and return whether one of them could still be used."""
    mine = delete(OneTimeCodeRow).where(OneTimeCodeRow.kind == "sign_in", OneTimeCodeRow.user_id == user_id)
    removed = session.scalars(mine.returning(OneTimeCodeRow.expires_at)).all()
    return any(expires_at > now for expires_at in removed)


def find_user(session: Session, hashed: str, kind: Kind, *, now: datetime) -> str | None:
    """Return the name of a code's user, None if the code is not valid."""
    found = select(UserRow.name).join(OneTimeCodeRow, OneTimeCodeRow.user_id == UserRow.id)
    return session.scalar(found.where(*_good(hashed, kind, now)))


def take(session: Session, hashed: str, kind: Kind, *, now: datetime) -> int | None:
    """Use up a code and return its user's id, None if it is not valid. Only one concurrent caller gets it."""
    used_up = delete(OneTimeCodeRow).where(*_good(hashed, kind, now))
    return session.scalar(used_up.returning(OneTimeCodeRow.user_id))


def _good(hashed: str, kind: Kind, now: datetime) -> tuple[ColumnElement[bool], ...]:
    return OneTimeCodeRow.hash == hashed, OneTimeCodeRow.kind == kind, OneTimeCodeRow.expires_at > now


def insert_device(session: Session, hashed: str, pending: PendingLogin) -> bool:
    """Store the sign-in of a command line. Return False if its user code is in use."""
    statement = upsert(session, OneTimeCodeRow).values(
        hash=hashed,
        kind="device",
        user_code=pending.user_code,
        client=pending.client,
        scopes=scope_text(pending.scopes),
        created_at=pending.created_at,
        expires_at=pending.expires_at,
        denied=False,
    )
    stored = statement.on_conflict_do_nothing().returning(OneTimeCodeRow.user_code)
    return session.scalar(stored) is not None


def find_pending(session: Session, user_code: str, *, now: datetime) -> PendingLogin | None:
    """Return the undecided, unexpired sign-in with this user code, None if there is none."""
    row = session.scalar(select(OneTimeCodeRow).where(*_undecided(user_code, now)))
    if row is None:
        return None
    return PendingLogin(
        user_code=user_code,
        client=row.client or "",
        scopes=read_scopes(row.scopes or ""),
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
    row = session.scalar(select(OneTimeCodeRow).where(*_device(hashed)))
    if row is None:
        return None
    return made_of(row, PolledLogin, client=row.client or "", scopes=read_scopes(row.scopes or ""))


def note_poll(session: Session, hashed: str, *, now: datetime) -> None:
    """Store the time of a poll."""
    session.execute(update(OneTimeCodeRow).where(*_device(hashed)).values(polled_at=now))


def take_device(session: Session, hashed: str) -> bool:
    """Remove a sign-in and return whether it existed. Of several concurrent callers only one gets True."""
    taken = delete(OneTimeCodeRow).where(*_device(hashed)).returning(OneTimeCodeRow.hash)
    return session.scalar(taken) is not None


def remove_expired(session: Session, *, now: datetime) -> None:
    """Delete expired codes."""
    session.execute(delete(OneTimeCodeRow).where(OneTimeCodeRow.expires_at <= now))


def remove_silent(session: Session, *, keep: int) -> None:
    """Delete the sign-ins that have not polled for the longest, until ``keep`` remain; approved ones go last."""
    devices = select(func.count()).select_from(OneTimeCodeRow).where(OneTimeCodeRow.kind == "device")
    too_many = session.execute(devices).scalar_one() - keep
    if too_many <= 0:
        return
    heard = func.coalesce(OneTimeCodeRow.polled_at, OneTimeCodeRow.created_at)
    silent = (
        select(OneTimeCodeRow.hash)
        .where(OneTimeCodeRow.kind == "device")
        .order_by(OneTimeCodeRow.user_id.is_not(None), heard, OneTimeCodeRow.created_at)
        .limit(too_many)
    )
    session.execute(delete(OneTimeCodeRow).where(OneTimeCodeRow.hash.in_(silent)))


def _device(hashed: str) -> tuple[ColumnElement[bool], ...]:
    return OneTimeCodeRow.hash == hashed, OneTimeCodeRow.kind == "device"


def _decide(session: Session, user_code: str, values: dict[str, object], now: datetime) -> bool:
    change = update(OneTimeCodeRow).where(*_undecided(user_code, now)).values(**values)
    return session.scalar(change.returning(OneTimeCodeRow.user_code)) is not None


def _undecided(user_code: str, now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (
        OneTimeCodeRow.user_code == user_code,
        OneTimeCodeRow.user_id.is_(None),
        OneTimeCodeRow.denied.is_(False),
        OneTimeCodeRow.expires_at > now,
    )
