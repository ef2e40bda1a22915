"""Limits on concurrent and waiting requests; further requests are refused at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
from anyio import to_thread

from kernelcup.domain import Actor
from kernelcup.errors import Overloaded, RateLimited

THREADS = 10
"""Requests that one process works on at once. More only wait for each other: Python runs one at a time."""

WRITERS = 7
"""Of these so many may change something. They wait for the database, which has one writer at a time; the
others go on reading meanwhile."""

MOST_WAITING = 100
PATIENCE_S = 5.0
RETRY_S = 2
MOST_OF_ONE = 32
"""Requests that change something, of one person at once."""

MOST_SYNCS = 2
SYNC_RETRY_S = 30


class Room:
    """The places of one process. All but ``person`` is for the thread of its event loop."""

    def __init__(self, *, writers: int = WRITERS, most_waiting: int = MOST_WAITING) -> None:
        self._writers = anyio.Semaphore(writers)
        self._most_waiting = most_waiting
        self._waiting = 0
        self._of: Counter[int] = Counter()
        self._syncs: Counter[int] = Counter()
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise ``Overloaded`` if too many wait already."""
        threads = to_thread.current_default_thread_limiter().statistics()
        if threads.tasks_waiting >= self._most_waiting:
            raise _overloaded()

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[None]:
        """Wait for a place among the writers. Raise ``Overloaded`` if that takes too long."""
        if self._waiting >= self._most_waiting:
            raise _overloaded()
        self._waiting += 1
        try:
            with anyio.fail_after(PATIENCE_S):
                await self._writers.acquire()
        except TimeoutError:
            raise _overloaded() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._writers.release()

    @contextmanager
    def person(self, actor: Actor) -> Iterator[None]:
        """Count a person's pending requests. Raise ``RateLimited`` if there are too many."""
        with self._counted(self._of, actor.user_id or 0, MOST_OF_ONE):
            yield

    @contextmanager
    def sync(self, actor: Actor) -> Iterator[None]:
        """Let a person sync one repository at a time, and few people at once."""
        with self._lock:
            busy = self._syncs.total()
        if busy >= MOST_SYNCS:
            raise Overloaded("Other repositories are being synced now.", retry_after_s=SYNC_RETRY_S)
        with self._counted(self._syncs, actor.user_id or 0, 1):
            yield

    @contextmanager
    def _counted(self, counts: Counter[int], key: int, most: int) -> Iterator[None]:
        with self._lock:
            if counts[key] >= most:
                text = f"You have {most} of these requests under way; wait for one to end."
                raise RateLimited(text, retry_after_s=RETRY_S)
            counts[key] += 1
        try:
            yield
        finally:
            with self._lock:
                counts[key] -= 1
                if not counts[key]:
                    del counts[key]


def _overloaded() -> Overloaded:
    return Overloaded("The server is overloaded now; nothing was done.", retry_after_s=RETRY_S)
