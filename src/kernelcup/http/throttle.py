"""Rate limits by address, for routes without sign-in."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from fastapi import Request
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from kernelcup.domain import Actor
from kernelcup.errors import RateLimited

RETRY_S = 60


def throttled(name: str, per_minute: int) -> Callable[[Request], None]:
    """Return a dependency that limits the request rate of each address."""
    return throttled_by(name, per_minute, address_of)


def throttled_by(name: str, per_minute: int, key: Callable[[Request], str]) -> Callable[[Request], None]:
    """Return a dependency that limits the request rate of each key."""
    item = RateLimitItemPerMinute(per_minute)

    def check(request: Request) -> None:
        if not _limiter(request).hit(item, name, key(request)):
            raise RateLimited(
                f"Too many requests of this kind; {per_minute} a minute are allowed.", retry_after_s=RETRY_S
            )

    return check


def address_of(request: Request) -> str:
    """Return the client address to throttle by; IPv6 clients are grouped by network prefix."""
    return network_of(request.client.host if request.client is not None else "unknown")


def network_of(host: str) -> str:
    """Return an IPv4 address as it is, and the network prefix of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


def watcher_of(request: Request, actor: Actor) -> str:
    """Return the identity of an event stream's reader: a user, else an address."""
    return f"user {actor.user_id}" if actor.user_id is not None else address_of(request)


def _limiter(request: Request) -> FixedWindowRateLimiter:
    state = request.app.state
    if not hasattr(state, "limiter"):
        state.limiter = FixedWindowRateLimiter(MemoryStorage())
    limiter: FixedWindowRateLimiter = state.limiter
    return limiter
