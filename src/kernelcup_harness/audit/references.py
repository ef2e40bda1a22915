"""Times of the task's own reference, by the judge's clock, in the judge's process.

For comparison, not for ranking: the reference runs while the contestants wait, on inputs like theirs,
with a cold cache on a GPU.
"""

from __future__ import annotations

import statistics
import time

from kernelcup_harness.judge import clock as timing
from kernelcup_harness.judge.checks import Checks, Place
from kernelcup_harness.protocol import SampleName

SAMPLES = 5
FIRST_INPUT = 1 << 21
"""Input numbers from here on are reserved for references."""


class Stopwatch:
    """Times references.

    Args:
        checks: Makes inputs, and calls the reference.
        clock: Times one call.
    """

    def __init__(self, checks: Checks, clock: timing.Clock) -> None:
        self._checks = checks
        self._clock = clock

    def median_ns(self, place: Place, budget_s: float) -> float | None:
        """Return the median of a few calls in nanoseconds, None for a task without a reference.

        No further call is begun after ``budget_s`` seconds. Raise ``TaskFault``.
        """
        # It has been called for this place before, so nothing is compiled while the clock runs.
        if self._checks.form(place) is None:
            return None
        until = time.monotonic() + budget_s
        found: list[float] = []
        while not found or (len(found) < SAMPLES and time.monotonic() < until):
            data = self._checks.make_input(place, SampleName(input=FIRST_INPUT + len(found)))
            found.append(self._clock.time(lambda data=data: self._checks.expected(data))[1])  # type: ignore[misc]
        return statistics.median(found)
