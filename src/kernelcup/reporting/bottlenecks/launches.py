"""One launch of a kernel with its counters, and what follows from them by arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelcup_harness.protocol import KernelCounters

LIMITS = {
    "limit_registers": "registers",
    "limit_shared": "shared memory",
    "limit_warps": "the size of its blocks",
    "limit_blocks": "the number of blocks that a multiprocessor holds",
}
FP16_OPERATIONS = {"hadd": 2, "hmul": 2, "hfma": 4}
"""Two numbers an instruction."""
FP32_OPERATIONS = {"fadd": 1, "fmul": 1, "ffma": 2}
FP64_OPERATIONS = {"dadd": 1, "dmul": 1, "dfma": 2}


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Args:
        seen: Its counters; one that the device or the set of sections does not have counts as 0.
        data_bytes: Bytes of the input and answer of the whole call; 0 if they are not known.
    """

    seen: KernelCounters
    data_bytes: float = 0.0

    def __getitem__(self, name: str) -> float:
        return self.seen.counters.get(name, 0.0)

    def has(self, *names: str) -> bool:
        """Return whether all of these counters were read."""
        return all(name in self.seen.counters for name in names)

    def share(self, part: str, *whole: str) -> float:
        """Return one counter as a share of the sum of others; 0 if these are 0."""
        total = sum(self[name] for name in whole)
        return self[part] / total if total else 0.0

    @property
    def seconds(self) -> float:
        """Its time under the profiler."""
        return self["time_ns"] / 1e9

    @property
    def dram_bytes(self) -> float:
        """Bytes between the device's memory and its cache."""
        return self["dram_read"] + self["dram_written"]

    @property
    def flops(self) -> float:
        """Floating-point operations of all units."""
        plain = {**FP16_OPERATIONS, **FP32_OPERATIONS, **FP64_OPERATIONS}
        return self["cycles"] * sum(self[name] * each for name, each in plain.items()) + self["tensor_flops"]

    @property
    def intensity(self) -> float:
        """Operations for each byte of the device's memory; 0 without any bytes."""
        return self.flops / self.dram_bytes if self.dram_bytes else 0.0

    @property
    def dram_rate(self) -> float:
        """Bytes a second."""
        return self.dram_bytes / self.seconds if self.seconds else 0.0

    @cached_property
    def occupancy_limit(self) -> str:
        """What keeps more blocks from a multiprocessor."""
        found = {name: self[name] for name in LIMITS if self.has(name)}
        return LIMITS[min(found, key=lambda name: found[name])] if found else ""

    @property
    def busiest_pct(self) -> float:
        """The share of its peak of the busiest unit, in percent."""
        return max(self["compute_pct"], self["memory_pct"], self["dram_pct"])


@dataclass(frozen=True)
class Group:
    """All launches of one kernel in a call.

    Args:
        name: The kernel's name.
        launches: In their order.
        share: Their part of the time of all kernels.
    """

    name: str
    launches: Sequence[Launch]
    share: float

    @property
    def longest(self) -> Launch:
        """The launch that rules look at."""
        return max(self.launches, key=lambda each: each["time_ns"])

    @property
    def time_ns(self) -> float:
        return sum(each["time_ns"] for each in self.launches)


def groups(kernels: Sequence[KernelCounters], data_bytes: float = 0.0) -> list[Group]:
    """Return the kernels of a call, the longest first."""
    by_name: dict[str, list[Launch]] = {}
    for each in kernels:
        by_name.setdefault(each.name, []).append(Launch(each, data_bytes))
    total = sum(each.counters.get("time_ns", 0.0) for each in kernels) or 1.0
    found = [
        Group(name, launches, sum(each["time_ns"] for each in launches) / total)
        for name, launches in by_name.items()
    ]
    return sorted(found, key=lambda each: (-each.time_ns, each.name))
