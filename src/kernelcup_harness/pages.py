"""The page of memory on which judge and device talk while an armed call is timed: no process is asked in between.

The contestant has queued everything behind a kernel that writes READY and waits for GO. The judge writes the key
of the input and GO, and the device answers with DONE, before which it writes what commits to the answer. Only the
judge's clock is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kernelcup_harness import wire
from kernelcup_harness.device_code import DIGEST_BYTES
from kernelcup_harness.frames import ChannelTimeout

PLACES = READY, GO, KEY, DONE, DIGEST = 0, 64, 128, 192, 200
"""Bytes from the beginning. Each has a line of the cache of its own, but the digest goes with DONE."""
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
        for place in (*PLACES, DIGEST + WORD):
            self._words[place // WORD] = 0

    def release(self, key: int, number: int) -> None:
        """Let the device go on, whatever comes of it."""
        self._words[KEY // WORD] = key
        self._words[GO // WORD] = number

    def wait_until_ready(self, number: int, timeout_s: float, look: Callable[[], None]) -> None:
        """Return once the device waits for GO. ``look`` and what is raised are as for :meth:`go`."""
        self._wait(READY, number, time.perf_counter_ns() + int(timeout_s * 1e9), look)

    def go(self, key: int, number: int, timeout_s: float, look: Callable[[], None]) -> tuple[float, bytes]:
        """Give the word; return the nanoseconds until the device was done, and what commits to its answer.

        ``look`` is called now and then, and raises if waiting makes no sense any more. Raise ``ChannelTimeout``.
        """
        begin = time.perf_counter_ns()
        self._words[KEY // WORD] = key
        self._words[GO // WORD] = number
        self._wait(DONE, number, begin + int(timeout_s * 1e9), look)
        # While the clock still runs: nobody may commit to an answer later on.
        digest = bytes(self.arena.memory[DIGEST : DIGEST + DIGEST_BYTES])
        return float(time.perf_counter_ns() - begin), digest

    def _wait(self, place: int, number: int, end_ns: int, look: Callable[[], None]) -> None:
        words, word, clock = self._words, place // WORD, time.perf_counter_ns
        looked = clock()
        while words[word] != number:
            now = clock()
            if now - looked > LOOK_NS:
                if now > end_ns:
                    raise ChannelTimeout
                look()
                looked = now
