"""The judge's own mapping of the window: it makes the regions, writes inputs and reads answers through them."""

from __future__ import annotations

from typing import Protocol

import torch

from kernelcup_harness.replay.driver import Driver, DriverError
from kernelcup_harness.replay.pool import bytes_at
from kernelcup_harness.replay.reasons import NotReplayed, WhyNot
from kernelcup_harness.replay.window import NoWindow, Window, granules

HEAP_SHARE, INPUTS_SHARE = 0.3, 0.15
"""Of the device's memory: for a contestant's tensors, and for all inputs that lie in the window at once. The judge's
own part is four tenths, and contexts want some as well."""
LEAST_HEAP = 1 << 30


class Mapping(Protocol):
    """Device memory at addresses of the window, or what stands for it in tests."""

    device: str
    """As :mod:`kernelcup_harness.wire` names it."""

    def total_bytes(self) -> int:
        """Return how much memory the device has for this job."""

    def create(self, address: int, nbytes: int) -> int:
        """Make a region; return a descriptor that belongs to the caller. Raise :class:`NotReplayed`."""

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Look at addresses."""

    def settle(self) -> None:
        """Wait until all that was written is there."""


class GpuMapping:
    """The window on the first GPU. Make it before PyTorch has taken memory: later its addresses may be taken.

    Args:
        part: How much of the device this job may use.
    """

    device = "cuda:0"

    def __init__(self, part: float = 1.0) -> None:
        self._part = part
        try:
            driver = Driver()
            driver.make_context()
            self._window = Window(driver)
        except (NoWindow, DriverError, OSError, AttributeError) as error:
            raise NotReplayed(WhyNot.NO_WINDOW, str(error)) from error

    def total_bytes(self) -> int:
        """Return how much memory the device has for this job."""
        return int(torch.cuda.mem_get_info()[1] * self._part)

    def create(self, address: int, nbytes: int) -> int:
        """Make a region."""
        try:
            return self._window.create(address, nbytes)[1]
        except (NoWindow, DriverError) as error:
            raise NotReplayed(WhyNot.NO_WINDOW, str(error)) from error

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Look at addresses."""
        return bytes_at(address, nbytes)

    def settle(self) -> None:
        """Wait until all that was written is there."""
        torch.cuda.synchronize()


def heap_sizes(total_bytes: int) -> list[int]:
    """Return how large a contestant's heap may be, the largest first: where memory is short a smaller one does."""
    wanted = granules(int(total_bytes * HEAP_SHARE))
    sizes = [wanted]
    while sizes[-1] // 2 >= LEAST_HEAP:
        sizes.append(granules(sizes[-1] // 2))
    return sizes
