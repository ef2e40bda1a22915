"""Read the pipes of a child process as they fill, with size limits, a time limit and cancellation."""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from kernelcup.errors import BadReport, LaunchCancelled, LaunchTimeout

LARGEST_LINE_BYTES = 256 << 20
KEPT_LOG_BYTES = 16 << 10

_CHUNK_BYTES = 1 << 20
_LOOK_UP_S = 0.1
"""How long a cancellation may go unnoticed."""


class LineBuffer:
    """Joins chunks into lines, without reading a byte twice."""

    def __init__(self, largest: int = LARGEST_LINE_BYTES) -> None:
        self._largest = largest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Return the lines that the chunk completes. Raise ``BadReport`` for one that is too long."""
        *complete, rest = chunk.split(b"\n")
        for end in complete:
            self._add(end)
            yield self._take()
        self._add(rest)

    def finish(self) -> bytes:
        """Return the rest after the last line break."""
        return self._take()

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._largest:
            raise BadReport(f"the harness wrote a line of more than {self._largest:,} bytes")
        self._parts.append(part)

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line


class Tail:
    """Keeps the end of a log."""

    def __init__(self, kept: int = KEPT_LOG_BYTES) -> None:
        self._kept = kept
        self._bytes = b""

    def add(self, chunk: bytes) -> None:
        """Append a chunk, and drop the oldest bytes beyond the limit."""
        self._bytes = (self._bytes + chunk[-self._kept :])[-self._kept :]

    def drain(self, log: IO[bytes]) -> None:
        """Append the current contents of a pipe, without waiting for more."""
        os.set_blocking(log.fileno(), False)
        with suppress(BlockingIOError):
            while chunk := os.read(log.fileno(), _CHUNK_BYTES):
                self.add(chunk)

    @property
    def text(self) -> str:
        """The kept end of the log, as text."""
        return self._bytes.decode("utf-8", "replace").strip()


def read_lines(
    output: IO[bytes], log: IO[bytes], tail: Tail, *, until: float, cancelled: threading.Event
) -> Iterator[bytes]:
    """Yield the lines of ``output`` as they come, and drain ``log`` into the tail meanwhile.

    Args:
        until: The time, by ``time.monotonic``, after which waiting ends.

    Raises:
        LaunchTimeout, LaunchCancelled, BadReport: Waiting ended before the pipes were closed.
    """
    buffer = LineBuffer()
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        selector.register(log, selectors.EVENT_READ)
        while output in _open(selector):
            check_time(until=until, cancelled=cancelled)
            for key, _ in selector.select(_LOOK_UP_S):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is log:
                    tail.add(chunk)
                else:
                    yield from buffer.feed(chunk)
    yield buffer.finish()


def check_time(*, until: float, cancelled: threading.Event) -> None:
    """Raise ``LaunchCancelled`` or ``LaunchTimeout`` if waiting should end."""
    if cancelled.is_set():
        raise LaunchCancelled("cancelled while the harness was running")
    if time.monotonic() > until:
        raise LaunchTimeout("the harness made no report in time")


def _open(selector: selectors.BaseSelector) -> set[object]:
    return {key.fileobj for key in selector.get_map().values()}
