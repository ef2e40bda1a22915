"""Clocks that time one call, and the rule that says when a case has been called often enough.

The clocks run in the contestant: what they say is a claim. The rule runs in the judge.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from kernelcup_harness.protocol import MeasureRules

L2_SWEEP_BYTES = 256 << 20


class Clock(Protocol):
    """Times one call."""

    def settle(self) -> None:
        """Wait until the device has nothing left to do."""

    def time(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Return what ``call`` returned and how long it took in nanoseconds."""


class HostClock:
    """The processor's clock, for the ``cpu`` and ``emulated`` backends."""

    def settle(self) -> None:
        """Nothing is asynchronous here."""

    def time(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Time ``call`` on the monotonic clock."""
        begin = time.perf_counter_ns()
        value = call()
        return value, float(time.perf_counter_ns() - begin)


class CudaClock:
    """CUDA events around the call, with a cold L2 cache.

    The sweep that clears the cache also hides the latency of the launch: the device is still busy
    with it when the call is queued. The functions are taken before the submission is imported.
    """

    def __init__(self) -> None:
        self._event = torch.cuda.Event
        self._synchronize = torch.cuda.synchronize
        self._sweep = torch.empty(L2_SWEEP_BYTES, dtype=torch.uint8, device="cuda")

    def settle(self) -> None:
        """Wait for all streams of the device."""
        self._synchronize()

    def time(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """Time ``call`` from event to event; waits for the whole device before it returns."""
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        self._synchronize()
        self._sweep.fill_(1)
        start.record()
        value = call()
        end.record()
        self._synchronize()
        return value, float(start.elapsed_time(end)) * 1e6


def enough(samples_ns: Sequence[float], elapsed_s: float, rules: MeasureRules, budget_s: float) -> bool:
    """Tell whether a case has been sampled enough.

    ``elapsed_s`` is wall-clock time since its first call, ``budget_s`` what it may take.
    """
    count = len(samples_ns)
    if count >= rules.max_samples:
        return True
    if count < max(1, rules.min_samples):
        return False
    if elapsed_s >= budget_s:
        return True
    mean = statistics.fmean(samples_ns)
    error = statistics.stdev(samples_ns) / math.sqrt(count) if count > 1 else math.inf
    return error < rules.relative_error * mean
