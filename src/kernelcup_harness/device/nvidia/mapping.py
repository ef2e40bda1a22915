"""The judge's own mapping of the window on a GPU."""

from __future__ import annotations

import torch

from kernelcup_harness.device.nvidia.driver import Driver, DriverError
from kernelcup_harness.device.nvidia.window import Window
from kernelcup_harness.window.allocator import bytes_at
from kernelcup_harness.window.reasons import NotReplayed, NoWindow, WhyNot


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
