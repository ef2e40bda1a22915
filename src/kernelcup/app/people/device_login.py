"""Sign in a command line on one machine through a browser on any other (device authorization, RFC 8628).

The command line shows a short code, and the person types it where they are signed in. No link carries a
code, so an attacker gains nothing by sending a victim a link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from kernelcup.app import access
from kernelcup.app.people import secret_values
from kernelcup.app.people.queries import one_time_codes, users
from kernelcup.app.people.queries.one_time_codes import PendingLogin, PolledLogin
from kernelcup.app.people.tokens import issue, scopes_of
from kernelcup.domain import Actor, Scope
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue, NotFound, ScopeMissing

LASTS = timedelta(minutes=15)
INTERVAL_S = 5
EARLY_S = 1
"""How much earlier than agreed a poll may come, to allow for network jitter."""
TOKEN_LASTS = timedelta(days=180)
MOST_WAITING = 2000
"""At a time, of all clients, so that the database cannot be filled without signing in."""
LONGEST_CLIENT = 120

Status = Literal["pending", "slow_down", "denied", "expired", "approved"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceLogin:
    """The reply to a command line that asks to be signed in."""

    device_code: str
    """The command line's secret for polling."""
    user_code: str
    """The code that the person types."""
    expires_at: datetime
    interval_s: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PollResult:
    """The state of a command line's sign-in."""

    status: Status
    secret: str | None = None
    """The token, which is given only once."""
    user: str | None = None


def start_device_login(db: Database, *, client: str, scopes: Iterable[Scope], now: datetime) -> DeviceLogin:
    """Start the sign-in of a command line.

    Args:
        client: The client's description of itself and its address, shown to the person.
        scopes: The scopes that it asks for.

    If too many are pending, the one that has not polled for the longest is removed. So starting many does
    not keep others from signing in, and a client that keeps polling keeps its place.

    Raises:
        InvalidValue: There is no scope, a scope that only a token made by hand may have, or no name.
    """
    wanted = frozenset(scopes)
    if not wanted or Scope.ACT in wanted:
        allowed = ", ".join(scope for scope in Scope if scope is not Scope.ACT)
        raise InvalidValue(f"Scopes of a sign-in: expected one or more of {allowed}.")
    shown = "".join(letter for letter in client if letter.isprintable()).strip()[:LONGEST_CLIENT]
    if not shown:
        raise InvalidValue("The client needs a name, which is shown to the person who approves it.")
    device_code = secret_values.new_secret()
    with db.write() as session:
        one_time_codes.remove_expired(session, now=now)
        one_time_codes.remove_silent(session, keep=MOST_WAITING - 1)
        while True:
            pending = PendingLogin(
                user_code=secret_values.new_code(),
                client=shown,
                scopes=wanted,
                created_at=now,
                expires_at=now + LASTS,
            )
            if one_time_codes.insert_device(session, secret_values.hash_of(device_code), pending):
                break
    return DeviceLogin(
        device_code=device_code,
        user_code=pending.user_code,
        expires_at=pending.expires_at,
        interval_s=INTERVAL_S,
    )


def find_device_login(db: Database, user_code: str, now: datetime) -> PendingLogin:
    """Return the pending sign-in with this code.

    Raises:
        NotFound: The code is unknown, expired, or was already approved or denied.
    """
    with db.read() as session:
        pending = one_time_codes.find_pending(session, secret_values.read_code(user_code), now=now)
    if pending is None:
        raise _no_code()
    return pending


def approve_device_login(db: Database, actor: Actor, user_code: str, *, approve: bool, now: datetime) -> None:
    """Sign a command line in as the actor, or refuse it. It gets no scope that the actor lacks.

    Raises:
        SignInNeeded, ScopeMissing: The actor is not signed in, or their token lacks the scope.
        NotFound: No sign-in with that code is pending.
    """
    user_id = access.account(actor, Scope.READ)
    code = secret_values.read_code(user_code)
    with db.write() as session:
        pending = one_time_codes.find_pending(session, code, now=now)
        if pending is None:
            raise _no_code()
        if not approve:
            decided = one_time_codes.deny(session, code, now=now)
        else:
            granted = pending.scopes & actor.scopes & scopes_of(actor.role)
            if not granted:
                raise ScopeMissing("You have none of the rights that this client asks for.")
            decided = one_time_codes.approve(session, code, user_id=user_id, scopes=granted, now=now)
        if not decided:
            raise _no_code()


def poll_device_login(db: Database, device_code: str, *, now: datetime) -> PollResult:
    """Return the state of a sign-in; once it is approved, with the token, which is handed out only once."""
    hashed = secret_values.hash_of(device_code)
    with db.write() as session:
        polled = one_time_codes.find_polled(session, hashed)
        if polled is None or polled.expires_at <= now:
            return PollResult(status="expired")
        if polled.user_id is None and not polled.denied:
            one_time_codes.note_poll(session, hashed, now=now)
            return PollResult(status="slow_down" if _too_early(polled, now) else "pending")
        if not one_time_codes.take_device(session, hashed):
            return PollResult(status="expired")
        user = users.get(session, polled.user_id) if polled.user_id is not None else None
        if polled.denied or user is None:
            return PollResult(status="denied")
        _, plain = issue(
            session,
            user.id,
            kind="api",
            name=polled.client,
            scopes=polled.scopes,
            now=now,
            expires_at=now + TOKEN_LASTS,
        )
        return PollResult(status="approved", secret=plain, user=user.name)


def _too_early(polled: PolledLogin, now: datetime) -> bool:
    if polled.polled_at is None:
        return False
    return now - polled.polled_at < timedelta(seconds=INTERVAL_S - EARLY_S)


def _no_code() -> NotFound:
    return NotFound(
        "No client is waiting with this code; it may have expired. Start again there for a new one."
    )
