"""Clocks that time one call in the judge's own process, and the rule for when a case has enough samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from kernelcup_harness.device import l2_cache
from kernelcup_harness.protocol import MeasureRules, estimates

HIDING_CYCLES = 600_000
"""About 0.35 ms: time to launch some ten kernels, even on a slow host."""
SMALLEST_STEP_NS = 50.0
"""Half width of an interval that is narrow enough for any call."""
FEWEST_TO_STOP = 16
"""Fewest samples whose precision can be judged: fewer may look alike by chance, mostly quick ones."""


class Clock(Protocol):
    """Times one call."""

    def time(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Return the result of ``call`` and its time in nanoseconds."""


class HostClock:
    """The processor's clock, for the ``cpu`` and ``emulated`` backends."""

    def time(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Time ``call`` on the monotonic clock."""
        begin = time.perf_counter_ns()
        value = call()
        return value, float(time.perf_counter_ns() - begin)


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

    def time(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Time ``call`` from event to event; waits for the whole device before it returns."""
        self._synchronize()
        self._persisting.reset()
        self._wait(HIDING_CYCLES)
        self._sweep.fill_(1)
        self._start.record()
        value = call()
        self._end.record()
        self._persisting.reset()
        self._synchronize()
        # Less than a tick of the device's clock reads as zero.
        return value, max(1.0, float(self._start.elapsed_time(self._end)) * 1e6)


def enough(samples_ns: Sequence[float], elapsed_s: float, rules: MeasureRules, budget_s: float) -> bool:
    """Return whether a case has enough samples.

    ``elapsed_s`` is the wall-clock time since its first sample, ``budget_s`` the time it may take.
    """
    count = len(samples_ns)
    if count >= rules.max_samples:
        return True
    if count < max(1, rules.min_samples):
        return False
    if elapsed_s >= budget_s:
        return True
    if not rules.relative_error or count < FEWEST_TO_STOP:
        return False
    wanted = max(rules.relative_error * estimates.robust(samples_ns), SMALLEST_STEP_NS)
    return estimates.half_width(samples_ns) <= wanted
