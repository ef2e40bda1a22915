"""Clocks of a device for calibration, and its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kernelcup_harness.protocol import Backend


class Stopwatch(Protocol):
    """Times calls on a device."""

    def times_ns(self, call: Callable[[], Any], count: int) -> list[float]:
        """Call ``count`` times and return the nanoseconds of each call."""

    def settle(self) -> None:
        """Wait until the device is idle."""


class HostStopwatch:
    """The processor's own clock."""

    def times_ns(self, call: Callable[[], Any], count: int) -> list[float]:
        """Time each call by itself."""
        found = []
        for _ in range(count):
            begin = time.perf_counter_ns()
            call()
            found.append(float(time.perf_counter_ns() - begin))
        return found

    def settle(self) -> None:
        """Nothing is asynchronous here."""


class EventStopwatch:
    """CUDA events around calls that are all queued first, so that launching costs no time between them."""

    def __init__(self) -> None:
        import torch

        self._event = torch.cuda.Event
        self._synchronize = torch.cuda.synchronize

    def times_ns(self, call: Callable[[], Any], count: int) -> list[float]:
        """Queue all calls, wait for the device, and read the events."""
        pairs = [(self._event(enable_timing=True), self._event(enable_timing=True)) for _ in range(count)]
        self._synchronize()
        for start, end in pairs:
            start.record()
            call()
            end.record()
        self._synchronize()
        return [float(start.elapsed_time(end)) * 1e6 for start, end in pairs]

    def settle(self) -> None:
        """Wait for all streams of the device."""
        self._synchronize()


def stopwatch(backend: Backend) -> Stopwatch:
    return EventStopwatch() if backend is Backend.CUDA else HostStopwatch()


def place(backend: Backend) -> str:
    """Return the device of a backend's tensors."""
    return "cuda" if backend is Backend.CUDA else "cpu"


def zeros(*size: int, dtype: Any, device: str) -> Any:
    """Return zeros that have been written: host memory is allocated only when it is written."""
    import torch

    return torch.empty(size, dtype=dtype, device=device).fill_(0)


def series_ns(call: Callable[[], Any], watch: Stopwatch, count: int) -> float:
    """Return the time of ``count`` calls one after another."""
    watch.settle()
    begin = time.perf_counter_ns()
    for _ in range(count):
        call()
    watch.settle()
    return float(time.perf_counter_ns() - begin)


def best_ns(watch: Stopwatch, call: Callable[[], Any], tries: int) -> float:
    """Return the shortest of several times, after two uncounted ones."""
    samples: Sequence[float] = watch.times_ns(call, tries + 2)
    return max(1.0, min(samples[2:]))
