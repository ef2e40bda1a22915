"""The judge's part of the GPU's memory, its checker's, and the blame when it is not enough.

Judge, checker and contestant share one device. The first two take their parts before the submission is imported;
if one still runs out of memory, the judge checks how much the contestant holds.
"""

from __future__ import annotations

import os
from typing import Protocol

VARIABLE = "KERNELCUP_GPU_PART"
"""The share of the device that a job may use, from 0 to 1."""
JUDGE_PART, CHECKER_PART = 0.15, 0.25
"""Shares of the whole device: for inputs and expected outputs, and for the checker, which cannot have more."""
CONTESTANT_PART = 0.5
"""If the contestant holds more than this share, a lack of memory is its fault. The rest is for the driver."""
ROOM_LEFT = 0.2
"""Share of the free memory that is left free when the judge takes its part."""


class DeviceMemory(Protocol):
    """The memory of a device, in bytes."""

    def free_and_total(self) -> tuple[int, int]:
        """Return the free bytes and the total."""

    def held(self) -> int:
        """Return the bytes that this process holds."""

    def take(self, size: int) -> None:
        """Take memory and keep it in this process for later use."""

    def limit(self, share: float) -> None:
        """Have this process run out of memory beyond a share of the device."""


class Reservation:
    """The judge's part, taken by the constructor.

    Args:
        part: Share of the device that this job may use: less than 1 if jobs share it.
    """

    def __init__(self, device: DeviceMemory, *, part: float = 1.0) -> None:
        self._device = device
        self._total = device.free_and_total()[1] * part
        self._size = self._take()
        self._others_before = self._held_by_others()

    def mark(self) -> None:
        """Record the bytes that others hold before any user code runs: contexts, and other processes.

        The judge's part is taken again if it was released: the canary empties the allocator's cache.
        """
        if self._device.held() < self._size:
            self._take()
        self._others_before = self._held_by_others()

    def contestant_bytes(self) -> int:
        """Return how many bytes more others hold than at :meth:`mark`."""
        return max(0, self._held_by_others() - self._others_before)

    def is_overdrawn(self) -> bool:
        """Return whether the contestant holds more than its part."""
        return self.contestant_bytes() > CONTESTANT_PART * self._total

    def _take(self) -> int:
        free, _ = self._device.free_and_total()
        size = int(min(JUDGE_PART * self._total, (1 - ROOM_LEFT) * free))
        self._device.take(size)
        return size

    def _held_by_others(self) -> int:
        free, total = self._device.free_and_total()
        return total - free - self._device.held()


def reserve(device: DeviceMemory | None) -> Reservation | None:
    """Take the judge's part of a device; return None if its memory is the host's."""
    return Reservation(device, part=part()) if device is not None else None


def hold(device: DeviceMemory) -> None:
    """Take the checker's part of a device, and no more."""
    share, (free, total) = CHECKER_PART * part(), device.free_and_total()
    device.limit(share)
    # The allocator rounds up.
    device.take(int(0.98 * min(share * total, (1 - ROOM_LEFT) * free)))


def part() -> float:
    """Return the share of the device that this job may use."""
    return float(os.environ.get(VARIABLE, "1"))
