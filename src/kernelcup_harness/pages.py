"""The page of memory on which judge and device talk while an armed call is timed: no process is asked in between.

The contestant has queued everything behind a kernel that waits for GO. The judge writes the key of the input and
GO, and the device answers with DONE, which it writes after the answer. Only the judge's clock is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kernelcup_harness import wire
from kernelcup_harness.frames import ChannelTimeout

PLACES = GO, KEY, DONE = 0, 64, 128
"""Bytes from the beginning; each in a line of the cache of its own."""
BYTES = 4096
WORD = 8
LOOK_NS = 1_000_000
"""How often is looked whether the other side still lives."""


class Page:
    """The judge's end."""

    def __init__(self) -> None:
        self.arena = wire.Arena.create(BYTES)
        self._words = memoryview(self.arena.memory).cast("Q")

    def clear(self) -> None:
        """Forget the call before."""
        for place in PLACES:
            self._words[place // WORD] = 0

    def release(self, key: int, number: int) -> None:
        """Let the device go on, whatever comes of it."""
        self._words[KEY // WORD] = key
        self._words[GO // WORD] = number

    def go(self, key: int, number: int, timeout_s: float, look: Callable[[], None]) -> float:
        """Give the word and return the nanoseconds until the device said that it is done.

        ``look`` is called now and then, and raises if waiting makes no sense any more. Raise
        ``ChannelTimeout``.
        """
        words, done, clock = self._words, DONE // WORD, time.perf_counter_ns
        words[KEY // WORD] = key
        begin = clock()
        words[GO // WORD] = number
        end, looked = begin + int(timeout_s * 1e9), begin
        while words[done] != number:
            now = clock()
            if now - looked > LOOK_NS:
                if now > end:
                    raise ChannelTimeout
                look()
                looked = now
        return float(clock() - begin)
