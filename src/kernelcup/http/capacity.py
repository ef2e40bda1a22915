"""Limits on concurrent and waiting requests; further requests are refused at once."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import anyio

from kernelcup.domain import Actor
from kernelcup.errors import Overloaded, RateLimited

WRITERS = 7
"""Requests that may change something at once. They wait for the database, which has one writer at a time; the
others go on reading meanwhile."""

READERS = 10
"""Requests that read at once."""

HEAVY_READERS = 2
"""Reads of a whole table at once. They take none of the places of other reads."""

THREADS = 12
"""Threads that serve requests. More only wait for each other: Python runs one at a time."""

MOST_WAITING = 100
PATIENCE_S = 5.0
RETRY_S = 2
MOST_OF_ONE = 32
"""Requests that change something, of one person at once."""
MOST_HEAVY_OF_ONE = 2
"""Heavy reads of one person, or of one address, at once."""

CACHED_BYTES = 64 << 20
CACHED_S = 60.0
"""A name that a person changes is in cached tables so much later."""

MOST_SYNCS = 2
SYNC_RETRY_S = 30

Key = TypeVar("Key", int, str)


class Gate:
    """A number of places, and of requests that wait for one. For the thread of the event loop only."""

    def __init__(self, places: int, most_waiting: int) -> None:
        self._places = anyio.Semaphore(places)
        self._most_waiting = most_waiting
        self._waiting = 0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Wait for a place. Raise ``Overloaded`` if that takes too long, or if too many wait already."""
        if self._waiting >= self._most_waiting:
            raise _overloaded()
        self._waiting += 1
        try:
            with anyio.fail_after(PATIENCE_S):
                await self._places.acquire()
        except TimeoutError:
            raise _overloaded() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()


class Cache:
    """Large answers, kept for seconds and within a number of bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[float, bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the answer of this key; make it if it is not kept."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:  # who asks for the same meanwhile waits for it
            kept = self._kept.get(key)
            if kept is not None and time.monotonic() - kept[0] < CACHED_S:
                return kept[1]
            made = make()
            self._keep(key, made)
        return made

    def _keep(self, key: Hashable, made: bytes) -> None:
        with self._lock:
            self._making.pop(key, None)
            self._kept[key] = (time.monotonic(), made)
            self._kept.move_to_end(key)
            while sum(len(each) for _, each in self._kept.values()) > CACHED_BYTES:
                self._kept.popitem(last=False)


class Room:
    """The places of one process. All but ``person`` and the cache is for the thread of its event loop."""

    def __init__(
        self,
        *,
        writers: int = WRITERS,
        readers: int = READERS,
        heavy_readers: int = HEAVY_READERS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.writers = Gate(writers, most_waiting)
        self.readers = Gate(readers, most_waiting)
        self.cache = Cache()
        self._heavy_readers = Gate(heavy_readers, most_waiting)
        self._of: Counter[int] = Counter()
        self._heavy_of: Counter[str] = Counter()
        self._syncs: Counter[int] = Counter()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def heavy_reader(self, reader: str) -> AsyncIterator[None]:
        """Wait for a place for a heavy read.

        Raises:
            RateLimited: This reader has the maximum number of heavy reads under way.
            Overloaded: It takes too long, or too many wait already.
        """
        with self._counted(self._heavy_of, reader, MOST_HEAVY_OF_ONE):
            async with self._heavy_readers.enter():
                yield

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
            raise Overloaded("Other requests that take long are under way now.", retry_after_s=SYNC_RETRY_S)
        with self._counted(self._syncs, actor.user_id or 0, 1):
            yield

    @contextmanager
    def _counted(self, counts: Counter[Key], key: Key, most: int) -> Iterator[None]:
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
