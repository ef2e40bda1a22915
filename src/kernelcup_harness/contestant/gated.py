"""The contestant's side of calls that are queued before they can begin: on a GPU, behind a gate of the judge's.

The judge writes the input to the device when the call is queued, so host code never has it in time.
"""

from __future__ import annotations

import torch

from kernelcup_harness.contestant.inputs import Slot
from kernelcup_harness.device.nvidia.driver import Driver, DriverError
from kernelcup_harness.device.nvidia.gate import Wait
from kernelcup_harness.device.nvidia.window import Region, Window
from kernelcup_harness.window.addresses import WINDOW
from kernelcup_harness.window.allocator import bytes_at
from kernelcup_harness.wire.messages import GateFound


class PlacedSlot(Slot):
    """An input whose tensors lie in the judge's memory on the device."""

    def __init__(self, window: Window) -> None:
        super().__init__(gpu=True)
        self._window = window
        self._region: Region | None = None

    def attach(self, fd: int, nbytes: int) -> None:
        """Map memory of the device in the place of what was mapped before."""
        self.data, self._on_device = None, None
        if self._region is not None:
            self._window.unmap(self._region)
        self._region = self._window.attach(fd, WINDOW, nbytes)

    def _placed(self, nbytes: int) -> torch.Tensor:
        assert self._region is not None
        return bytes_at(self._region.address, nbytes)

    def touch(self) -> None:
        """Leave the memory alone: it is the judge's to write."""

    def fill(self, offset: int = 0, nbytes: int | None = None) -> None:
        """Do nothing: the judge writes to the device itself."""


class Gated:
    """Queues calls behind the gate.

    Args:
        device: The number of this process's GPU.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._window: Window | None = None
        self._wait: Wait | None = None

    def use(self, fd: int) -> GateFound:
        """Map the gate's page, and reserve the addresses of the judge's memory."""
        try:
            self._wait = Wait(fd)
            self._window = Window(Driver(), device=self._device)
        except (DriverError, OSError) as error:
            return GateFound(trouble=str(error)[:1000])
        return GateFound()

    def slot(self) -> PlacedSlot:
        """Return a place for inputs in the judge's memory."""
        assert self._window is not None
        return PlacedSlot(self._window)

    def queue(self, number: int) -> None:
        """Have all that is queued from here on wait for the gate."""
        assert self._wait is not None
        self._wait.queue(number)
