"""Times of the task's own reference, by the judge's clock, in the judge's process.

For comparison, not for ranking: the reference runs while the contestants wait, on inputs like theirs,
with a cold cache on a GPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.device.nvidia import l2_cache
from kernelcup_harness.protocol import SampleName

SAMPLES = 5
FIRST_INPUT = 1 << 21
"""Input numbers from here on are reserved for references."""
HIDING_CYCLES = 600_000
"""About 0.35 ms: time to launch some ten kernels, even on a slow host."""


class CudaClock:
    """CUDA events around the call, with a cold L2 cache.

    A kernel that only waits, and the sweep that clears the cache, hide the latency of launches: the
    device is still busy with them when all launches of the call are queued. Cache that the host sets
    aside meanwhile is released afterwards.
    """

    def __init__(self) -> None:
        self._synchronize = torch.cuda.synchronize
        self._wait = torch.cuda._sleep
        self._persisting = l2_cache.Persisting()
        self._sweep = torch.empty(l2_cache.sweep_bytes(), dtype=torch.uint8, device="cuda")
        # The first record creates the event; later ones only take the time.
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time_ns(self, call: Callable[[], Any]) -> float:
        """Return the nanoseconds from event to event; waits for the whole device before it returns."""
        self._synchronize()
        self._persisting.reset()
        self._wait(HIDING_CYCLES)
        self._sweep.fill_(1)
        self._start.record()
        call()
        self._end.record()
        self._persisting.reset()
        self._synchronize()
        # Less than a tick of the device's clock reads as zero.
        return max(1.0, float(self._start.elapsed_time(self._end)) * 1e6)


def host_ns(call: Callable[[], Any]) -> float:
    """Return the nanoseconds of ``call`` on the monotonic clock."""
    begin = time.perf_counter_ns()
    call()
    return float(time.perf_counter_ns() - begin)


def median_ns(
    checks: Checks, place: Place, budget_s: float, time_ns: Callable[[Callable[[], Any]], float]
) -> float | None:
    """Return the median of a few calls in nanoseconds, None for a task without a reference.

    No further call is begun after ``budget_s`` seconds. Raise ``TaskFault``.
    """
    # It has been called for this place before, so nothing is compiled while the clock runs.
    if checks.form(place) is None:
        return None
    until = time.monotonic() + budget_s
    times_ns: list[float] = []
    while not times_ns or (len(times_ns) < SAMPLES and time.monotonic() < until):
        data = checks.make_input(place, SampleName(input=FIRST_INPUT + len(times_ns)))
        times_ns.append(time_ns(partial(checks.expected, data)))
    return statistics.median(times_ns)
