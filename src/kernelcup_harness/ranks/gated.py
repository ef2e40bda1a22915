"""The judge of one GPU rank and calls that are queued behind the gate: it writes the input when all are queued."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from kernelcup_harness.clocks.trace import Mark
from kernelcup_harness.core.answer import MOST_TENSORS, CallFailed, Copied, Form, Pending, raise_failure
from kernelcup_harness.core.call import Caller, laid_out
from kernelcup_harness.device.nvidia.driver import Driver
from kernelcup_harness.device.nvidia.l2_cache import OwnWork
from kernelcup_harness.device.nvidia.window import Region, Window
from kernelcup_harness.ranks.errors import NotQueued
from kernelcup_harness.ranks.messages import GateFound, GivePlaced, Queue, Settle, UseGate
from kernelcup_harness.window.addresses import HEAP, WINDOW, granules
from kernelcup_harness.window.allocator import bytes_at
from kernelcup_harness.wire import aliasing, values
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelTimeout
from kernelcup_harness.wire.messages import Done, FailureKind, Given, InputLayout, Returned, pack, unpack

QUEUED_S = 5.0
"""Longest time in which a call is queued: one that waits for the device itself never is."""
HEAP_SHARE = 0.3
"""Of a device's memory: for the tensors that a submission makes in a call."""
WOKEN_BYTES = 64 << 10
"""What the judges send to each other before each call: links that have slept take 90 us longer."""


class GatedCalls:
    """Queues calls of one contestant, writes their inputs and reads their answers.

    Args:
        caller: Makes its ordinary calls.
        channel: To the contestant.
        device: The number of the GPU.
    """

    def __init__(self, caller: Caller, channel: Channel, device: int) -> None:
        self._caller, self._channel = caller, channel
        self._window = Window(Driver(), device=device)
        total = torch.cuda.get_device_properties(device).total_memory
        self._heap, self._heap_fd = self._window.create(HEAP, granules(int(HEAP_SHARE * total)))
        self._own = OwnWork()
        self._region: Region | None = None
        self._staged = torch.empty(0, dtype=torch.uint8, device="cuda")
        self._woken = torch.zeros(WOKEN_BYTES, dtype=torch.uint8, device="cuda")
        self._is_late = False
        self._nbytes = 0
        self._form: Form | None = None

    def use_gate(self, fd: int, timeout_s: float) -> str:
        """Have the contestant map the gate and its memory; return why it cannot, empty if it can."""
        request, fds = UseGate(heap_bytes=self._heap.nbytes), [fd, self._heap_fd]
        return self._caller.line.ask(request, GateFound, timeout_s=timeout_s, fds=fds).trouble

    def queue(self, data: Any, form: Form | None, number: int) -> int:
        """Have a call queued; return the bytes of its input. Raise ``NotQueued``, and as ``Caller.call`` does."""
        self._is_late = False
        if any(not leaf.is_cuda for leaf in aliasing.leaves(data)):
            raise NotQueued("its input has tensors on the host")
        encoder, layout, leaves = laid_out(data, form)
        self._nbytes, self._form = max(1, encoder.nbytes), form
        region_fd = self._made_room(self._nbytes)
        encoder.fill(self._staged)
        torch.cuda.synchronize()
        self._give(layout, region_fd)
        go = pack(Queue(leaves=leaves or None, gate=number))
        try:
            frame = self._caller.line.reply(go, timeout_s=QUEUED_S)
        except ChannelTimeout:
            self._is_late = True
            raise NotQueued(
                f"it was not queued within {QUEUED_S:g} s: it waits for the device itself"
            ) from None
        raise_failure(frame)
        self._done = unpack(Done, frame)
        return self._nbytes

    def _give(self, layout: InputLayout, region_fd: int | None) -> None:
        """Have the tensors of the input made, in memory that the contestant may not have yet."""
        assert self._region is not None
        fds = [region_fd] if region_fd is not None else []
        request = GivePlaced(layout=layout, region_bytes=self._region.nbytes)
        self._caller.line.ask(request, Given, timeout_s=QUEUED_S, fds=fds)
        for fd in fds:
            os.close(fd)

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
            self._channel.receive(timeout_s)
        self.settle(timeout_s)

    def settle(self, timeout_s: float) -> None:
        """Wait until the contestant says that the device has done the call. Raise as ``Caller.call`` does."""
        self._caller.line.ask(Settle(), Returned, timeout_s=timeout_s)

    def take(self, mark: Mark, at_ns: int) -> int:
        """Copy the answer at a time that all ranks share, and make the last mark. Return its bytes.

        Raise ``CallFailed`` for one that is too large, and ``BrokenProtocol`` for one that lies elsewhere than agreed.
        """
        table = self._done.table if isinstance(self._done.table, list) else []
        if len(table) > max(MOST_TENSORS, self._form.tensors if self._form is not None else 0):
            raise BrokenProtocol(f"an answer of {len(table)} tensors")
        parts = [self._part(entry) for entry in table]
        nbytes: int = sum(part.numel() for part in parts)
        if nbytes > self._caller.capacity(self._form):
            raise CallFailed(FailureKind.TOO_LARGE, f"the call returned {nbytes} bytes")
        # The witness looks for a copy, also where there is nothing to copy.
        copied = [part for part in parts if part.numel()] or [self._woken[:1]]
        while time.perf_counter_ns() < at_ns:
            pass
        packed = torch.cat(copied) if len(copied) > 1 else copied[0].clone()
        torch.cuda.synchronize()
        self._own.mark(mark)
        self._taken = table, [part.numel() for part in parts], packed
        return nbytes

    def taken(self) -> Pending:
        """Return the answer that was taken."""
        table, sizes, packed = self._taken
        memory = torch.zeros(packed_size(sizes), dtype=torch.uint8, device="cuda")
        described, at = [], 0
        for entry, size, offset in zip(table, sizes, packed_offsets(sizes), strict=True):
            memory[offset : offset + size] = packed[at : at + size]
            described.append({**entry, "offset": offset})
            at += size
        reply = replace(self._done, table=described)
        return Pending(
            reply=reply,
            wall_ns=1.0,
            most_tensors=len(table),
            memory=Copied(memory),
            check_bands=lambda _gaps: None,
        )

    def _part(self, entry: Any) -> torch.Tensor:
        """Return the bytes of a tensor of an answer, where the contestant says it is. Raise ``BrokenProtocol``."""
        offset, nbytes = (
            entry.get(name) if isinstance(entry, dict) else None for name in ("offset", "nbytes")
        )
        if type(offset) is not int or type(nbytes) is not int or nbytes < 0:
            raise BrokenProtocol("an answer without a place")
        if not nbytes:
            return self._staged[:0]
        begin, end = WINDOW + offset, WINDOW + offset + nbytes
        regions = [self._heap, *([self._region] if self._region is not None else [])]
        if not any(region.address <= begin and end <= region.address + region.nbytes for region in regions):
            raise BrokenProtocol("an answer that lies elsewhere than agreed")
        return bytes_at(begin, nbytes)

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


def packed_offsets(sizes: Sequence[int]) -> list[int]:
    """Return where tensors of these sizes lie when they are laid out as agreed."""
    offsets, end = [], values.GUARD_BYTES
    for size in sizes:
        offsets.append(end)
        end = values.aligned(end + size) + values.GUARD_BYTES
    return offsets


def packed_size(sizes: Sequence[int]) -> int:
    """Return the bytes that tensors of these sizes take, laid out as agreed."""
    return values.GUARD_BYTES + sum(values.aligned(size) + 2 * values.GUARD_BYTES for size in sizes)
