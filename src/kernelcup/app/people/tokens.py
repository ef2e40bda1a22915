"""Tokens: secrets that authenticate users, limited to the scopes of the token and the user's role."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.access import Entry
from kernelcup.app.operation import Given, operation
from kernelcup.app.people import secret_values
from kernelcup.app.people.accounts import sign_in
from kernelcup.app.people.queries import audit_log, identities, tokens, users
from kernelcup.domain import Actor, Role, Scope
from kernelcup.domain.answers import Token, User
from kernelcup.engine import Database, Session
from kernelcup.errors import (
    Conflict,
    Forbidden,
    InvalidValue,
    NotFound,
    ScopeMissing,
    SignInNeeded,
    StorageUnavailable,
)

logger = logging.getLogger(__name__)

KINDS = ("api", "popcorn")
USUAL = [Scope.READ, Scope.SUBMIT]
LONGEST_NAME = 200
MOST_TOKENS = 100
"""The number of tokens that one user may have at a time, without sessions."""
MOST_SESSIONS = 20
SESSION_LASTS = timedelta(days=30)
USE_NOTED_EVERY = timedelta(minutes=1)

_PARTICIPANT = frozenset({Scope.READ, Scope.SUBMIT})
_SCOPES: dict[Role, frozenset[Scope]] = {
    Role.NOBODY: frozenset({Scope.READ}),
    Role.PARTICIPANT: _PARTICIPANT,
    Role.CREATOR: _PARTICIPANT | {Scope.INSPECT, Scope.MANAGE},
    Role.ADMIN: frozenset(Scope),
}


def scopes_of(role: Role) -> frozenset[Scope]:
    """Return the scopes that tokens of users with this role may have."""
    return _SCOPES[role]


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretToken(Token):
    """A new token."""

    secret: str = field(repr=False)
    """Shown once: only its hash is stored."""


@operation("POST", "/tokens", subject="account", status=201)
def create_token(
    db: Database,
    actor: Actor,
    *,
    name: Annotated[str, Given(help="What the token is for.", longest=LONGEST_NAME)],
    scopes: Annotated[
        list[Scope], Given(least=1, most=10, help="What it may do, of what its user and this token may.")
    ] = USUAL,
    kind: Annotated[str, Given(choices=KINDS, help="`popcorn` for the existing client.")] = KINDS[0],
    days: Annotated[int, Given(least=1, most=3650, help="Number of days until the token expires.")] = 180,
    for_user: Annotated[
        str | None, Given(key="user", help="The token's user; for admins.", longest=100)
    ] = None,
    expires_at: datetime | None = None,
    entry: Entry,
    now: datetime,
) -> SecretToken:
    """Create a token. This needs a browser session or an admin's token: other tokens cannot create tokens.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not do this, or the role does not allow the scopes.
        InvalidValue: The name, kind, scopes or time is invalid.
        NotFound: There is no user of that name.
        Conflict: The user has too many tokens.
    """
    access.check_settings(actor, entry)
    wanted = frozenset(scopes)
    expires_at = expires_at or now + timedelta(days=days)
    shown = _check_form(name, wanted, kind, expires_at, now)
    with db.write() as session:
        user = _user_for(session, actor, for_user)
        _check_scopes(actor, user, wanted)
        if tokens.count_live(session, user.id, now=now) >= MOST_TOKENS:
            raise Conflict(f"{user.name} has {MOST_TOKENS} tokens; revoke one first.")
        token, plain = issue(
            session, user.id, kind=kind, name=shown, scopes=wanted, now=now, expires_at=expires_at
        )
        detail = {"token": token.id, "name": shown, "scopes": tokens.scope_text(wanted)}
        audit_log.record(session, actor, "token.create", f"user:{user.name}", detail, now)
    known = {each.name: getattr(token, each.name) for each in dataclasses.fields(token)}
    return SecretToken(**known, secret=plain)


@operation("GET", "/tokens", subject="account")
def list_tokens(
    db: Database,
    actor: Actor,
    *,
    now: datetime,
    for_user: Annotated[
        str | None, Given(key="user", help="The tokens' user; for admins.", longest=100)
    ] = None,
) -> list[Token]:
    """List the usable tokens, at most a few hundred: your own; admins can list anyone's.

    Their scopes are those that the user's role allows now.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not see them.
        NotFound: There is no user of that name.
    """
    access.require(actor, Scope.READ)
    with db.read() as session:
        user = _user_for(session, actor, for_user)
        may = scopes_of(user.role)
        return [replace(each, scopes=each.scopes & may) for each in tokens.live(session, user.id, now=now)]


@operation("DELETE", "/tokens/current", subject="account")
def revoke_current_token(db: Database, actor: Actor, *, entry: Entry, now: datetime) -> None:
    """Revoke the token that this request carries."""
    if actor.role is Role.NOBODY or not entry.secret:
        raise SignInNeeded("This request carries no token.")
    revoke_secret(db, entry.secret, now=now)


@operation("DELETE", "/tokens/{token_id}", "admin token revoke", subject="account")
def revoke_token(
    db: Database,
    actor: Actor,
    token_id: Annotated[int, Given(metavar="ID", least=1, help="Number of the token.")],
    now: datetime,
) -> None:
    """Revoke a token: your own; admins can revoke anyone's.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
        NotFound: The token does not exist, or belongs to another user.
    """
    access.require(actor, Scope.SUBMIT)
    with db.write() as session:
        owner_id = tokens.owner(session, token_id)
        if owner_id is None or (owner_id != actor.user_id and not _administers(actor)):
            raise NotFound(f"You have no token {token_id}.")
        owner = users.get(session, owner_id)
        tokens.revoke(session, token_id, now=now)
        name = owner.name if owner is not None else ""
        audit_log.record(session, actor, "token.revoke", f"user:{name}", {"token": token_id}, now)


def revoke_secret(db: Database, plain: str, *, now: datetime) -> None:
    """Revoke the token with this secret, for example to sign out. Ignore an unknown secret."""
    with db.write() as session:
        holder = tokens.find_holder(session, secret_values.hash_of(plain))
        if holder is not None:
            tokens.revoke(session, holder.token.id, now=now)


def authenticate(db: Database, plain: str, *, now: datetime, is_session: bool = False) -> Actor:
    """Return the actor whom a secret authenticates; only that of a browser's session if it has to be one.

    The scopes are those of the token that the user's current role allows; ``admin`` includes all but ``act``. A
    banned user counts as a participant, whatever the role.

    Raises:
        SignInNeeded: The token is unknown, expired or revoked; the error does not reveal which.
    """
    hashed = secret_values.hash_of(plain)
    with db.read() as session:
        holder = tokens.find_holder(session, hashed)
    if (
        holder is None
        or not _is_live(holder.token, now)
        or (is_session and holder.token.kind != tokens.SESSION)
    ):
        raise SignInNeeded("The token is unknown, expired or revoked; sign in again.")
    used = holder.token.last_used_at
    if used is None or now - used >= USE_NOTED_EVERY:
        _note_use(db, holder.token.id, now)
    return _actor(holder)


def _note_use(db: Database, token_id: int, now: datetime) -> None:
    """Record that a token was used, if that is possible at once: reading must work without writing."""
    from sqlalchemy.exc import DBAPIError  # not for a client, which names this module

    try:
        with db.note() as session:
            tokens.touch(session, token_id, now=now)
    except (StorageUnavailable, DBAPIError) as error:
        logger.info("token %d: cannot store its use: %s", token_id, error)


def act_for(
    db: Database, actor: Actor, *, provider: str, subject: str, login: str, display: str = "", now: datetime
) -> Actor:
    """Return the user with an identity that a bot vouches for; create the user at first use.

    A bot acts for admins as if they were creators, unless its own token has the scope ``admin``.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor's token lacks the scope ``act``.
        InvalidValue: The identity is invalid.
    """
    access.require(actor, Scope.ACT, role=Role.ADMIN)
    user = _known(db, provider, subject, login)
    if user is None:
        user_id = sign_in(db, provider=provider, subject=subject, login=login, display=display, now=now)
        with db.read() as session:
            user = users.get(session, user_id)
    if user is None:
        raise NotFound("The user is gone.")
    role = Role.PARTICIPANT if user.banned_at is not None else user.role
    if role is Role.ADMIN and Scope.ADMIN not in actor.scopes:
        role = Role.CREATOR  # otherwise an admin who links an account would make the bot an admin
    scopes = scopes_of(role) - {Scope.ACT}
    return Actor(user_id=user.id, name=user.name, role=role, scopes=scopes)


def make_session(db: Database, user_id: int, now: datetime) -> str:
    """Sign a browser in and return the secret for its cookie. If there are too many sessions, end the oldest."""
    with db.write() as session:
        _, plain = issue(
            session,
            user_id,
            kind=tokens.SESSION,
            name="browser",
            scopes=frozenset(Scope) - {Scope.ACT},
            now=now,
            expires_at=now + SESSION_LASTS,
        )
        tokens.trim_sessions(session, user_id, keep=MOST_SESSIONS, now=now)
    return plain


def issue(
    session: Session,
    user_id: int,
    *,
    kind: str,
    name: str,
    scopes: frozenset[Scope],
    now: datetime,
    expires_at: datetime | None,
    plain: str | None = None,
) -> tuple[Token, str]:
    """Store a token in a transaction, without any check of rights, and return it with its secret."""
    plain = plain or secret_values.new_secret()
    new = tokens.NewToken(
        user_id=user_id,
        kind=kind,
        name=name,
        hash=secret_values.hash_of(plain),
        scopes=scopes,
        created_at=now,
        expires_at=expires_at,
    )
    return tokens.insert(session, new), plain


def _check_form(name: str, scopes: frozenset[Scope], kind: str, expires_at: datetime, now: datetime) -> str:
    shown = name.strip()
    if not 1 <= len(shown) <= LONGEST_NAME or not shown.isprintable():
        raise InvalidValue(f"Name of a token: expected 1 to {LONGEST_NAME} printable characters.")
    if not scopes:
        raise InvalidValue(f"A token needs at least one scope of {', '.join(Scope)}.")
    if kind not in KINDS:
        raise InvalidValue(f"Kind of a token: expected one of {', '.join(KINDS)}.")
    if expires_at <= now:
        raise InvalidValue("The token would have expired already; give a later time.")
    return shown


def _check_scopes(actor: Actor, user: User, wanted: frozenset[Scope]) -> None:
    if beyond := wanted - scopes_of(user.role):
        words = ", ".join(sorted(beyond))
        raise Forbidden(f"{user.name} is {user.role.value}, whose tokens cannot have the scope {words}.")
    if beyond := wanted - actor.scopes:
        raise ScopeMissing(f"This token lacks the scope {', '.join(sorted(beyond))} itself.")


def _user_for(session: Session, actor: Actor, name: str | None) -> User:
    """Return the named user, by default the actor; only admins may name another user."""
    if name is None:
        if actor.user_id is None:
            raise InvalidValue("Name the user of the token.")
        user = users.get(session, actor.user_id)
    else:
        user = users.find(session, name)
        if (user is None or user.id != actor.user_id) and not _administers(actor):
            raise Forbidden("You may see and change your own tokens only; admins may do so for all.")
    if user is None:
        raise NotFound(f"There is no user {name!r}." if name is not None else "Your account is gone.")
    return user


def _known(db: Database, provider: str, subject: str, login: str) -> User | None:
    """Return the user with this identity, None if the user or the login is new and has to be stored."""
    with db.read() as session:
        owner = identities.owner(session, provider, subject)
        user = users.get(session, owner) if owner is not None else None
    if user is None:
        return None
    called = {(each.provider, each.subject): each.login for each in user.identities}
    return user if called.get((provider, subject)) == login else None


def _administers(actor: Actor) -> bool:
    return actor.role is Role.ADMIN and Scope.ADMIN in actor.scopes


def _is_live(token: Token, now: datetime) -> bool:
    expired = token.expires_at is not None and token.expires_at <= now
    return token.revoked_at is None and not expired


def _actor(holder: tokens.Holder) -> Actor:
    role = Role.PARTICIPANT if holder.banned else holder.role
    scopes = holder.token.scopes & scopes_of(role)
    if Scope.ADMIN in scopes:
        scopes = scopes | (scopes_of(role) - {Scope.ACT})
    return Actor(user_id=holder.user_id, name=holder.user, role=role, scopes=scopes)
