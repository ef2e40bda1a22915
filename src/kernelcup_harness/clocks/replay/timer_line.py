"""The judge's requests to the timer."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcup_harness.core.requests import Line
from kernelcup_harness.core.verdict import MachineFailed
from kernelcup_harness.window.messages import Refused
from kernelcup_harness.window.reasons import Failure
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import Hello, M, Message, pack, unpack, unpack_any

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

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.loads = 0
        """Number of captures that it has loaded."""

    def greet(self, timeout_s: float) -> str:
        """Wait for its hello; return why it cannot use the device, empty if it can. Raise :class:`TimerFailed`."""
        try:
            hello = unpack(Hello, self._channel.receive(timeout_s))
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise TimerFailed(f"the timer does not answer: {error or type(error).__name__}") from error
        self._channel.has_greeted = True
        return hello.trouble

    def ask(self, request: Message, expected: type[M], *, timeout_s: float, fds: Sequence[int] = ()) -> M:
        """Return the reply of the expected type. Raise :class:`TimerRefused` or :class:`TimerFailed`."""
        try:
            frame = self.reply(pack(request), timeout_s=timeout_s, fds=fds)
            reply = unpack_any((expected, Refused), frame)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise TimerFailed(f"the timer does not answer: {error or type(error).__name__}") from error
        if isinstance(reply, Refused):
            raise TimerRefused(reply.name, reply.text)
        assert isinstance(reply, expected)
        return reply


def times_of(times_ns: Sequence[float]) -> list[float]:
    """Return the nanoseconds of a reply. Raise :class:`TimerFailed` if they are not times."""
    if not times_ns or not all(abs(each) < LONGEST_NS for each in times_ns):
        raise TimerFailed("the timer answers without times")
    return list(times_ns)
