"""Link an account at a bot's provider with a user's account here.

The user gets a short code where they are signed in and sends it to the bot, which vouches for their
identity there. The code alone gives no access.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.access import Entry
from kernelcup.app.operation import Given, operation
from kernelcup.app.people import secret_values
from kernelcup.app.people.queries import audit_log, identities, one_time_codes, tokens, users
from kernelcup.domain import Actor
from kernelcup.domain.answers import Identity, User
from kernelcup.engine import Database, Session
from kernelcup.errors import Banned, Conflict, Forbidden, InvalidValue, NotFound

LASTS = timedelta(minutes=15)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkCode:
    """The code that a user sends to a bot."""

    code: str
    expires_at: datetime


@operation("POST", "/me/link-codes", subject="account", status=201)
def make_link_code(db: Database, actor: Actor, *, entry: Entry, now: datetime) -> LinkCode:
    """Get a code; giving it to the Discord bot with `/link` links that Discord account to this account.

    It works once, within 15 minutes.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or a token cannot do this.
        InvalidValue: The actor is not a user.
    """
    access.check_settings(actor, entry)
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


@operation("DELETE", "/me/identities/{provider}", subject="account")
def unlink_identity(
    db: Database,
    actor: Actor,
    provider: Annotated[str, Given(help="Name of the sign-in provider.", longest=32)],
    *,
    entry: Entry,
    now: datetime,
) -> None:
    """Unlink an account at a sign-in provider; the last one stays.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or a token cannot do this.
        NotFound: The actor has no account there.
        Conflict: It is the only one, and the user could not sign in any more.
        Banned: A banned user keeps their identities, so that none of them can sign in as a new user.
    """
    access.check_settings(actor, entry)
    with db.write() as session:
        if _unlink(session, actor, provider, now) == 0:
            raise Conflict("This is your only way to sign in; link another account first.")


def unlink(db: Database, actor: Actor, identity: Identity, *, now: datetime) -> None:
    """Remove the identity that the actor used from their account.

    Raises:
        NotFound: The actor does not have it.
        Banned: A banned user keeps their identities, so that none of them can sign in as a new user.
        Conflict: The account could not be reached any more.
    """
    with db.write() as session:
        left = _unlink(session, actor, identity.provider, now)
        if left == 0 and not (actor.user_id and tokens.count_live(session, actor.user_id, now=now)):
            raise Conflict("This is your only way to your account; there is nothing to take it from.")


def _unlink(session: Session, actor: Actor, provider: str, now: datetime) -> int:
    """Remove the actor's identity at a provider, of which there is one at most; return how many are left."""
    user = users.get(session, actor.user_id) if actor.user_id is not None else None
    known = {} if user is None else {each.provider: each.subject for each in user.identities}
    if user is None or provider not in known:
        raise NotFound(f"You have no {provider} account linked.")
    if user.banned_at is not None:
        raise Banned("You are banned and cannot change your account.")
    identities.remove(session, user.id, provider, known[provider])
    audit_log.record(session, actor, "user.unlink", f"user:{user.name}", {"provider": provider}, now)
    return len(known) - 1


def _check_link(user: User, before: User, identity: Identity) -> None:
    if user.id == before.id:
        raise Conflict("This is your account already.")
    if user.banned_at is not None or before.banned_at is not None:
        raise Banned("A banned account cannot be joined with another.")
    if any(each.provider == identity.provider for each in user.identities):
        raise Conflict(f"{user.name} has another {identity.provider} account linked; unlink it first.")
    if (identity.provider, identity.subject) not in {(e.provider, e.subject) for e in before.identities}:
        raise Forbidden(f"This is not your {identity.provider} account.")
