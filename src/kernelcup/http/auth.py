"""Authentication: a token in the header, else a browser's session, else anonymous."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import unquote, urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from kernelcup.app.access import Entry
from kernelcup.app.people import tokens
from kernelcup.domain import NOBODY, Actor
from kernelcup.domain.answers import Identity
from kernelcup.engine.database import Database
from kernelcup.errors import Forbidden, InvalidValue, SignInNeeded

COOKIE = "kernelcup_session"
ACT_FOR = "X-KernelCup-Act-For"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def resolve(connection: HTTPConnection, db: Database, now: datetime) -> Actor:
    """Return the actor of a request.

    Raises:
        SignInNeeded: The token is unknown, expired or revoked.
        Forbidden: Another site made the browser send this, or the token may not act for others.
        InvalidValue: The header with the person to act for cannot be read.
    """
    connection.state.entry = Entry(by="none")
    secret = bearer(connection)
    if secret is not None:
        connection.state.entry = Entry(by="token", secret=secret)
        return _acting(connection, db, tokens.authenticate(db, secret, now=now), now)
    if ACT_FOR in connection.headers:
        raise SignInNeeded(f"{ACT_FOR} needs a token with the scope 'act'.")
    return _of_session(connection, db, now)


def bearer(connection: HTTPConnection) -> str | None:
    """Return the token in the header, None without one. Other schemes are not ours."""
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def check_same_origin(connection: HTTPConnection) -> None:
    """Raise ``Forbidden`` unless the browser reports that our own page sent this."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        ours = site in ("same-origin", "none")
    else:
        origin = connection.headers.get("origin", "")
        ours = bool(origin) and urlsplit(origin).netloc == connection.headers.get("host")
    if not ours:
        raise Forbidden("This was not sent from a page of this service.")


def set_session(response: Response, secret: str, *, secure: bool) -> None:
    """Set a browser's session cookie."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(tokens.SESSION_LASTS.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=secure,
    )


def clear_session(response: Response, *, secure: bool) -> None:
    """Delete a browser's session cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=secure)


def named_identity(connection: HTTPConnection) -> str:
    """Return the identity that a bot names, without the login, which its owner can change."""
    return ":".join(connection.headers.get(ACT_FOR, "").split(":")[:2])


def _of_session(connection: HTTPConnection, db: Database, now: datetime) -> Actor:
    secret = connection.cookies.get(COOKIE)
    if not secret:
        return NOBODY
    try:
        # A token in a cookie is no browser's session: it may not change how its account is accessed.
        actor = tokens.authenticate(db, secret, now=now, is_session=True)
    except SignInNeeded:
        return NOBODY  # an expired session counts as none
    if connection.scope.get("method") not in SAFE_METHODS:
        check_same_origin(connection)
    connection.state.entry = Entry(by="session")
    return actor


def _acting(connection: HTTPConnection, db: Database, actor: Actor, now: datetime) -> Actor:
    named = connection.headers.get(ACT_FOR)
    if named is None:
        return actor
    connection.state.entry = Entry(by="acting")
    provider, _, rest = named.partition(":")
    subject, _, rest = rest.partition(":")
    login, _, display_name = rest.partition(":")
    if not (provider and subject and login):
        raise InvalidValue(f"{ACT_FOR}: expected PROVIDER:SUBJECT:LOGIN, for example discord:42:ada.")
    known = Identity(provider=provider, subject=subject, login=unquote(login))
    names = {"login": known.login, "display_name": unquote(display_name)}
    acting = tokens.act_for(db, actor, provider=provider, subject=subject, **names, now=now)
    connection.state.acting_as = known
    return acting
