"""Joining an account that a bot vouches for with an account that somebody signs in to.

Where they are signed in, they get a short code; they tell it the bot, which vouches for who they are
there. The code alone lets nobody in anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from kernelcup.domain import Actor, Scope
from kernelcup.errors import Banned, Conflict, Forbidden, InvalidValue, NotFound
from kernelcup.services import access, secret
from kernelcup.services.device_login import new_user_code, read_user_code
from kernelcup.storage import accounts, audit, identities, login_links, tokens
from kernelcup.storage.accounts import User
from kernelcup.storage.database import Database
from kernelcup.storage.identities import Identity

LASTS = timedelta(minutes=15)
_MARK = "link:"
"""Hashes of codes begin so in the table that they share with sign-in links, which are never short."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkCode:
    """What somebody tells a bot."""

    code: str
    expires_at: datetime


def make_link_code(db: Database, actor: Actor, *, now: datetime) -> LinkCode:
    """Return a code that joins an account elsewhere with the actor's, once, within a quarter of an hour.

    Raises:
        SignInNeeded, ScopeMissing: The actor's token does not do.
        InvalidValue: The actor is no user.
    """
    access.require(actor, Scope.SUBMIT)
    if actor.user_id is None:
        raise InvalidValue("Only a user can be joined with another account; sign in as one.")
    code, expires_at = new_user_code(), now + LASTS
    with db.write() as session:
        login_links.insert(session, _key(code), user_id=actor.user_id, now=now, expires_at=expires_at)
    return LinkCode(code=code, expires_at=expires_at)


def link(db: Database, actor: Actor, code: str, identity: Identity, *, now: datetime) -> User:
    """Give the identity by which the actor came to the user who made the code, and return that user.

    What the actor submitted before stays with the account of before.

    Raises:
        NotFound: The code is unknown, expired or used.
        Banned: One of the two is banned.
        Conflict: They are one already, or the user has another account of that provider.
    """
    key = _key(read_user_code(code))
    with db.write() as session:
        user_id = login_links.take(session, key, now=now)
        user = accounts.get(session, user_id) if user_id is not None else None
        before = accounts.get(session, actor.user_id) if actor.user_id is not None else None
        if user is None or before is None:
            raise NotFound("This code is unknown, expired or used; get a new one.")
        _check_link(user, before, identity)
        identities.remove(session, before.id, identity.provider, identity.subject)
        identities.add(session, user.id, identity, now=now)
        detail = {"provider": identity.provider, "before": before.name}
        audit.record(session, actor, "user.link", f"user:{user.name}", detail, now)
    return user


def unlink(db: Database, actor: Actor, identity: Identity, *, now: datetime) -> None:
    """Take the identity by which the actor came from their account.

    Raises:
        NotFound: The actor has it not.
        Banned: Who is banned keeps it, and does not come back with it as a new user.
        Conflict: Nobody could reach the account any more.
    """
    with db.write() as session:
        user = accounts.get(session, actor.user_id) if actor.user_id is not None else None
        mine = {(each.provider, each.subject) for each in user.identities} if user is not None else set()
        if user is None or (identity.provider, identity.subject) not in mine:
            raise NotFound(f"You have no {identity.provider} account linked.")
        if user.banned_at is not None:
            raise Banned("You are banned and cannot change your account.")
        if len(mine) == 1 and not _has_other_ways(session, user, now):
            raise Conflict("This is your only way to your account; there is nothing to take it from.")
        identities.remove(session, user.id, identity.provider, identity.subject)
        audit.record(session, actor, "user.unlink", f"user:{user.name}", {"provider": identity.provider}, now)


def _check_link(user: User, before: User, identity: Identity) -> None:
    if user.id == before.id:
        raise Conflict("This is your account already.")
    if user.banned_at is not None or before.banned_at is not None:
        raise Banned("A banned account cannot be joined with another.")
    if any(each.provider == identity.provider for each in user.identities):
        raise Conflict(f"{user.name} has another {identity.provider} account linked; unlink it first.")
    if (identity.provider, identity.subject) not in {(e.provider, e.subject) for e in before.identities}:
        raise Forbidden(f"This is not your {identity.provider} account.")


def _has_other_ways(session: Session, user: User, now: datetime) -> bool:
    return tokens.count_live(session, user.id, now=now) > 0


def _key(code: str) -> str:
    return _MARK + secret.hash_of(code)
