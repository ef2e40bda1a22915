"""User accounts: identities, signing in, roles and bans."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from kernelcup.app import access
from kernelcup.app.access import Entry
from kernelcup.app.operation import Given, Limit, operation
from kernelcup.app.people.queries import audit_log, identities, users
from kernelcup.app.people.user_names import (
    LONGEST_NAME,
    as_shown_name,
    check_account_name,
    check_shown_name,
    checked_identity,
    make_with_free_name,
)
from kernelcup.domain import NOBODY, Actor, Role, Scope
from kernelcup.domain.answers import Identity, User
from kernelcup.engine import Database, Session
from kernelcup.errors import Banned, Conflict, Forbidden, InvalidValue, NotFound, SignInNeeded

LONGEST_REASON = 500
ROLES = "participant, creator or admin"


Name = Annotated[str, Given(metavar="USER", help="Name of the user.", longest=100)]
Unused = Annotated[str, Given(metavar="USER", help="Name of the user.", longest=LONGEST_NAME)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Me(User):
    """A user as they see themselves."""

    scopes: frozenset[Scope]
    """What the token may do."""


def parse_role(text: str, _now: datetime | None = None) -> Role:
    """Return the role with that name. Raise ``InvalidValue``."""
    try:
        return Role(text.lower())
    except ValueError:
        raise InvalidValue(f"Role {text}: expected {ROLES}") from None


@operation("GET", "/me", subject="account")
def get_me(db: Database, actor: Actor) -> Me:
    """Show the token's user and what the token may do."""
    if actor.role is Role.NOBODY:
        raise SignInNeeded("You are not signed in.")
    return _seen_by(actor, get_user(db, actor, actor.name))


@operation("PATCH", "/me", subject="account")
def set_direct_messages(
    db: Database,
    actor: Actor,
    wanted: Annotated[bool, Given(key="direct_messages", help="Whether bots may write to you.")],
) -> Me:
    """Set whether bots may write to you when one of your results is overtaken or loses its rank.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
    """
    user_id = access.account(actor)
    with db.write() as session:
        users.set_direct_messages(session, user_id, wanted)
        return _seen_by(actor, _got(session, user_id))


@operation("GET", "/users/{name}", subject="users")
def get_user(db: Database, actor: Actor, name: Name) -> User:
    """Show a user: yourself; admins can show anyone.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
        Forbidden: The account belongs to another user.
        NotFound: There is no such user.
    """
    access.require(actor, Scope.READ)
    with db.read() as session:
        user = users.find(session, name)
    itself = user is not None and user.id == actor.user_id
    if not itself and not _administers(actor):
        raise Forbidden("You may see your own account only; admins may see all.")
    if user is None:
        raise _no_user(name)
    return user


@operation("GET", "/users", "admin user list", subject="users", is_paged=True)
def list_users(
    db: Database,
    actor: Actor,
    *,
    query: Annotated[
        str | None, Given(options=("--query",), help="Only names that contain this text.", longest=64)
    ] = None,
    after_id: Annotated[
        int | None, Given(options=("--after",), key="after", help="Only users with an id above this one.")
    ] = None,
    limit: Limit = 50,
) -> list[User]:
    """List users by number. For admins."""
    _require_admin(actor)
    with db.read() as session:
        return users.page(session, after_id=after_id, limit=limit, query=query)


@operation("POST", "/users", "admin user add", subject="users", status=201)
def make_user(
    db: Database,
    actor: Actor,
    name: Unused,
    *,
    role: Annotated[Role, Given(options=("--role",), parse=parse_role, help=f"{ROLES}.")] = Role.PARTICIPANT,
    now: datetime,
) -> User:
    """Create a user who signs in with links and tokens. For admins.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor is not an admin.
        InvalidValue: The name or the role is invalid.
        Conflict: The name is taken.
    """
    _require_admin(actor)
    checked, wanted = check_account_name(name), _account_role(role)
    with db.write() as session:
        user_id = users.create(session, checked, role=wanted, now=now)
        if user_id is None:
            raise _taken(checked)
        audit_log.record(session, actor, "user.create", f"user:{checked}", {"role": wanted.value}, now)
        return _got(session, user_id)


@operation("PATCH", "/users/{name}", subject="users")
def change(
    db: Database,
    actor: Actor,
    name: Name,
    *,
    new_name: Annotated[str | None, Given(key="name", help="Another name.", longest=LONGEST_NAME)] = None,
    role: Annotated[Role | None, Given(parse=parse_role, help="Another role; for admins.")] = None,
    entry: Entry,
    now: datetime,
) -> User:
    """Change a user's name (your own; admins: anyone's) or role (admins only).

    If either fails, neither changes. The user's tokens lose at once every scope that the role does not allow.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing, Banned: The actor may not do this.
        InvalidValue: The name or the role is invalid.
        NotFound: There is no user of that name.
        Conflict: The name is taken, or the last admin would lose the role.
    """
    if new_name is None and role is None:
        return get_user(db, actor, name)
    if new_name is not None:
        access.check_settings(actor, entry)
    if role is not None:
        _require_admin(actor)
        role = _account_role(role)
    if new_name is not None:
        new_name = check_account_name(new_name)
    with db.write() as session:
        user = _found_own(session, actor, name)
        if role is not None:
            _give_role(session, actor, user, role, now)
        if new_name is not None:
            if not users.rename(session, user.id, new_name):
                raise _taken(new_name)
            audit_log.record(session, actor, "user.rename", f"user:{new_name}", {"before": user.name}, now)
        return _got(session, user.id)


@operation("PUT", "/users/{name}/shown-name", "account shown-name", subject="users")
def set_shown_name(
    db: Database,
    actor: Actor,
    name: Name,
    shown_name: Annotated[str, Given(metavar="SHOWN", help="Empty: the account's name is shown.")] = "",
    *,
    now: datetime,
) -> User:
    """Set the name that others see instead of the account's, with spaces and emoji: your own; admins: anyone's.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing, Banned: The actor may not do this.
        InvalidValue: Others could not read the name, or would take it for another.
        NotFound: There is no user of that name.
        Conflict: Another user has that name, or shows it.
    """
    access.require(actor, Scope.SUBMIT)
    wanted = check_shown_name(shown_name) if shown_name else ""
    with db.write() as session:
        user = _found_own(session, actor, name)
        if not users.show_as(session, user.id, wanted):
            raise _taken(wanted)
        detail = {"before": user.shown_name, "shown_name": wanted}
        audit_log.record(session, actor, "user.shown_name", f"user:{user.name}", detail, now)
        return _got(session, user.id)


@operation("POST", "/users/{name}/ban", "admin user ban", subject="users")
def ban(
    db: Database,
    actor: Actor,
    name: Name,
    *,
    reason: Annotated[
        str, Given(options=("--reason",), help="Reason, shown to the user.", longest=LONGEST_REASON)
    ],
    now: datetime,
) -> User:
    """Ban a user: the user can still read, and nothing else, whichever identity they sign in with. For admins.

    Raises:
        InvalidValue: The reason is missing or too long.
        NotFound: There is no such user.
    """
    _require_admin(actor)
    text = reason.strip()
    if not 1 <= len(text) <= LONGEST_REASON:
        raise InvalidValue(f"Reason for a ban: expected 1 to {LONGEST_REASON} characters.")
    return _set_ban(db, actor, name, at=now, reason=text, action="user.ban", now=now)


@operation("DELETE", "/users/{name}/ban", "admin user unban", subject="users")
def unban(db: Database, actor: Actor, name: Name, *, now: datetime) -> User:
    """Lift a ban. For admins."""
    _require_admin(actor)
    return _set_ban(db, actor, name, at=None, reason="", action="user.unban", now=now)


def sign_in(
    db: Database,
    *,
    provider: str,
    subject: str,
    login: str,
    display: str = "",
    now: datetime,
    actor: Actor = NOBODY,
) -> int:
    """Return the id of the user with an identity; create the user when it is first seen.

    Args:
        provider: The sign-in provider of the identity, for example ``github``.
        subject: The provider's permanent id for the account.
        login: The account's current name at the provider.
        display: The name that it shows there: of a new identity the user's shown name, if they have none.
        actor: If signed in, the identity is linked to this user.

    Raises:
        InvalidValue: The provider or the subject is invalid.
        Conflict: The identity belongs to another user, or the actor already has one of this provider.
    """
    identity = checked_identity(provider, subject, login)
    with db.write() as session:
        owner = identities.owner(session, provider, subject)
        shown = as_shown_name(display) if owner is None else ""
        if owner is None and actor.user_id is not None:
            owner = _link(session, actor.user_id, identity, now)
        elif owner is None:
            owner = _first_seen(session, identity, now)
        if shown and not (user := _got(session, owner)).shown_name and shown != user.name:
            users.show_as(session, owner, shown)
        if actor.user_id not in (None, owner):
            raise Conflict(f"This {provider} account belongs to another user; sign out to sign in with it.")
        identities.rename(session, identity)
        return owner


def _seen_by(actor: Actor, user: User) -> Me:
    known = {each.name: getattr(user, each.name) for each in dataclasses.fields(User)}
    return Me(**known, scopes=actor.scopes)


def _administers(actor: Actor) -> bool:
    return actor.role is Role.ADMIN and Scope.ADMIN in actor.scopes


def _require_admin(actor: Actor) -> None:
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)


def _account_role(role: Role) -> Role:
    if role is Role.NOBODY:
        raise InvalidValue("Role 'nobody': expected participant, creator or admin.")
    return role


def check_not_last_admin(session: Session, actor: Actor, user: User) -> None:
    """Raise ``Conflict`` if no admin would be left to undo the change; the operator always can."""
    if access.is_operator(actor) or user.role is not Role.ADMIN or user.banned_at is not None:
        return
    if not users.has_other_admin(session, user.id):
        raise Conflict(f"{user.name} is the last admin; make another user an admin first.")


def _found_own(session: Session, actor: Actor, name: str) -> User:
    """Return a user whom the actor may change."""
    user = users.find(session, name)
    if not _administers(actor):
        if user is None or user.id != actor.user_id:
            raise Forbidden("You may change your own account only; admins may change all.")
        if user.banned_at is not None:
            raise Banned("You are banned and cannot change your account.")
    if user is None:
        raise _no_user(name)
    return user


def _give_role(session: Session, actor: Actor, user: User, role: Role, now: datetime) -> None:
    if role is not Role.ADMIN:
        check_not_last_admin(session, actor, user)
    users.set_role(session, user.id, role)
    detail = {"before": user.role.value, "role": role.value}
    audit_log.record(session, actor, "user.role", f"user:{user.name}", detail, now)


def _set_ban(
    db: Database, actor: Actor, name: str, *, at: datetime | None, reason: str, action: str, now: datetime
) -> User:
    with db.write() as session:
        user = _found(session, name)
        if at is not None:
            check_not_last_admin(session, actor, user)
        users.set_ban(session, user.id, at=at, reason=reason)
        detail: dict[str, Any] = {"reason": reason} if reason else {}
        audit_log.record(session, actor, action, f"user:{user.name}", detail, now)
        return _got(session, user.id)


def _link(session: Session, user_id: int, identity: Identity, now: datetime) -> int:
    user = users.get(session, user_id)
    if user is None:
        raise SignInNeeded("Sign in first: your account is gone.")
    if any(known.provider == identity.provider for known in user.identities):
        raise Conflict(f"You have another {identity.provider} account linked; unlink it first.")
    return identities.add(session, user_id, identity, now=now)


def _first_seen(session: Session, identity: Identity, now: datetime) -> int:
    """Create a user; if the identity was added at the same time elsewhere, return its owner instead."""
    made = make_with_free_name(session, identity, now)
    owner = identities.add(session, made, identity, now=now)
    if owner != made:
        users.delete_unused(session, made)
    return owner


def _found(session: Session, name: str) -> User:
    user = users.find(session, name)
    if user is None:
        raise _no_user(name)
    return user


def _got(session: Session, user_id: int) -> User:
    session.expire_all()
    user = users.get(session, user_id)
    if user is None:
        raise NotFound("The user is gone.")
    return user


def _no_user(name: str) -> NotFound:
    return NotFound(f"There is no user {name!r}.")


def _taken(name: str) -> Conflict:
    return Conflict(f"The name {name!r} is taken; choose another.")
