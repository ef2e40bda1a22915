"""The judge's requests to the timer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from kernelcup_harness.judge.requests import Line, MachineFailed
from kernelcup_harness.window.failures import Failure
from kernelcup_harness.wire import values
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout, text_of

LONGEST_NS = 1 << 62


class TimerFailed(MachineFailed):
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


class TimerLine(Line):
    """Sends requests to the timer, whose failures have names."""

    def greet(self, timeout_s: float) -> str:
        """Wait for its hello; return why it cannot use the device, empty if it can. Raise :class:`TimerFailed`."""
        try:
            frame = self._channel.receive(timeout_s)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise TimerFailed(f"the timer does not answer: {error or type(error).__name__}") from error
        self._channel.has_greeted = True
        return text_of(frame.get("trouble"), 2_000)

    def ask(
        self,
        frame: dict[str, Any],
        expected: str,
        *,
        timeout_s: float,
        fds: Sequence[int] = (),
        arenas: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the reply of the expected type. Raise :class:`TimerRefused` or :class:`TimerFailed`."""
        try:
            reply = self.reply(frame, timeout_s=timeout_s, fds=fds, arenas=arenas)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise TimerFailed(f"the timer does not answer: {error or type(error).__name__}") from error
        if reply.get("type") == "fail":
            name = next((each for each in Failure if each == reply.get("name")), Failure.BAD_REQUEST)
            raise TimerRefused(name, text_of(reply.get("text"), 2_000))
        if reply.get("type") != expected:
            raise TimerFailed(f"the timer answers {text_of(reply.get('type'), 40)!r} to {expected!r}")
        return reply


def times_of(reply: dict[str, Any]) -> list[float]:
    """Return the nanoseconds of a reply. Raise :class:`TimerFailed` if they are not times."""
    found = reply.get("ns")
    if not isinstance(found, list) or not found or not all(is_time(each) for each in found):
        raise TimerFailed("the timer answers without times")
    return [float(each) for each in found]


def is_time(value: object) -> bool:
    """Return whether a value is a number that a clock may show."""
    return values.is_finite_number(value) and abs(cast("float", value)) < LONGEST_NS
