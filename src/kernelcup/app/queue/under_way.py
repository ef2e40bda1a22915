"""The attempts of a dispatcher that are under way: one loop takes the news of all of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from kernelcup.app.queue.attempt import Attempt
from kernelcup.domain import Device
from kernelcup.launchers.base import Launcher, Polled

logger = logging.getLogger(__name__)


class UnderWay:
    """Attempts by the launcher that works on them.

    Args:
        launchers: By the name that devices refer to.
        wake: Called from any thread when a launcher has news.
    """

    def __init__(self, launchers: Mapping[str, Launcher], *, wake: Callable[[], None]) -> None:
        self._launchers = launchers
        self._wake = wake
        self._attempts: dict[str, list[Attempt]] = {name: [] for name in launchers}
        self._with_news: set[str] = set()
        self._lock = threading.Lock()
        self._troubles: dict[str, str] = {}

    def __iter__(self) -> Iterator[Attempt]:
        return iter([attempt for some in self._attempts.values() for attempt in some])

    def __bool__(self) -> bool:
        return any(self._attempts.values())

    def waker(self, launcher: str) -> Callable[[], None]:
        """Return the function by which a launcher says that it has news."""
        return partial(self._woken, launcher)

    def add(self, attempt: Attempt, launcher: str) -> None:
        """Take the news of an attempt from now on."""
        if not attempt.is_over:
            self._attempts[launcher].append(attempt)

    def running(self, device: Device) -> int:
        """Return how many attempts run on a device; those that only compile need none yet."""
        found = [each for each in self._attempts[device.launcher] if not each.limit.is_compiling]
        return sum(each.lease.job.device == device.name for each in found)

    def poll(self, *, every: bool) -> list[Attempt]:
        """Take the news of the launchers that said that they have some, or of every one; return what ended."""
        with self._lock:
            named, self._with_news = self._with_news, set()
        ended = []
        for name, attempts in self._attempts.items():
            if attempts and (every or name in named):
                self._poll(name, attempts)
                ended += self._remove_ended(name)
        return ended

    def remove_ended(self) -> list[Attempt]:
        """Forget the attempts that are over, and return them."""
        return [each for name in self._attempts for each in self._remove_ended(name)]

    def _poll(self, name: str, attempts: Sequence[Attempt]) -> None:
        news: Mapping[str, Polled] = {}
        try:
            news = self._launchers[name].poll([each.call for each in attempts if each.call])
            self._troubles.pop(name, None)
        except Exception as error:  # the calls go on, and each has its limit
            if self._troubles.get(name) != str(error):
                self._troubles[name] = str(error)
                logger.warning("launcher %s: %s; asking again", name, error)
        for attempt in attempts:
            attempt.take(news.get(attempt.call, Polled()))

    def _remove_ended(self, name: str) -> list[Attempt]:
        attempts = self._attempts[name]
        self._attempts[name] = [each for each in attempts if not each.is_over]
        return [each for each in attempts if each.is_over]

    def _woken(self, name: str) -> None:
        with self._lock:
            self._with_news.add(name)
        self._wake()
