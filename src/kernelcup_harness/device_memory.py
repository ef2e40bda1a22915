"""The judge's part of the GPU's memory, and who is to blame when it is not enough.

Judge and contestant share one device. The judge takes its part before the submission is imported;
when it runs out of memory all the same, it looks at how much the contestant holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

import torch

VARIABLE = "KERNELCUP_GPU_PART"
"""How much of the device a job may use, from 0 to 1."""
JUDGE_PART = 0.4
"""Of the whole device: kept for inputs, expected outputs and what a checker needs."""
CONTESTANT_PART = 0.5
"""More than this held by the contestant is its own fault. The rest is for what the driver takes."""
ROOM_LEFT = 0.2
"""Of what is free, left alone when the judge takes its part."""


class Device(Protocol):
    """What has to be known of a device; in bytes."""

    def free_and_total(self) -> tuple[int, int]:
        """Return what nobody holds, and all there is."""

    def held(self) -> int:
        """Return what this process holds."""

    def take(self, size: int) -> None:
        """Take memory that stays this process's, ready for later use."""


class CudaDevice:
    """The first GPU that this process sees."""

    def free_and_total(self) -> tuple[int, int]:
        """As the driver tells."""
        free, total = torch.cuda.mem_get_info()
        return int(free), int(total)

    def held(self) -> int:
        """As PyTorch's allocator tells."""
        return int(torch.cuda.memory_reserved())

    def take(self, size: int) -> None:
        """Leave a block in PyTorch's allocator, which does not give it back by itself."""
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        del block


class Reservation:
    """The judge's part, taken when this is made.

    Args:
        part: How much of the device this job may use: less than 1 where jobs share it.
    """

    def __init__(self, device: Device, *, part: float = 1.0) -> None:
        self._device = device
        self._total = device.free_and_total()[1] * part
        self._size = self._take()
        self._others_before = self._held_by_others()

    def mark(self) -> None:
        """Note what others hold now, before any user code ran: contexts, and what is not ours at all.

        The judge's part is taken again if it was given back: the canary empties the allocator's cache.
        """
        if self._device.held() < self._size:
            self._take()
        self._others_before = self._held_by_others()

    def contestant_bytes(self) -> int:
        """Return how much more others hold than before."""
        return max(0, self._held_by_others() - self._others_before)

    def is_overdrawn(self) -> bool:
        """Tell whether the contestant holds more than its part."""
        return self.contestant_bytes() > CONTESTANT_PART * self._total

    def _take(self) -> int:
        free, _ = self._device.free_and_total()
        size = int(min(JUDGE_PART * self._total, (1 - ROOM_LEFT) * free))
        self._device.take(size)
        return size

    def _held_by_others(self) -> int:
        free, total = self._device.free_and_total()
        return total - free - self._device.held()


def reserve(backend_is_cuda: bool, device: Callable[[], Device] = CudaDevice) -> Reservation | None:
    """Take the judge's part of the GPU; None where there is no GPU."""
    return Reservation(device(), part=part()) if backend_is_cuda else None


def part() -> float:
    """Return how much of the device this job may use."""
    return float(os.environ.get(VARIABLE, "1"))
