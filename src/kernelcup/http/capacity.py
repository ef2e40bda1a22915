"""Places for requests; addresses that wait for one take turns."""

from __future__ import annotations

import asyncio
import ipaddress
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from kernelcup.domain import Actor
from kernelcup.errors import Overloaded, RateLimited

WRITERS = 7
"""Requests that may change something at once. They wait for the database, which has one writer at a time; the
others go on reading meanwhile."""

READERS = 10
"""Requests at once that read, or whose sender is looked up."""
READERS_OF_ONE = 4
"""Of these, from one address. More would not be faster: Python runs one thread at a time."""

SLOW_READERS = 2
"""Reads at once that take more than this of the processor, on average of their kind. They take none of the places
of other reads, and an address has one of them."""
SLOW_S = 0.2

THREADS = 12
"""Threads that serve requests. More only wait for each other: Python runs one at a time."""

HEALTH_PATHS = ("/livez", "/healthz", "/readyz")
CHECKS = 8
"""Requests at once of one of these paths, half of them from one address. No others take their places."""

PATIENCE_S = 1.0
"""Processor time of this process that a request waits for its place at most. On a busy machine that takes longer."""
STANDSTILL_S = 10.0
"""Seconds that it waits at most, while nothing is served or others keep the processor busy."""
RETRY_S = 2
MOST_OF_ONE = 32
"""Requests that change something, of one person at once."""

CACHED_BYTES = 64 << 20
CACHED_S = 60.0
"""A name that a person changes is in cached tables so much later."""

MOST_SYNCS = 2
SYNC_RETRY_S = 30

P = ParamSpec("P")
R = TypeVar("R")


def network_of(host: str) -> str:
    """Return an IPv4 address, also one mapped to IPv6, as it is, and the network prefix of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    address = getattr(address, "ipv4_mapped", None) or address
    bits = 32 if address.version == 4 else 64
    return str(ipaddress.ip_network((address, bits), strict=False).network_address)


class Gate:
    """A number of places, some of them for one address. For the thread of the event loop only."""

    def __init__(self, places: int, most_of_one: int) -> None:
        self.held: Counter[str] = Counter()
        self._places = places
        self._most_of_one = most_of_one
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """By the addresses that wait, in the order of their turns."""

    async def enter(self, address: str, turn: asyncio.Future[None]) -> None:
        """Take a place when the turn comes; give up if the turn is cancelled.

        Raises:
            RateLimited: It takes too long, and the address holds as many as it may.
            Overloaded: It takes too long.
        """
        line = self._lines.setdefault(address, deque())
        line.append(turn)
        self._serve()
        end_s, end = time.process_time() + PATIENCE_S, time.monotonic() + STANDSTILL_S
        try:
            while not turn.done():
                left_s = min(end_s - time.process_time(), end - time.monotonic())
                if left_s <= 0.0:
                    raise self._refusal(address)
                await asyncio.wait({turn}, timeout=max(left_s, 0.05))
            turn.result()
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(address)  # it came at the same moment
            raise
        finally:
            if turn in line:
                line.remove(turn)
                if not line:
                    del self._lines[address]

    def leave(self, address: str) -> None:
        """Give a place to the next request."""
        self.held[address] -= 1
        self.held += Counter()  # without those that hold none
        self._serve()

    def _serve(self) -> None:
        """Fill the free places: one request of an address, then those of others."""
        while self.held.total() < self._places:
            key = next((each for each in self._lines if self.held[each] < self._most_of_one), None)
            if key is None:
                return
            line = self._lines.pop(key)
            turn = line.popleft()
            if line:
                self._lines[key] = line  # behind the others
            if not turn.done():
                self.held[key] += 1
                turn.set_result(None)

    def _refusal(self, address: str) -> RateLimited:
        if self.held[address] >= self._most_of_one < self._places:
            text = "Your address has too many requests at once; nothing was done."
            return RateLimited(text, retry_after_s=RETRY_S)
        return Overloaded("The server is overloaded now; nothing was done.", retry_after_s=RETRY_S)


class Place:
    """The place of a request, until its answer begins or its body is read."""

    turn: asyncio.Future[None] | None = None
    """What it waits for at a gate, or waited for last; if this is cancelled, the request ends."""

    def __init__(self, address: str) -> None:
        self.used_s = 0.0
        """The processor time of its functions, since it has this place."""
        self._address = address
        self._gate: Gate | None = None

    async def take(self, gate: Gate) -> None:
        """Take a place, instead of the one that it has."""
        self.leave()
        self.turn = asyncio.get_running_loop().create_future()
        await gate.enter(self._address, self.turn)
        self._gate, self.used_s = gate, 0.0

    def leave(self) -> None:
        """Give the place back, if it has one."""
        gate, self._gate = self._gate, None
        if gate is not None:
            # The loop looks at its sockets before it goes on with the next ones.
            asyncio.get_running_loop().call_soon(gate.leave, self._address)


PLACE: ContextVar[Place] = ContextVar("PLACE")
"""Of the request that is served."""


def metered(function: Callable[P, R]) -> Callable[P, R]:
    """Have the processor time of a function counted for its request."""

    @wraps(function)
    def call(*args: P.args, **names: P.kwargs) -> R:
        begun = time.thread_time()
        try:
            return function(*args, **names)
        finally:
            if (place := PLACE.get(None)) is not None:
                place.used_s += time.thread_time() - begun

    return call


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
    """The places of one process. All but the cache is for the thread of its event loop."""

    def __init__(self, *, writers: int = WRITERS, readers: int = READERS) -> None:
        self.writers = Gate(writers, writers)
        self.readers = Gate(readers, READERS_OF_ONE)
        self.slow_readers = Gate(SLOW_READERS, SLOW_READERS // 2)
        self.checks = {path: Gate(CHECKS, CHECKS // 2) for path in HEALTH_PATHS}
        self.taken_s: dict[Hashable, float] = {}
        """The processor time that reads take on average, by the function of their route."""
        self.cache = Cache()
        self.limiter = FixedWindowRateLimiter(MemoryStorage())
        self.parsers = CapacityLimiter(2)
        """Threads that read large JSON."""
        self._of: Counter[int] = Counter()
        self._syncs: Counter[int] = Counter()

    @contextmanager
    def person(self, actor: Actor) -> Iterator[None]:
        """Count a person's pending requests. Raise ``RateLimited`` if there are too many."""
        with self._counted(self._of, actor, MOST_OF_ONE):
            yield

    async def aside(self, actor: Actor, work: Callable[[], R]) -> R:
        """Do what may take minutes in a thread of its own: one of a person, and few at once.

        Raises:
            RateLimited: This person has one under way.
            Overloaded: Others have.
        """
        if self._syncs.total() >= MOST_SYNCS:
            raise Overloaded("Other requests that take long are under way now.", retry_after_s=SYNC_RETRY_S)
        with self._counted(self._syncs, actor, 1):
            return await to_thread.run_sync(work, limiter=CapacityLimiter(1))

    @contextmanager
    def _counted(self, counts: Counter[int], actor: Actor, most: int) -> Iterator[None]:
        key = actor.user_id or 0
        if counts[key] >= most:
            text = f"You have {most} of these requests under way; wait for one to end."
            raise RateLimited(text, retry_after_s=RETRY_S)
        counts[key] += 1
        try:
            yield
        finally:
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
