"""The judge's requests to the timer and to a contestant about the window: a frame, descriptors, one reply."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from kernelcup_harness import wire
from kernelcup_harness.answers import expect
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.replay.timer import Failure
from kernelcup_harness.trusted import TrustedFailed


class TimerFailed(TrustedFailed):
    """The timer failed: a fault of the machine or of the harness."""


class TimerRefused(Exception):
    """The timer refused a request, with the name of a failure.

    Args:
        name: The failure.
        text: The timer's explanation.
    """

    def __init__(self, name: Failure, text: str) -> None:
        super().__init__(f"{name.value}: {text}")
        self.name = name
        self.text = text


class Line:
    """Sends requests to one process, one at a time.

    Args:
        channel: To that process.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.waited_s = 0.0
        """Seconds spent waiting for replies."""

    def ask(
        self, frame: dict[str, Any], expected: str, *, timeout_s: float, fds: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Return the reply, which has to have the expected type.

        Raise ``CallFailed`` for a contestant's failure, and what the channel raises.
        """
        reply = self._reply(frame, timeout_s, fds)
        expect(reply, expected)
        return reply

    def _reply(self, frame: dict[str, Any], timeout_s: float, fds: Sequence[int]) -> dict[str, Any]:
        if self._channel.has_pending():
            raise BrokenProtocol("an unexpected frame")
        number, began = secrets.randbits(53), time.monotonic()
        self._channel.send({**frame, "id": number, "arenas": []}, fds, timeout_s)
        try:
            reply = self._channel.receive(max(0.0, timeout_s - (time.monotonic() - began)))
        finally:
            self.waited_s += time.monotonic() - began
        if reply.get("id") != number:
            raise BrokenProtocol("an answer to another request")
        return reply


class TimerLine(Line):
    """Sends requests to the timer, whose failures have names."""

    def greet(self, timeout_s: float) -> str:
        """Wait for its hello; return why it cannot use the device, empty if it can. Raise :class:`TimerFailed`."""
        try:
            frame = self._channel.receive(timeout_s)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise TimerFailed(f"the timer does not answer: {error or type(error).__name__}") from error
        self._channel.has_greeted = True
        return str(frame.get("trouble") or "")

    def ask(
        self, frame: dict[str, Any], expected: str, *, timeout_s: float, fds: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Return the reply of the expected type. Raise :class:`TimerRefused` or :class:`TimerFailed`."""
        try:
            reply = self._reply(frame, timeout_s, fds)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise TimerFailed(f"the timer does not answer: {error or type(error).__name__}") from error
        if reply.get("type") == "fail":
            name = next((each for each in Failure if each == reply.get("name")), Failure.BAD_REQUEST)
            raise TimerRefused(name, str(reply.get("text"))[:2_000])
        if reply.get("type") != expected:
            raise TimerFailed(f"the timer answers {str(reply.get('type'))[:40]!r} to {expected!r}")
        return reply


def times_of(reply: dict[str, Any]) -> list[float]:
    """Return the nanoseconds of a reply. Raise :class:`TimerFailed` if they are not times."""
    found = reply.get("ns")
    if not isinstance(found, list) or not found or not all(wire.is_finite_number(each) for each in found):
        raise TimerFailed("the timer answers without times")
    return [float(each) for each in found]
