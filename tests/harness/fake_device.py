"""What a device does over time by its own timer, and the hardware counters that show it: no GPU needed.

What the fakes enforce: a sampler sees only what was done in its watch, one watch is on at a time, and one that was
read is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.witness import MOST_SAMPLES
from kernelcup_harness.device.nvidia.pm_sampling import Sample
from kernelcup_harness.window.reasons import NoCounters

APART_NS = 20_000
"""What the host takes between two parts of its work: the device is idle."""
SWEEP_NS, COPY_NS = 100_000, 3_000
CYCLES_A_NS = 1.5


class Kernel(NamedTuple):
    """Activity of the device's multiprocessors."""

    start_ns: int
    end_ns: int
    dispatches: int = 1


SWEEP, COPY = 3, 1
"""Dispatches of the judge's own work before and after a call."""


def samples(kernels: Sequence[Kernel], until_ns: int, from_ns: int = 0) -> list[Sample]:
    """Return what the counters show of some activity."""
    return [
        sampled(kernels, start, start + trace.INTERVAL_NS)
        for start in range(from_ns, until_ns, trace.INTERVAL_NS)
    ]


def sampled(kernels: Sequence[Kernel], start: int, end: int) -> Sample:
    """Return the counters over one interval."""
    inside = [each for each in kernels if each.start_ns < end and each.end_ns > start]
    active = sum(high - low for low, high in united(inside, start, end))
    dispatches = sum(each.dispatches for each in inside if start <= each.start_ns)
    return Sample(start, end, (active * CYCLES_A_NS, (end - start) * CYCLES_A_NS, float(dispatches)))


def united(kernels: Sequence[Kernel], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the times within an interval at which anything runs."""
    upto = start
    for each in sorted(kernels):
        low, high = max(each.start_ns, upto), min(each.end_ns, end)
        if low < high:
            yield low, high
            upto = high


class FakeDevice:
    """A device whose time goes on only when it works or is waited for."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000
        self.kernels: list[Kernel] = []
        self.haunted = False
        """Whether another program's kernel runs beside the next mark."""
        self._is_swept = False

    def work(self, lasts_ns: int, dispatches: int = 1) -> None:
        """Do some work; then the host takes its time."""
        self.kernels.append(Kernel(self.now_ns, self.now_ns + lasts_ns, dispatches))
        self.now_ns += lasts_ns + APART_NS

    def sweep(self) -> None:
        """Empty the cache."""
        self.work(SWEEP_NS, SWEEP)
        self._is_swept = True

    def mark(self, lengths_ns: Sequence[int]) -> None:
        """Do nothing for so many nanoseconds, one time after the other."""
        for lasts_ns in lengths_ns:
            self.work(lasts_ns, 2 if self.haunted else 1)
            self.haunted = False

    def settle(self) -> None:
        """Do what the judge has queued: inputs belong to the sweep, everything else is the copy of an answer."""
        if not self._is_swept:
            self.work(COPY_NS, COPY)
        self._is_swept = False

    def perf_counter_ns(self) -> int:
        """The judge's clock, which goes on as the device's does."""
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        """Be idle."""
        self.now_ns += int(seconds * 1e9)


class FakeSampler:
    """Samples a device's counters.

    Args:
        device: What is watched.
        most: Most samples of a watch.
    """

    idle = ()

    def __init__(self, device: FakeDevice, most: int = MOST_SAMPLES) -> None:
        self._device = device
        self._most = most
        self._began: int | None = None
        self._watch: range | None = None

    def start(self) -> None:
        assert self._began is None
        assert self._watch is None
        self._began = self._device.now_ns

    def stop(self) -> None:
        assert self._began is not None
        self._watch, self._began = range(self._began, self._device.now_ns), None

    def read(self) -> list[Sample]:
        assert self._watch is not None
        watch, self._watch = self._watch, None
        if len(watch) > self._most * trace.INTERVAL_NS:
            raise NoCounters("samples were lost: the watch was too long")
        inside = [each for each in self._device.kernels if each.start_ns in watch]
        return samples(inside, watch.stop, watch.start)


class Locked(FakeSampler):
    """Counters that only an administrator may read."""

    def __init__(self, device: FakeDevice) -> None:
        raise NoCounters("cuptiPmSamplingEnable answers 35 (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)")


class SharedMemory:
    """The memory of a device of 100 bytes, shared with a submission."""

    def __init__(self) -> None:
        self.ours, self.theirs = 0, 0

    def free_and_total(self) -> tuple[int, int]:
        return 100 - self.ours - self.theirs, 100

    def held(self) -> int:
        return self.ours

    def limit(self, share: float) -> None: ...

    def take(self, size: int) -> None:
        if size > self.free_and_total()[0]:
            raise MemoryError
        self.ours += size
