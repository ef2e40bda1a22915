"""Requests to a process and their replies, one at a time; greeting the contestants, and the import."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kernelcup_harness.judge.answers import raise_failure
from kernelcup_harness.judge.verdicts import FAILURES, RunEnds, of_import
from kernelcup_harness.protocol import Reason, Verdict
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import Failed, Hello, Load, M, Message, Ready, pack, unpack, unpack_any

HELLO_S = 120.0


class Line:
    """Sends requests to one process.

    Args:
        channel: To that process.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.waited_s = 0.0
        """Seconds spent waiting for replies since it was last set to zero."""

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
        self._channel.send({**frame, "id": number}, fds, timeout_s)
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
    unpack(Hello, channel.receive(HELLO_S))
    channel.has_greeted = True


def greet(channels: Mapping[str, Channel]) -> None:
    """Wait for the hello of all contestants. No user code has run before it: a failure is never the submission's.

    Raise ``RunEnds``.
    """
    for role, channel in channels.items():
        try:
            hello(channel)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            text = f"the process of the {role} did not start: {error or type(error).__name__}"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text) from error


def load(channels: Mapping[str, Channel], file: str, limit_s: float) -> None:
    """Have the submission imported by several contestants at the same time. Raise ``RunEnds`` if one does not."""
    for role, channel in channels.items():
        try:
            channel.send(pack(Load(file=file)))
        except ChannelClosed as error:
            raise of_import(error, limit_s, role) from None
    for role, channel in channels.items():
        _imported(role, channel, limit_s)


def _imported(role: str, channel: Channel, limit_s: float) -> None:
    try:
        frame = channel.receive(limit_s)
        message = unpack_any((Ready, Failed), frame)
    except (ChannelTimeout, BrokenProtocol, ChannelClosed) as error:
        raise of_import(error, limit_s, role) from None
    if isinstance(message, Failed):
        raise RunEnds(*FAILURES[message.kind], message.text, role=role)
    if frame.get("id") is not None:
        text = "the submission answered out of turn"
        raise RunEnds(Verdict.REJECTED, Reason.PROTOCOL, text, role=role)
