"""Rate limits by address, for routes without sign-in."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request
from limits import RateLimitItemPerMinute
from limits.strategies import FixedWindowRateLimiter

from kernelcup.domain import Actor
from kernelcup.errors import RateLimited
from kernelcup.http.capacity import network_of

RETRY_S = 60


def address_of(request: Request) -> str:
    """Return the client address to throttle by; IPv6 clients are grouped by network prefix."""
    return network_of(request.client.host if request.client is not None else "unknown")


def throttled(
    name: str, per_minute: int, key: Callable[[Request], str] = address_of
) -> Callable[[Request], None]:
    """Return a dependency that limits the request rate of each address, or of another key."""
    item = RateLimitItemPerMinute(per_minute)

    def check(request: Request) -> None:
        limiter: FixedWindowRateLimiter = request.app.state.platform.room.limiter
        if not limiter.hit(item, name, key(request)):
            raise RateLimited(
                f"Too many requests of this kind; {per_minute} a minute are allowed.", retry_after_s=RETRY_S
            )

    return check


def watcher_of(request: Request, actor: Actor) -> str:
    """Return the identity of an event stream's reader: a user, else an address."""
    return f"user {actor.user_id}" if actor.user_id is not None else address_of(request)
