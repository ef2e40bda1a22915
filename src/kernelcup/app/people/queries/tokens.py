"""Secrets that authenticate users. Only their hashes are stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, or_, select, update
from sqlalchemy.orm import Session

from kernelcup.domain import Role, Scope
from kernelcup.domain.answers import Token
from kernelcup.engine.rows import made_of
from kernelcup.tables import TokenRow, UserRow, table_of

SESSION = "session"


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """A token with its user."""

    token: Token
    user_id: int
    user: str
    role: Role
    banned: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NewToken:
    """A token to be stored."""

    user_id: int
    kind: str
    name: str
    hash: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None


def insert(session: Session, new: NewToken) -> Token:
    """Store a token."""
    row = TokenRow(
        user_id=new.user_id,
        kind=new.kind,
        name=new.name,
        hash=new.hash,
        scopes=scope_text(new.scopes),
        created_at=new.created_at,
        expires_at=new.expires_at,
    )
    session.add(row)
    session.flush()
    return _token(row)


def find_holder(session: Session, hashed: str) -> Holder | None:
    """Return the token with this hash, valid or not, None if there is none."""
    found = session.execute(_HOLDER, {"hash": hashed}).first()
    if found is None:
        return None
    return Holder(
        token=_token(found),
        user_id=found.user_id,
        user=found.user,
        role=Role(found.role),
        banned=found.banned_at is not None,
    )


# Built once and without mapped objects, because each request needs it: building takes longer than running it.
_TOKENS, _USERS = table_of(TokenRow), table_of(UserRow)
_HOLDER = (
    select(*_TOKENS.c, _USERS.c.name.label("user"), _USERS.c.role, _USERS.c.banned_at)
    .join(_USERS, _USERS.c.id == _TOKENS.c.user_id)
    .where(_TOKENS.c.hash == bindparam("hash"))
)


def owner(session: Session, token_id: int) -> int | None:
    """Return the id of a token's user, None if there is no such token."""
    return session.scalar(select(TokenRow.user_id).where(TokenRow.id == token_id))


def live(session: Session, user_id: int, *, now: datetime) -> list[Token]:
    """Return a user's valid tokens, newest first."""
    rows = session.scalars(
        select(TokenRow).where(TokenRow.user_id == user_id, *_alive(now)).order_by(TokenRow.id.desc())
    )
    return [_token(row) for row in rows]


def count_live(session: Session, user_id: int, *, now: datetime) -> int:
    """Return how many valid tokens a user has, without sessions."""
    mine = (TokenRow.user_id == user_id, TokenRow.kind != SESSION, *_alive(now))
    return session.execute(select(func.count()).select_from(TokenRow).where(*mine)).scalar_one()


def touch(session: Session, token_id: int, *, now: datetime) -> None:
    """Store the time when a token was used."""
    session.execute(update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=now))


def revoke(session: Session, token_id: int, *, now: datetime) -> None:
    """Revoke a token; one that is already revoked keeps its time."""
    open_ = (TokenRow.id == token_id, TokenRow.revoked_at.is_(None))
    session.execute(update(TokenRow).where(*open_).values(revoked_at=now))


def trim_sessions(session: Session, user_id: int, *, keep: int, now: datetime) -> None:
    """Delete a user's expired sessions, and all but the newest ``keep`` others."""
    mine = (TokenRow.user_id == user_id, TokenRow.kind == SESSION)
    newest = select(TokenRow.id).where(*mine, *_alive(now)).order_by(TokenRow.id.desc()).limit(keep)
    kept = list(session.scalars(newest))
    session.execute(delete(TokenRow).where(*mine, TokenRow.id.not_in(kept)))


def scope_text(scopes: frozenset[Scope]) -> str:
    """Return scopes in their stored form."""
    return " ".join(scope.value for scope in Scope if scope in scopes)


def read_scopes(text: str) -> frozenset[Scope]:
    """Parse stored scopes."""
    return frozenset(Scope(word) for word in text.split())


def _alive(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (
        TokenRow.revoked_at.is_(None),
        or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > now),
    )


def _token(row: Any) -> Token:
    return made_of(row, Token, scopes=read_scopes(row.scopes))
