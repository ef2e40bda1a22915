"""The judge's own mapping of the window: it creates the regions, writes inputs and reads answers through them."""

from __future__ import annotations

from typing import Protocol

import torch

from kernelcup_harness.window.allocator import bytes_at
from kernelcup_harness.window.driver import Driver, DriverError
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.window.window import NoWindow, Window, granules

HEAP_SHARE, INPUTS_SHARE = 0.3, 0.15
"""Shares of the device's memory: for a contestant's tensors, and for all inputs that lie in the window at once. The
judge's own part is four tenths, and contexts need some as well."""
LEAST_HEAP = 1 << 30


class Mapping(Protocol):
    """Device memory at addresses of the window, or its stand-in in tests."""

    device: str
    """Its name in :mod:`kernelcup_harness.wire.values`."""

    def total_bytes(self) -> int:
        """Return the bytes of device memory for this job."""

    def create(self, address: int, nbytes: int) -> int:
        """Create a region; return a descriptor that the caller owns. Raise :class:`NotReplayed`."""

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Return memory as a tensor of uint8 with shape (nbytes,); it does not own it."""

    def settle(self) -> None:
        """Wait until all writes are done."""


class GpuMapping:
    """The window on the first GPU. Create it before PyTorch allocates memory: later its addresses may be taken.

    Args:
        part: Share of the device's memory that this job may use.
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
        """Return the bytes of device memory for this job."""
        return int(torch.cuda.mem_get_info()[1] * self._part)

    def create(self, address: int, nbytes: int) -> int:
        """Create a region; return a descriptor that the caller owns. Raise :class:`NotReplayed`."""
        try:
            return self._window.create(address, nbytes)[1]
        except (NoWindow, DriverError) as error:
            raise NotReplayed(WhyNot.NO_WINDOW, str(error)) from error

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Return memory as a tensor of uint8 with shape (nbytes,); it does not own it."""
        return bytes_at(address, nbytes)

    def settle(self) -> None:
        """Wait until all writes are done."""
        torch.cuda.synchronize()


def heap_sizes(total_bytes: int) -> list[int]:
    """Return possible sizes of a contestant's heap, largest first: a smaller one is used if memory is short."""
    wanted = granules(int(total_bytes * HEAP_SHARE))
    sizes = [wanted]
    while sizes[-1] // 2 >= LEAST_HEAP:
        sizes.append(granules(sizes[-1] // 2))
    return sizes
