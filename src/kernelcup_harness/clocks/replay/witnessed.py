"""The judge's part of a watch: what the witness is asked, and what of it is a call's time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine, TimerRefused
from kernelcup_harness.device.nvidia.l2_cache import OwnWork
from kernelcup_harness.window.messages import Seen, Stopped, StopWatch, Tell, Watch, Watching
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import Message

PATIENCE_S = 10.0
TRIES = 3
"""Watches of one kind that may be unreadable in a row: another program's kernel, say."""


class WitnessFailed(TimerFailed):
    """The witness failed, or saw work that cannot be explained: a fault of the machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One call of a watch, in parts; each part ends when the device has done it."""

    nodes: int
    """The number of nodes of its graph that do something: with others it could hide a preamble."""
    before: Callable[[], None]
    """Writes the input, and sweeps the cache."""
    call: Callable[[], None]
    after: Callable[[], None]
    """Copies the answer."""


class Own(Protocol):
    """The judge's own work on the device beside the calls."""

    def sweep(self) -> None:
        """Queue the emptying of the cache."""

    def mark(self, lengths_ns: Sequence[int]) -> None:
        """Do nothing for each number of nanoseconds in turn, with an idle device in between."""


class Witness:
    """Watches calls.

    Args:
        channel: To the witness.
        own: The judge's own work; None to make it when it is needed.
    """

    def __init__(self, channel: Channel, own: Own | None = None) -> None:
        self._line = TimerLine(channel)
        self._own_or_none = own
        self._unreadable = 0
        """Watches in a row that could not be read."""

    def greet(self, timeout_s: float) -> str:
        """Wait for its hello; return why it cannot see the counters, empty if it can. Raise ``TimerFailed``."""
        return self._line.greet(timeout_s)

    def sweep(self) -> None:
        """Queue a sweep of the cache."""
        self._own.sweep()

    @property
    def _own(self) -> Own:
        if self._own_or_none is None:
            self._own_or_none = OwnWork()
        return self._own_or_none

    def watch(self, rounds: Sequence[Round], check: Callable[[], None]) -> list[float]:
        """Return the nanoseconds of each call; nothing if the watch was unreadable.

        Args:
            rounds: One for each call.
            check: Called when the watch is over, while the witness reads what it has seen.

        Raises:
            NothingSeen: The witness cannot see these calls.
            WitnessFailed: Too many watches in a row were unreadable.
        """
        marks = [(drawn(), drawn()) for _ in rounds]
        own = self._own
        self._ask(Watch(), Watching)
        for each, (before, after) in zip(rounds, marks, strict=True):
            each.before()
            own.mark(before)
            each.call()
            own.mark(after)
            each.after()
        self._ask(StopWatch(), Stopped)
        check()
        try:
            calls = trace.calls(self._seen(), marks)
            times_ns = [trace.span_ns(call, each.nodes) for call, each in zip(calls, rounds, strict=True)]
        except trace.Unreadable as error:
            self._unreadable += 1
            if self._unreadable >= TRIES:
                raise WitnessFailed(f"the witness: {error}") from error
            return []
        self._unreadable = 0
        return times_ns

    def _ask(self, request: Message, expected: type[Message]) -> None:
        try:
            self._line.ask(request, expected, timeout_s=PATIENCE_S)
        except TimerRefused as refused:
            # A call that outlasts the sampler's memory ends it.
            raise WitnessFailed(f"the witness: {refused.text}") from refused

    def _seen(self) -> list[trace.Stretch]:
        try:
            seen = self._line.ask(Tell(), Seen, timeout_s=PATIENCE_S)
        except TimerRefused as refused:
            raise trace.Unreadable(refused.text) from refused
        stretches = []
        for each in seen.stretches:
            if len(each) != 3:
                raise WitnessFailed("the witness answers without stretches")
            stretches.append(trace.Stretch(each[0], each[1], int(each[2])))
        return stretches


def drawn() -> trace.Mark:
    """Return a mark that was never seen."""
    span = trace.LONGEST_MARK_NS - trace.SHORTEST_MARK_NS
    return (
        trace.SHORTEST_MARK_NS + secrets.randbelow(span),
        trace.SHORTEST_MARK_NS + secrets.randbelow(span),
    )
