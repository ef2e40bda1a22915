"""The judge's part of a watch: what the witness is asked, and what of it is a call's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine, TimerRefused
from kernelcup_harness.device.nvidia.l2_cache import Sweep
from kernelcup_harness.window.messages import Seen, Stopped, StopWatch, Tell, Watch, Watching
from kernelcup_harness.wire.channel import Channel

PATIENCE_S = 10.0
APART_S = 0.001
"""Between parts of the judge's own work, so that the witness tells them apart."""
TRIES = 3
"""Watches of one kind that may be unreadable in a row: another program's kernel, say."""


class WitnessFailed(TimerFailed):
    """The witness failed, or saw work that cannot be explained: a fault of the machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One call of a watch, in parts; each part ends when the device has done it."""

    key: tuple[str, int]
    """The side and the case: the judge's own work is the same for all calls of these."""
    nodes: int
    """The number of nodes of its graph that do something: with others it could hide a preamble."""
    before: Callable[[], None]
    """Writes the input, and sweeps the cache."""
    call: Callable[[], None]
    after: Callable[[], None]
    """Copies the answer."""


class Witness:
    """Watches calls.

    Args:
        channel: To the witness.
        sweep: Empties the cache.
    """

    def __init__(self, channel: Channel, sweep: Callable[[], None] | None = None) -> None:
        self._line = TimerLine(channel)
        self._sweep = sweep
        self._known: dict[tuple[str, int], tuple[int, int]] = {}
        """Dispatches of the judge's own work before and after a call."""
        self._calls: dict[tuple[str, int], int] = {}
        """Dispatches of a call, which are the same each time."""
        self._unreadable = 0
        """Watches in a row that could not be read."""

    def greet(self, timeout_s: float) -> str:
        """Wait for its hello; return why it cannot see the counters, empty if it can. Raise ``TimerFailed``."""
        return self._line.greet(timeout_s)

    def sweep(self) -> None:
        """Queue a sweep of the cache."""
        if self._sweep is None:
            self._sweep = Sweep()
        self._sweep()

    def knows(self, key: tuple[str, int]) -> bool:
        """Return whether the judge's own work beside a call is known."""
        return key in self._known

    def learn(self, parts: Round) -> None:
        """Watch the judge's own work beside a call, without the call. Raise :class:`WitnessFailed`."""
        for _ in range(TRIES):
            works = self._learned(parts)
            if len(works) == 4 and works[:2] == works[2:]:
                self._known[parts.key] = works[0], works[1]
                return
        raise WitnessFailed(f"the device does other work beside the judge's: {works}")

    def watch(self, rounds: Sequence[Round], check: Callable[[], None]) -> list[float]:
        """Return the nanoseconds of each call; nothing if the watch was unreadable.

        Args:
            rounds: One for each call.
            check: Called when the watch is over, while the witness reads what it has seen.

        Raises:
            NothingSeen: The witness cannot see these calls.
            WitnessFailed: Too many watches in a row were unreadable.
        """
        self._begin()
        for each in rounds:
            each.before()
            each.call()
            each.after()
        self._end()
        check()
        try:
            calls = self._read(self._seen(), rounds)
        except trace.Unreadable as error:
            self._unreadable += 1
            if self._unreadable >= TRIES:
                raise WitnessFailed(f"the witness: {error}") from error
            return []
        self._unreadable = 0
        return [trace.span_ns(call, each.nodes) for call, each in zip(calls, rounds, strict=True)]

    def _read(self, stretches: list[trace.Stretch], rounds: Sequence[Round]) -> list[list[trace.Stretch]]:
        """Return the stretches of each call. At most one side and case of a watch is new."""
        new = [each.key for each in rounds if each.key not in self._calls]
        counts = self._calls
        if len(set(new)) > 1:
            raise WitnessFailed("two sides are new to the witness in one watch")
        if new:
            known = sum(sum(self._known[each.key]) + self._calls.get(each.key, 0) for each in rounds)
            counts = {**self._calls, new[0]: trace.dispatches_of_call(stretches, known, len(new))}
        expected = []
        for each in rounds:
            before, after = self._known[each.key]
            expected.append(trace.Expected(before, counts[each.key], after))
        calls = trace.calls(stretches, expected)
        self._calls = counts
        return calls

    def _learned(self, parts: Round) -> list[int]:
        self._begin()
        for _ in range(2):
            for part in (parts.before, parts.after):
                part()
                time.sleep(APART_S)
        self._end()
        try:
            return trace.parts(self._seen())
        except trace.Unreadable:
            return []

    def _begin(self) -> None:
        self._line.ask(Watch(), Watching, timeout_s=PATIENCE_S)

    def _end(self) -> None:
        self._line.ask(StopWatch(), Stopped, timeout_s=PATIENCE_S)

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
