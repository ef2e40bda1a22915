"""Rate limits: buckets of requests with Discord's numbers, on a clock that runs faster."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import Json


@dataclass(frozen=True)
class Limit:
    """So many requests in so many seconds."""

    requests: int
    seconds: float


@dataclass
class _Window:
    since: float
    used: int = 0


@dataclass(frozen=True)
class Hit:
    """A request that was refused because there were too many."""

    method: str
    path: str
    retry_after: float
    scope: str


GLOBAL = Limit(50, 1)
RENAME = Limit(2, 600)
"""The trap of renaming: a limit of its own, not told in the headers, for names and topics."""
DEFAULTS = {
    "POST /channels/{channel}/messages": Limit(5, 5),
    "PATCH /channels/{channel}/messages/{message}": Limit(5, 5),
    "DELETE /channels/{channel}/messages/{message}": Limit(5, 1),
    "PATCH /channels/{channel}": Limit(5, 5),
    "POST /webhooks/{application}/{token}": Limit(5, 2),
    "PATCH /webhooks/{application}/{token}/messages/{message}": Limit(5, 2),
}


@dataclass
class RateLimits:
    """The buckets; one window for each route and channel, guild or token.

    Attributes:
        pace: How many times faster than real time the windows run.
        limits: By method and path; a test may change them.
        hits: Every request that was refused.
        clock: Seconds of real time.
    """

    pace: float = 100.0
    limits: dict[str, Limit] = field(default_factory=lambda: dict(DEFAULTS))
    everything: Limit = GLOBAL
    rename: Limit = RENAME
    hits: list[Hit] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    _windows: dict[str, _Window] = field(default_factory=dict)

    def take(
        self, method: str, route: str, path: str, major: str, *, rename: bool
    ) -> tuple[dict[str, str], Hit | None]:
        """Count a request.

        Returns:
            The headers that tell of the bucket, and the refusal if it is over a limit.
        """
        key = f"{method} {route}"
        headers: dict[str, str] = {}
        hit = None
        if key in self.limits:
            limit = self.limits[key]
            left, reset = self._count(f"{key}:{major}", limit)
            headers = _headers(key, limit, max(left, 0), reset)
            hit = Hit(method, path, reset, "user") if left < 0 else None
        if hit is None and rename:
            left, reset = self._count(f"rename:{major}", self.rename)
            hit = Hit(method, path, reset, "shared") if left < 0 else None
        if hit is None and not route.startswith("/interactions"):
            left, reset = self._count("global", self.everything)
            hit = Hit(method, path, reset, "global") if left < 0 else None
        if hit is not None:
            self.hits.append(hit)
        return headers, hit

    def _count(self, key: str, limit: Limit) -> tuple[int, float]:
        now = self.clock() * self.pace
        window = self._windows.get(key)
        if window is None or now - window.since >= limit.seconds:
            window = self._windows[key] = _Window(now)
        if window.used >= limit.requests:
            return -1, window.since + limit.seconds - now
        window.used += 1
        return limit.requests - window.used, window.since + limit.seconds - now


def refusal(hit: Hit) -> tuple[Json, dict[str, str]]:
    """The body and the headers of a 429. Without ``Via`` discord.py would take it for a ban."""
    is_global = hit.scope == "global"
    body = {
        "message": "You are being rate limited.",
        "retry_after": round(hit.retry_after, 3),
        "global": is_global,
    }
    headers = {"Retry-After": f"{hit.retry_after:.3f}", "Via": "1.1 google", "X-RateLimit-Scope": hit.scope}
    return body, headers | ({"X-RateLimit-Global": "true"} if is_global else {})


def _headers(key: str, limit: Limit, left: int, reset: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit.requests),
        "X-RateLimit-Remaining": str(left),
        "X-RateLimit-Reset": f"{time.time() + reset:.3f}",
        "X-RateLimit-Reset-After": f"{reset:.3f}",
        "X-RateLimit-Bucket": hashlib.sha256(key.encode()).hexdigest()[:32],
    }
