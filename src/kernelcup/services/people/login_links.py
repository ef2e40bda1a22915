"""One-time sign-in links, for services without a sign-in provider."""

from __future__ import annotations

from datetime import datetime, timedelta

from kernelcup.domain import OPERATOR, Role
from kernelcup.errors import Conflict, NotFound
from kernelcup.services.people import accounts, secret_values
from kernelcup.storage.engine.database import Database
from kernelcup.storage.people import one_time_codes

ADMIN = "admin"
LASTS = timedelta(minutes=15)


def make_login_link(db: Database, user_id: int, now: datetime) -> str:
    """Return the secret of a link that signs a user in once, within 15 minutes."""
    plain = secret_values.new_secret()
    with db.write() as session:
        hashed = secret_values.hash_of(plain)
        one_time_codes.insert(
            session, hashed, kind="sign_in", user_id=user_id, now=now, expires_at=now + LASTS
        )
    return plain


def make_admin_link(db: Database, now: datetime) -> str:
    """Return the secret of a link that signs in as ``admin``; create that user if needed.

    It is for a person who starts the service on their own machine. Raise ``Conflict`` if the user of that name
    is not an admin.
    """
    try:
        user = accounts.get_user(db, OPERATOR, ADMIN)
    except NotFound:
        user = accounts.make_user(db, OPERATOR, ADMIN, role=Role.ADMIN, now=now)
    if user.role is not Role.ADMIN:
        raise Conflict(f"The user {ADMIN!r} is not an admin.")
    return make_login_link(db, user.id, now)


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
    if user_id is None:
        raise _no_link()
    return user_id


def _no_link() -> NotFound:
    return NotFound("This sign-in link is unknown, expired or used; ask for a new one.")
