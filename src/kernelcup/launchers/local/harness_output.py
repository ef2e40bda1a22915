"""Read the events and the report that a harness writes, until it has ended.

The pipes of the child process are read as they fill, with size limits, a time limit and cancellation.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from kernelcup.clean_text import load_json
from kernelcup.errors import BadReport, LaunchCancelled, LaunchTimeout
from kernelcup.launchers.base import Event
from kernelcup.launchers.local.warm_runners import kill_group
from kernelcup_harness.protocol import ProtocolError, RunReport, from_json

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


EXIT_S = 10.0
"""How long the harness may take to end once it has closed its output."""
OTHER_LINES = ({"ready": True}, {"built": True})
"""A harness was still starting when it got its job, or it only compiled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What a harness wrote."""

    report: RunReport | None
    code: int
    log: str
    """The end of its standard error."""


def read_output(
    child: subprocess.Popen[bytes],
    *,
    until: float,
    cancelled: threading.Event,
    on_event: Callable[[Event], None],
) -> Output:
    """Follow a harness to its end; its process group is gone when this returns.

    Args:
        until: When it must have ended, by ``time.monotonic``.

    Raises:
        BadReport: It wrote something else than events and a report.
        LaunchTimeout, LaunchCancelled: It did not end in time, or ``cancelled`` was set.
    """
    assert child.stdout is not None
    assert child.stderr is not None
    tail = Tail()
    lines = read_lines(child.stdout, child.stderr, tail, until=until, cancelled=cancelled)
    report = _last_report(lines, on_event)
    code = _end(child, tail)
    return Output(report=report, code=code, log=tail.text)


def _last_report(lines: Iterator[bytes], on_event: Callable[[Event], None]) -> RunReport | None:
    for line in lines:
        if not line.strip():
            continue
        try:
            message = load_json(line)
        except (ValueError, RecursionError) as error:
            raise BadReport(f"the harness wrote a line that is not JSON: {line[:200]!r}") from error
        if message in OTHER_LINES:
            continue
        if isinstance(message, dict) and "report" in message:
            return _decoded(message["report"])
        if not isinstance(message, dict) or "event" not in message:
            raise BadReport(f"the harness wrote neither an event nor a report: {line[:200]!r}")
        on_event(message)
    return None


def _decoded(body: object) -> RunReport:
    try:
        return from_json(RunReport, body)
    except (ProtocolError, RecursionError) as error:
        raise BadReport(f"the report cannot be read: {error}") from error


def _end(child: subprocess.Popen[bytes], tail: Tail) -> int:
    """Wait briefly for the harness to end by itself, then end its group; return its exit code."""
    until = time.monotonic() + EXIT_S
    # Do not reap it before the group is killed: its number could be reused by then.
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            break
        time.sleep(0.005)
    kill_group(child)
    code = child.wait()
    assert child.stderr is not None
    tail.drain(child.stderr)
    return code
