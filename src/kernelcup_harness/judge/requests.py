"""Requests to a process and their replies, one at a time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from kernelcup_harness.judge.answers import expect
from kernelcup_harness.wire.channel import BrokenProtocol, Channel

HELLO_S = 120.0


class MachineFailed(Exception):
    """A process of the harness itself failed: the fault of the machine or of the harness, not of a submission."""


class Line:
    """Sends requests to one process.

    Args:
        channel: To that process.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.waited_s = 0.0
        """Seconds spent waiting for replies since it was last set to zero."""

    def ask(
        self,
        frame: dict[str, Any],
        expected: str,
        *,
        timeout_s: float,
        fds: Sequence[int] = (),
        arenas: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the reply, which has to have the expected type.

        Raise ``CallFailed`` for a contestant's failure, and what the channel raises.
        """
        reply = self.reply(frame, timeout_s=timeout_s, fds=fds, arenas=arenas)
        expect(reply, expected)
        return reply

    def reply(
        self,
        frame: dict[str, Any],
        *,
        timeout_s: float,
        fds: Sequence[int] = (),
        arenas: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the reply of any type.

        Args:
            frame: The request.
            timeout_s: For sending it and for the reply.
            fds: Descriptors that go with it.
            arenas: Names of the shared memory behind these descriptors, if it is memory for calls.
        """
        if self._channel.has_pending():
            raise BrokenProtocol("an unexpected frame")
        number, began = secrets.randbits(53), time.monotonic()
        self._channel.send({**frame, "id": number, "arenas": list(arenas)}, fds, timeout_s)
        try:
            reply = self._channel.receive(max(0.0, timeout_s - (time.monotonic() - began)))
        finally:
            self.waited_s += time.monotonic() - began
        if reply.get("id") != number:
            raise BrokenProtocol("an answer to another request")
        return reply


def hello(channel: Channel) -> None:
    """Wait for a contestant's hello, which comes once."""
    if channel.has_greeted:
        return
    frame = channel.receive(HELLO_S)
    if frame.get("type") != "hello":
        raise BrokenProtocol("a contestant that does not send hello")
    channel.has_greeted = True
