"""The time of the loopback Discord: it stands still until a test moves it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
DISCORD_EPOCH_MS = 1_420_070_400_000


class Timer:
    """Something that is due at a moment; it can be called off."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Call it off."""
        self.action = None


class VirtualClock:
    """A clock that only `advance` moves; what falls due on the way happens in order."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._due: list[tuple[datetime, int, Timer]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return self._now

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Do something when so many seconds have passed."""
        timer = Timer(action)
        heapq.heappush(self._due, (self._now + timedelta(seconds=seconds), next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        target = self._now + timedelta(seconds=seconds)
        while self._due and self._due[0][0] <= target:
            moment, _, timer = heapq.heappop(self._due)
            self._now = max(self._now, moment)
            if timer.action is not None:
                timer.action()
        self._now = target


class Snowflakes:
    """Ids as Discord gives them: the time and a counter, 19 digits in these years."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._count = itertools.count(1)

    def next(self) -> int:
        """An id that no other thing has, newer than every earlier one."""
        milliseconds = int(self._clock.now().timestamp() * 1000) - DISCORD_EPOCH_MS
        return (milliseconds << 22) + next(self._count)
