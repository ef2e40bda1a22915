"""The judge of one GPU rank and calls that are queued behind the gate: it writes the input when all are queued."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from kernelcup_harness.clocks.trace import Mark
from kernelcup_harness.core.answer import Form, Pending
from kernelcup_harness.core.call import PLACES, Caller, laid_out
from kernelcup_harness.device.nvidia.driver import Driver
from kernelcup_harness.device.nvidia.l2_cache import OwnWork
from kernelcup_harness.device.nvidia.window import Region, Window
from kernelcup_harness.ranks.errors import NotQueued
from kernelcup_harness.window.addresses import WINDOW, granules
from kernelcup_harness.window.allocator import bytes_at
from kernelcup_harness.wire import aliasing
from kernelcup_harness.wire.channel import ChannelTimeout
from kernelcup_harness.wire.messages import (
    Failed,
    GateFound,
    Go,
    Returned,
    Settle,
    Take,
    UseGate,
    pack,
    unpack,
)

SLOT = PLACES
"""The place for inputs of such calls, behind those of others."""
QUEUED_S = 5.0
"""Longest time in which a call is queued: one that waits for the device itself never is."""
WOKEN_BYTES = 64 << 10
"""What the judges send to each other before each call: links that have slept take 90 us longer."""


class GatedCalls:
    """Queues calls of one contestant and writes their inputs.

    Args:
        caller: Makes its ordinary calls, and has the memory of its answers.
        device: The number of the GPU.
    """

    def __init__(self, caller: Caller, device: int) -> None:
        self._caller = caller
        self._window = Window(Driver(), device=device)
        self._own = OwnWork()
        self._is_late = False
        self._failed: dict[str, Any] | None = None
        self._nbytes = 0
        self._form: Form | None = None
        self._region: Region | None = None
        self._staged = torch.empty(0, dtype=torch.uint8, device="cuda")
        self._woken = torch.zeros(WOKEN_BYTES, dtype=torch.uint8, device="cuda")

    def use_gate(self, fd: int, timeout_s: float) -> str:
        """Have the contestant map the gate; return why it cannot, empty if it can."""
        return self._caller.line.ask(UseGate(), GateFound, timeout_s=timeout_s, fds=[fd]).trouble

    def queue(self, data: Any, form: Form | None, number: int) -> int:
        """Have a call queued; return the bytes of its input. Raise ``NotQueued``, and as ``Caller.call`` does."""
        self._is_late = False
        if any(not leaf.is_cuda for leaf in aliasing.leaves(data)):
            raise NotQueued("its input has tensors on the host")
        encoder, layout, leaves = laid_out(data, form)
        self._nbytes, self._form, self._failed = encoder.nbytes, form, None
        region_fd = self._made_room(encoder.nbytes)
        encoder.fill(self._staged)
        torch.cuda.synchronize()
        assert self._region is not None
        self._caller.give_placed(SLOT, layout, form, (self._region.nbytes, region_fd), QUEUED_S)
        go = pack(Go(slot=SLOT, profile=False, held=True, leaves=leaves or None, gate=number))
        try:
            frame = self._caller.line.reply(go, timeout_s=QUEUED_S)
        except ChannelTimeout:
            self._is_late = True
            raise NotQueued(
                f"it was not queued within {QUEUED_S:g} s: it waits for the device itself"
            ) from None
        self._failed = frame if frame.get("type") == Failed.type else None
        if self._failed is None:
            unpack(Returned, frame)
        return self._nbytes

    def write(self, marks: tuple[Mark, Mark]) -> None:
        """Wake the links, make a mark, write the input, and make the second mark."""
        if dist.get_world_size() > 1:
            dist.all_reduce(self._woken)
        torch.cuda.synchronize()
        self._own.mark(marks[0])
        assert self._region is not None
        bytes_at(self._region.address, self._nbytes).copy_(self._staged[: self._nbytes])
        torch.cuda.synchronize()
        self._own.mark(marks[1])

    def drop(self, timeout_s: float) -> None:
        """Let a call end that was queued, or was too late for it."""
        if self._is_late:
            self._caller.line.late(timeout_s=timeout_s)
        if self._failed is None:
            self._caller.line.reply(pack(Take(parts=[])), timeout_s=timeout_s)

    def take(self, marks: tuple[Mark, Mark], timeout_s: float) -> Pending:
        """Make a mark when the contestant says that the device has done the call; return the answer when the judge has
        a copy of it, and make the last mark."""
        reply = self._failed
        if reply is None:
            reply = self._caller.line.reply(pack(Settle()), timeout_s=timeout_s)
        self._own.mark(marks[0])
        if reply.get("type") == Returned.type:
            reply = self._caller.line.reply(pack(Take(parts=[])), timeout_s=timeout_s)
        pending = self._caller.pending(reply, self._form, time.perf_counter_ns())
        self._own.mark(marks[1])
        return pending

    def _made_room(self, nbytes: int) -> int | None:
        """Have memory for an input; return the descriptor of a new region, None if the old one is large enough."""
        if self._staged.numel() < nbytes:
            self._staged = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        if self._region is not None and self._region.nbytes >= nbytes:
            return None
        if self._region is not None:
            self._window.unmap(self._region)
        self._region, fd = self._window.create(WINDOW, granules(nbytes))
        return fd
