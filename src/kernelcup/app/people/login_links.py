"""One-time sign-in links, for services without a sign-in provider. Only hashes of their secrets are stored."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from kernelcup.app import access
from kernelcup.app.access import HERE, Entry
from kernelcup.app.operation import BOARD, Given, operation
from kernelcup.app.people import accounts, secret_values
from kernelcup.app.people.queries import audit_log, one_time_codes, users
from kernelcup.app.people.user_names import check_account_name
from kernelcup.domain import OPERATOR, Actor, Role, Scope
from kernelcup.domain.answers import OpenSignIn, User
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, InvalidValue, NotFound

ADMIN = "admin"
HOUR = timedelta(hours=1)
LASTS = 24 * HOUR
LONGEST = 72 * HOUR
STAFF_LASTS = timedelta(minutes=15)
"""The longest time of a link of a creator or an admin, and of one that a user makes for another browser."""
MOST_LINKS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginLink:
    """A new sign-in link, which works once."""

    user: str
    url: str = field(repr=False)
    """Shown once: only a hash of the secret in it is stored."""
    expires_at: datetime
    is_new_user: bool = False


@operation("POST", "/sign-in-links", subject="users", status=201)
def make_links(
    db: Database,
    actor: Actor,
    names: Annotated[list[str], Given(least=1, most=MOST_LINKS, help="Names of the users.")],
    *,
    create: Annotated[bool, Given(help="Whether names without an account become participants.")] = False,
    hours: Annotated[
        int,
        Given(
            least=1,
            most=LONGEST // HOUR,
            help="How long the links work; those of creators and admins work 15 minutes.",
        ),
    ] = LASTS // HOUR,
    board: Annotated[str | None, Given(key=BOARD, help="Where a browser goes after signing in.")] = None,
    entry: Entry,
    now: datetime,
    server: str = "",
) -> list[LoginLink]:
    """Make a one-time sign-in link for each user; earlier links of these users end. For admins.

    A name that occurs twice gets one link. If a name has no account and none is made, no link is made.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor is not an admin, or a token cannot do this.
        InvalidValue: There is no name or there are too many, a name has no account or cannot be one (the text
            has each of them), or the time is too long.
    """
    access.check_settings(actor, entry)
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if not names and actor is OPERATOR:
        names = [_ensure_admin(db, now)]
    if not timedelta(0) < hours * HOUR <= LONGEST:
        raise InvalidValue(f"Sign-in links work for at most {LONGEST // HOUR} hours.")
    wanted: dict[str, str] = {}
    for each in map(str.strip, names):
        wanted.setdefault(users.name_key(each), each)
    if not 1 <= len(wanted) <= MOST_LINKS:
        raise InvalidValue(f"Sign-in links: expected 1 to {MOST_LINKS:,} names of users.")
    problems: list[str] = []
    made: list[LoginLink] = []
    with db.write() as session:
        for name in wanted.values():
            user = users.find(session, name)
            is_new = user is None and create
            try:
                user = user or _new_user(session, actor, name, create=create, now=now)
            except (InvalidValue, NotFound) as error:
                problems.append(str(error))
                continue
            link = _link(session, actor, user, now, hours * HOUR, server)
            made.append(dataclasses.replace(link, url=link.url + _goal(board), is_new_user=is_new))
        if problems:
            raise InvalidValue(problems)
    return made


def make_own_link(db: Database, actor: Actor, *, entry: Entry, now: datetime, server: str) -> LoginLink:
    """Return a link with which the actor signs in another browser within 15 minutes.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or a token cannot do this.
        InvalidValue: The actor is not a user.
    """
    access.check_settings(actor, entry)
    with db.write() as session:
        user = users.get(session, actor.user_id) if actor.user_id is not None else None
        if user is None:
            raise InvalidValue("Only a user can sign in by a link; name the user.")
        return _link(session, actor, user, now, STAFF_LASTS, server)


@operation("GET", "/sign-in-links", "admin user links", subject="users")
def open_links(db: Database, actor: Actor, *, now: datetime) -> list[OpenSignIn]:
    """List the sign-in links that can still be used, without their secrets. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.read() as session:
        return one_time_codes.open_sign_ins(session, now=now)


@operation("DELETE", "/sign-in-links/{name}", "admin user revoke-link", subject="users")
def revoke_links(
    db: Database,
    actor: Actor,
    name: Annotated[str, Given(metavar="USER", help="Name of the user.", longest=100)],
    *,
    now: datetime,
) -> None:
    """Make a user's open sign-in links useless. For admins.

    Raises:
        NotFound: There is none.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.write() as session:
        user = users.find(session, name)
        if user is None or not one_time_codes.remove_sign_ins(session, user.id, now=now):
            raise NotFound(f"There is no open sign-in link for {name!r}.")
        audit_log.record(session, actor, "user.link_revoke", f"user:{user.name}", {}, now)


def make_login_link(db: Database, user_id: int, now: datetime) -> str:
    """Return the secret of a link that signs a user in once, within 15 minutes."""
    with db.write() as session:
        return _store(session, user_id, now, STAFF_LASTS)


def make_admin_link(db: Database, now: datetime, server: str = "") -> LoginLink:
    """Return a link that signs in as ``admin``, for the person who runs the service."""
    return make_links(db, OPERATOR, [], entry=HERE, now=now, server=server)[0]


def _ensure_admin(db: Database, now: datetime) -> str:
    """Return ``admin``; create that user if needed. Raise ``Conflict`` if the user of that name is not an admin."""
    try:
        user = accounts.get_user(db, OPERATOR, ADMIN)
    except NotFound:
        user = accounts.make_user(db, OPERATOR, ADMIN, role=Role.ADMIN, now=now)
    if user.role is not Role.ADMIN:
        raise Conflict(f"The user {ADMIN!r} is not an admin.")
    return ADMIN


def login_link_user(db: Database, plain: str, now: datetime) -> str:
    """Return the name of the user whom a link would sign in. Raise ``NotFound`` if it is not valid."""
    with db.read() as session:
        name = one_time_codes.find_user(session, secret_values.hash_of(plain), "sign_in", now=now)
    if name is None:
        raise _no_link()
    return name


def use_login_link(db: Database, plain: str, now: datetime) -> int:
    """Use up a link and return its user's id. Raise ``NotFound`` if it is not valid."""
    with db.write() as session:
        user_id = one_time_codes.take(session, secret_values.hash_of(plain), "sign_in", now=now)
        user = users.get(session, user_id) if user_id is not None else None
        if user is None:
            raise _no_link()
        itself = Actor(user_id=user.id, name=user.name, role=user.role, scopes=frozenset())
        audit_log.record(session, itself, "user.link_use", f"user:{user.name}", {}, now)
    return user.id


def _new_user(session: Session, actor: Actor, name: str, *, create: bool, now: datetime) -> User:
    checked = check_account_name(name)
    if not create:
        raise NotFound(f"There is no user {name!r}.")
    user_id = users.create(session, checked, role=Role.PARTICIPANT, now=now)
    user = users.get(session, user_id) if user_id is not None else None
    if user is None:
        raise NotFound(f"The user {name!r} is gone.")
    detail = {"role": user.role.value}
    audit_log.record(session, actor, "user.create", f"user:{user.name}", detail, now)
    return user


def _link(
    session: Session, actor: Actor, user: User, now: datetime, lasts: timedelta, server: str
) -> LoginLink:
    """Make a link in place of the earlier ones of its user."""
    one_time_codes.remove_sign_ins(session, user.id, now=now)
    if user.role is not Role.PARTICIPANT:
        lasts = min(lasts, STAFF_LASTS)
    secret = _store(session, user.id, now, lasts)
    detail = {"minutes": lasts // timedelta(minutes=1)}
    audit_log.record(session, actor, "user.link", f"user:{user.name}", detail, now)
    return LoginLink(user=user.name, url=f"{server}/auth/link/{secret}", expires_at=now + lasts)


def _goal(board: str | None) -> str:
    """Return the end of a link's address, by which a browser goes to a leaderboard after signing in."""
    return "" if board is None else f"?next={quote(f'/b/{quote(board)}', safe='')}"


def _store(session: Session, user_id: int, now: datetime, lasts: timedelta) -> str:
    plain = secret_values.new_secret()
    hashed = secret_values.hash_of(plain)
    one_time_codes.insert(session, hashed, kind="sign_in", user_id=user_id, now=now, expires_at=now + lasts)
    return plain


def _no_link() -> NotFound:
    return NotFound("This sign-in link is unknown, expired or used; ask for a new one.")
