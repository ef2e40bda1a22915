"""The contestant's side of calls that are queued before they can begin: on a GPU, behind a gate of the judge's.

The judge writes the input to the device when the call is queued, and reads the answer there: host code of a submission
never has the one in time, and cannot make the other.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

import torch

from kernelcup_harness.contestant.inputs import Slot
from kernelcup_harness.device.nvidia.driver import Driver, DriverError
from kernelcup_harness.device.nvidia.gate import Wait
from kernelcup_harness.device.nvidia.window import Region, Window
from kernelcup_harness.ranks.messages import GateFound
from kernelcup_harness.window.addresses import HEAP, WINDOW
from kernelcup_harness.window.allocator import Heap, WindowPool, bytes_at
from kernelcup_harness.window.reasons import NoWindow
from kernelcup_harness.wire import values


class PlacedSlot(Slot):
    """An input whose tensors lie in the judge's memory on the device."""

    def __init__(self, window: Window) -> None:
        super().__init__(gpu=True)
        self._window = window
        self.region: Region | None = None

    def attach(self, fd: int, nbytes: int) -> None:
        """Map memory of the device in the place of what was mapped before."""
        self.data, self._on_device = None, None
        if self.region is not None:
            self._window.unmap(self.region)
        self.region = self._window.attach(fd, WINDOW, nbytes)
        os.close(fd)

    def _placed(self, nbytes: int) -> torch.Tensor:
        assert self.region is not None
        return bytes_at(self.region.address, nbytes)


class Gated:
    """Queues calls behind the gate.

    Args:
        device: The number of this process's GPU.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._window: Window | None = None
        self._wait: Wait | None = None
        self._pool: WindowPool | None = None

    def use(self, gate: int, heap: int, heap_bytes: int) -> GateFound:
        """Map the gate's page and the memory for answers, and reserve the addresses of inputs."""
        try:
            self._wait = Wait(gate)
            self._window = Window(Driver(), device=self._device)
            self._window.attach(heap, HEAP, heap_bytes)
            os.close(heap)
        except (DriverError, NoWindow, OSError) as error:
            return GateFound(trouble=str(error)[:1000])
        self._pool = WindowPool(Heap(HEAP, heap_bytes))
        self.slot = PlacedSlot(self._window)
        return GateFound()

    def queue(self, number: int) -> None:
        """Have all that is queued from here on wait for the gate."""
        assert self._wait is not None
        self._wait.queue(number)

    def in_heap(self) -> AbstractContextManager[None]:
        """Allocate tensors where the judge can read them."""
        assert self._pool is not None
        return self._pool.in_use()

    def placed(self, answer: Any) -> Any:
        """Return an answer whose tensors the judge can read: copies of those that lie elsewhere."""
        assert self._pool is not None
        heap = self._pool.heap.addresses
        region = self.slot.region
        given = region.addresses if region is not None else range(0)

        def inside(tensor: torch.Tensor) -> torch.Tensor:
            there = tensor.data_ptr() in heap or tensor.data_ptr() in given
            return tensor if there or not tensor.numel() or not tensor.is_cuda else tensor.clone()

        return values.with_tensors(answer, inside)

    def table_of(self, answer: Any) -> tuple[Any, Any]:
        """Return tree and table of an answer, with the places of its tensors in the judge's memory.

        Raise ``CannotCarry``.
        """
        encoder = values.Encoder(guarded=True)
        tree = encoder.tree(answer, "output")
        if any(entry.nbytes and not entry.value.is_cuda for entry in encoder.tensors):
            raise values.CannotCarry("output: a tensor on the host, in a call that is queued")
        table = encoder.table()
        for entry, described in zip(encoder.tensors, table, strict=True):
            described["offset"] = entry.value.data_ptr() - WINDOW if entry.nbytes else 0
        return tree, table
