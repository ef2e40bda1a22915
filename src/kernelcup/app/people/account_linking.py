"""Link an account at a bot's provider with a user's account here.

The user gets a short code where they are signed in and sends it to the bot, which vouches for their
identity there. The code alone gives no access.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from kernelcup.app import access
from kernelcup.app.people import secret_values
from kernelcup.app.people.queries import audit_log, identities, one_time_codes, tokens, users
from kernelcup.app.people.queries.identities import Identity
from kernelcup.app.people.queries.users import User
from kernelcup.domain import Actor, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import Banned, Conflict, Forbidden, InvalidValue, NotFound

LASTS = timedelta(minutes=15)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkCode:
    """The code that a user sends to a bot."""

    code: str
    expires_at: datetime


def make_link_code(db: Database, actor: Actor, *, now: datetime) -> LinkCode:
    """Return a code that links an account elsewhere with the actor's, once, within 15 minutes.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
        InvalidValue: The actor is not a user.
    """
    access.require(actor, Scope.SUBMIT)
    if actor.user_id is None:
        raise InvalidValue("Only a user can be joined with another account; sign in as one.")
    code, expires_at = secret_values.new_code(), now + LASTS
    with db.write() as session:
        hashed = secret_values.hash_of(code)
        one_time_codes.insert(
            session, hashed, kind="link", user_id=actor.user_id, now=now, expires_at=expires_at
        )
    return LinkCode(code=code, expires_at=expires_at)


def link(db: Database, actor: Actor, code: str, identity: Identity, *, now: datetime) -> User:
    """Move the actor's identity to the user who made the code, and return that user.

    The actor's earlier submissions stay with the actor's previous account.

    Raises:
        NotFound: The code is unknown, expired or used.
        Banned: One of the two is banned.
        Conflict: The two are already the same, or the user has another account of that provider.
    """
    hashed = secret_values.hash_of(secret_values.read_code(code))
    with db.write() as session:
        user_id = one_time_codes.take(session, hashed, "link", now=now)
        user = users.get(session, user_id) if user_id is not None else None
        before = users.get(session, actor.user_id) if actor.user_id is not None else None
        if user is None or before is None:
            raise NotFound("This code is unknown, expired or used; get a new one.")
        _check_link(user, before, identity)
        identities.remove(session, before.id, identity.provider, identity.subject)
        identities.add(session, user.id, identity, now=now)
        detail = {"provider": identity.provider, "before": before.name}
        audit_log.record(session, actor, "user.link", f"user:{user.name}", detail, now)
    return user


def unlink(db: Database, actor: Actor, identity: Identity, *, now: datetime) -> None:
    """Remove the identity that the actor used from their account.

    Raises:
        NotFound: The actor does not have it.
        Banned: A banned user keeps their identities, so that none of them can sign in as a new user.
        Conflict: The account could not be reached any more.
    """
    with db.write() as session:
        user = users.get(session, actor.user_id) if actor.user_id is not None else None
        mine = {(each.provider, each.subject) for each in user.identities} if user is not None else set()
        if user is None or (identity.provider, identity.subject) not in mine:
            raise NotFound(f"You have no {identity.provider} account linked.")
        if user.banned_at is not None:
            raise Banned("You are banned and cannot change your account.")
        if len(mine) == 1 and not _has_other_ways(session, user, now):
            raise Conflict("This is your only way to your account; there is nothing to take it from.")
        identities.remove(session, user.id, identity.provider, identity.subject)
        audit_log.record(
            session, actor, "user.unlink", f"user:{user.name}", {"provider": identity.provider}, now
        )


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
