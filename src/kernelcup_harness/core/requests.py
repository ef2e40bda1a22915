"""Requests to a process and their replies, one at a time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from kernelcup_harness.core.answer import raise_failure
from kernelcup_harness.wire.channel import BrokenProtocol, Channel
from kernelcup_harness.wire.messages import Hello, M, Message, pack, unpack

HELLO_S = 120.0


class Line:
    """Sends requests to one process.

    Args:
        channel: To that process.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.waited_s = 0.0
        """Seconds spent on requests since it was last set to zero: until they are read, and for their replies."""

    def ask(self, request: Message, expected: type[M], *, timeout_s: float, fds: Sequence[int] = ()) -> M:
        """Return the reply, which has to have the expected type.

        Raise ``CallFailed`` for a contestant's failure, and what the channel raises.
        """
        frame = self.reply(pack(request), timeout_s=timeout_s, fds=fds)
        raise_failure(frame)
        return unpack(expected, frame)

    def reply(self, frame: dict[str, Any], *, timeout_s: float, fds: Sequence[int] = ()) -> dict[str, Any]:
        """Return the frame of the reply, of any type, without reading it: a clock may be running.

        Args:
            frame: The request, packed.
            timeout_s: For sending it and for the reply.
            fds: Descriptors that go with it.
        """
        if self._channel.has_pending():
            raise BrokenProtocol("an unexpected frame")
        number, began = secrets.randbits(53), time.monotonic()
        try:
            # A frame that the other side does not read is waited for as well.
            self._channel.send({**frame, "id": number}, fds, timeout_s)
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
    unpack(Hello, channel.receive(HELLO_S))
    channel.has_greeted = True
