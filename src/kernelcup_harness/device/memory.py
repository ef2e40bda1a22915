"""The judge's part of the GPU's memory, and the blame when it is not enough.

Judge, checker and contestant share one device. The first two take their parts before the submission is imported;
if one still runs out of memory, the judge checks how much the contestant holds.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

VARIABLE = "KERNELCUP_GPU_PART"
"""The share of the device that a job may use, from 0 to 1."""
JUDGE_PART = 0.2
"""Share of the whole device for inputs and expected outputs; the checker, a process of its own, has as much."""
CHECKER_MOST = 0.4
"""Largest share of the whole device that the checker may take for a while."""
EXCESS = 1.1
"""A process that holds more than its part by this factor gives it back after a check."""
CONTESTANT_PART = 0.5
"""If the contestant holds more than this share, a lack of memory is its fault. The rest is for the driver."""
ROOM_LEFT = 0.2
"""Share of the free memory that is left free when the judge takes its part."""


class DeviceMemory(Protocol):
    """The memory of a device, in bytes. What a checker needs of it stands last."""

    def free_and_total(self) -> tuple[int, int]:
        """Return the free bytes and the total."""

    def held(self) -> int:
        """Return the bytes that this process holds."""

    def take(self, size: int) -> None:
        """Take memory and keep it in this process for later use."""

    def give_back(self) -> None:
        """Give back what this process holds and does not use."""

    def limit(self, share: float) -> None:
        """Have this process run out of memory when it would hold more than a share of the device."""

    def lend(self, tensor: torch.Tensor) -> tuple[str, int]:
        """Return a handle by which another process can open a tensor's memory, and where in it the tensor begins.

        Raise ``DeviceError`` for memory that cannot be shared.
        """

    def borrow(self, handle: str, begin: int, nbytes: int) -> torch.Tensor:
        """Return a copy of another process's memory, shape (nbytes,), uint8. Raise ``DeviceError``."""

    def close_but(self, handles: Collection[str]) -> None:
        """Close memory of other processes that was opened, except that behind these handles."""


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

    def trim(self) -> None:
        """Give back what goes far beyond the part, and keep the part. Call it in a process that no judge waits for."""
        if self._device.held() > EXCESS * self._size:
            self._device.give_back()
        if self._device.held() < self._size:
            self._take()

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


def part() -> float:
    """Return the share of the device that this job may use."""
    return float(os.environ.get(VARIABLE, "1"))
