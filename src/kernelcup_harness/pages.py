"""The shared page through which judge and device talk during an armed call, without any process in between.

The contestant has queued everything behind a kernel that writes READY and waits for GO. The judge writes the key
of the input and GO; the device writes a commitment to the answer, then DONE. Only the judge's clock is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kernelcup_harness import wire
from kernelcup_harness.device_code import DIGEST_BYTES
from kernelcup_harness.frames import ChannelTimeout

PLACES = READY, GO, KEY, DONE, DIGEST = 0, 64, 128, 192, 200
"""Offsets in bytes. Each has its own cache line, except the digest, which shares one with DONE."""
BYTES = 4096
WORD = 8
LOOK_NS = 1_000_000
"""Interval of the checks whether the other side is alive."""


class Page:
    """The judge's end."""

    def __init__(self) -> None:
        self.arena = wire.Arena.create(BYTES)
        self._words = memoryview(self.arena.memory).cast("Q")

    def clear(self) -> None:
        """Forget the previous call."""
        for place in (*PLACES, DIGEST + WORD):
            self._words[place // WORD] = 0

    def release(self, key: int, number: int) -> None:
        """Let the device go on, and ignore the result."""
        self._words[KEY // WORD] = key
        self._words[GO // WORD] = number

    def wait_until_ready(self, number: int, timeout_s: float, look: Callable[[], None]) -> None:
        """Return once the device waits for GO. ``look`` and errors are as for :meth:`go`."""
        self._wait(READY, number, time.perf_counter_ns() + int(timeout_s * 1e9), look)

    def go(self, key: int, number: int, timeout_s: float, look: Callable[[], None]) -> tuple[float, bytes]:
        """Signal GO; return the nanoseconds until the device was done, and the commitment to its answer.

        ``look`` is called now and then, and raises if waiting is pointless. Raise ``ChannelTimeout``.
        """
        begin = time.perf_counter_ns()
        self._words[KEY // WORD] = key
        self._words[GO // WORD] = number
        self._wait(DONE, number, begin + int(timeout_s * 1e9), look)
        # Read while the clock runs: a later commitment must not count.
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
