"""Connections: their number, the size of a request's head, and the time to send and to read are bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from kernelcup.http.capacity import HEALTH_PATHS, network_of

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

MOST_CONNECTIONS = 2048
"""Connections of one process; fewer if it may open few files."""
HEALTH_CONNECTIONS = 32
"""Beyond these, for health checks only."""
HEALTH_OF_ONE = 4
"""Of these, from one address."""
HEALTH_HEAD_S = 1.0
"""How long a client may take that is let in for a health check only."""
HEAD_S = 10.0
"""How long a client may take from its connection, or its first byte, to the end of the request's head."""
MOST_HEAD_BYTES = 64 << 10
MOST_HEADERS = 100
SEND_S = 10.0
"""How long a client may take to read an answer, or a piece of a stream, and so much longer as it is long:"""
SLOWEST_BYTES_A_SECOND = 32 << 10
MOST_UNSENT_BYTES = 64 << 20
"""Of all answers that are not sent yet; of one address a quarter, beyond which it loses its oldest connection."""


def _refusal(status: str, text: str, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\n{headers}Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()


REFUSAL = _refusal("503 Service Unavailable", "Too many connections now.\n", "Retry-After: 5\r\n")
TOO_LARGE = _refusal("431 Request Header Fields Too Large", "The request's headers are too large.\n")


class Places:
    """Connections by their address, in the order in which they came. For the thread of the event loop only."""

    def __init__(self) -> None:
        self._doors: dict[str, dict[Door, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, address: str) -> int:
        """Return the number of an address's connections."""
        return len(self._doors.get(address, ()))

    def add(self, door: Door) -> None:
        """Count a connection."""
        self._doors.setdefault(door.address, {})[door] = None
        self._count += 1

    def remove(self, door: Door) -> None:
        """Forget a connection; one that is not counted is ignored."""
        doors = self._doors.get(door.address, {})
        if door in doors:
            del doors[door]
            self._count -= 1
            if not doors:
                del self._doors[door.address]

    def free(self, address: str, most: int, most_of_one: int) -> bool:
        """Return whether an address may have one more, if need be in the place of one that does nothing.

        That one is of the same address, or if there are too many in all, of the address with most of them.
        """
        if self.of(address) < most_of_one:
            if self._count < most:
                return True
            address = max(self._doors, key=self.of, default=address)
        doors = self._doors.get(address, {})
        idle = next((door for door in doors if door.is_idle), None)
        idle = idle or next((door for door in doors if door.unsent), None)
        if idle is not None:
            idle.give_way()
        return idle is not None

    def shorten(self, address: str, most_unsent: int) -> None:
        """End an address's oldest connections that are not read, while it has more bytes that are not sent."""
        unread = [door for door in self._doors.get(address, ()) if door.unsent]
        unsent = sum(door.unsent for door in unread)
        for door in unread:
            if unsent <= most_unsent:
                break
            unsent -= door.unsent
            door.give_way()


class Door(HttpToolsProtocol):
    """A connection. Its head has to be small and come in time, and its answer has to be read in time.

    httptools alone bounds neither: it reads a head without end in quadratic time. h11 bounds heads, but
    lets no code run between a request's head and its start.
    """

    most = MOST_CONNECTIONS
    most_of_one = MOST_CONNECTIONS // 4
    """From one address, unless it is a proxy's."""
    health = HEALTH_CONNECTIONS
    head_s = HEAD_S
    health_head_s = HEALTH_HEAD_S
    send_s = SEND_S
    slowest = SLOWEST_BYTES_A_SECOND
    most_unsent = MOST_UNSENT_BYTES // 4
    """Bytes to one address, unless it is a proxy's."""
    places: Places
    health_places: Places
    count_refusal: Callable[[], None] | None = None
    is_for_health = False
    unsent = 0
    """Bytes that wait for the client to read what was sent before."""
    address = ""
    _is_refused = False
    _is_too_large = False
    _headers = 0
    _head_bytes = 0
    _unused_bytes = 0
    """What came since the last piece of a body or end of a head."""
    _running: RequestResponseCycle | None = None
    _head: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, refuse it at once, or take it for a health check only."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # anything that is not sent is waited for
        self.address = network_of(self.client[0]) if self.client else "unknown"
        if self.places.free(self.address, self.most, self.most_of_one):
            self.places.add(self)
        else:
            self.is_for_health = True
            checks = self.health_places
            if len(checks) >= self.health or checks.of(self.address) >= HEALTH_OF_ONE:
                self._turn_away(REFUSAL)
                return
            checks.add(self)
        self._await_head()

    @property
    def is_idle(self) -> bool:
        """Return whether no request is under way: its head is not complete, or its answer was given."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def data_received(self, data: bytes) -> None:
        """Read data; after a request, the next one's head must arrive in time."""
        if self._is_refused:
            return
        self._unused_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_too_large or self._unused_bytes > MOST_HEAD_BYTES:
            self._turn_away(TOO_LARGE)
        elif self.is_idle and self._head is None and self.timeout_keep_alive_task is None:
            self._await_head()

    def on_message_begin(self) -> None:
        """Begin with a head."""
        super().on_message_begin()
        self._headers = self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of a request's address."""
        if self._fits(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or one behind a body."""
        self._headers += 1
        if self._fits(len(name) + len(value)):
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with a request."""
        self._unused_bytes = 0
        if self._is_refused or self._is_too_large:
            return
        self._stop_waiting()
        if self.is_for_health and self.url.partition(b"?")[0].decode("latin-1") not in HEALTH_PATHS:
            self._turn_away(REFUSAL)
            return
        super().on_headers_complete()
        if self.is_for_health:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a piece of a request's body."""
        self._unused_bytes = 0
        if not self._is_refused and not self._is_too_large:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._unused_bytes = 0
        if not self._is_refused and not self._is_too_large:
            super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read what is sent, as long as its size allows."""
        super().pause_writing()
        size = self.transport.get_write_buffer_size()
        self._sending = self.loop.call_later(self.send_s + size / self.slowest, self.give_way)
        self.unsent = size
        self.places.shorten(self.address, self.most_unsent)

    def resume_writing(self) -> None:
        """Note that all was sent."""
        self._stop_sending()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._stop_waiting()
        self._stop_sending()
        self._leave()
        self.pipeline.clear()
        if self._running is not None:
            # uvicorn marks the newest request only, which may wait for this one.
            self._running.disconnected = True
            if (place := self._running.scope["state"].get("place")) is not None and place.turn is not None:
                place.turn.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End a stream, whose reader comes again; another answer is finished."""
        if not self.is_idle and self._running is not None and self._running.scope["state"].get("is_stream"):
            self.transport.close()
        else:
            super().shutdown()

    def give_way(self) -> None:
        """End at once, whatever is not sent."""
        self._leave()
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _fits(self, more: int) -> bool:
        self._head_bytes += more
        if self._headers > MOST_HEADERS or self._head_bytes > MOST_HEAD_BYTES:
            self._is_too_large = True
        return not self._is_too_large

    def _leave(self) -> None:
        self.places.remove(self)
        self.health_places.remove(self)

    def _await_head(self) -> None:
        seconds = self.health_head_s if self.is_for_health else self.head_s
        self._head = self.loop.call_later(seconds, self._is_late)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _stop_sending(self) -> None:
        self.unsent = 0
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _is_late(self) -> None:
        self._head = None
        if self.is_for_health:
            self._turn_away(REFUSAL)
        elif not self.transport.is_closing():
            self.transport.close()

    def _turn_away(self, answer: bytes) -> None:
        self._is_refused = True
        if self.count_refusal is not None:
            self.count_refusal()
        if not self.is_idle:
            self.give_way()  # another answer is under way
        elif not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()


def door(files: int, *, behind_proxy: bool) -> type[Door]:
    """Return the connection class for a process with a given limit on open files.

    Half of the files are for the database, jobs and the log.
    """
    most = min(MOST_CONNECTIONS, max(files // 2, 1))
    parts = 1 if behind_proxy else 4
    of_one = {"most_of_one": max(most // parts, 1), "most_unsent": MOST_UNSENT_BYTES // parts}
    return type("Door", (Door,), {"most": most, **of_one})
