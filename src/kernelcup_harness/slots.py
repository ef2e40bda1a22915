"""The contestant's side of an input: it arrives masked, and the seed in the call unmasks it.

All slow work is done when the input is handed over: the bytes are copied to the device and the
tensors are made. Only one pass over the bytes is left for the call.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelcup_harness import wire
from kernelcup_harness.masks import Mask, padded


class Block:
    """Memory for the tensors of one input, on the device and, for host tensors, on the host.

    Args:
        size: Bytes of the layout.
        gpu: Whether the device is a real GPU; otherwise everything is on the host.
    """

    def __init__(self, size: int, *, gpu: bool) -> None:
        self.size = padded(size)
        self.bytes = torch.empty(self.size, dtype=torch.uint8, device="cuda" if gpu else "cpu")
        self._gpu = gpu
        self._host: torch.Tensor | None = None
        self._on_host: list[tuple[int, int]] = []

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return the bytes of a tensor with a storage of their own, not as a view of one buffer.

        PyTorch would take tensors of one buffer for aliases of each other.
        """
        if not self._gpu or device != "cpu":
            return alone(self.bytes[offset : offset + nbytes])
        if self._host is None:
            self._host = torch.empty(self.size, dtype=torch.uint8, pin_memory=True)
        self._on_host.append((offset, nbytes))
        return alone(self._host[offset : offset + nbytes])

    def forget_tensors(self) -> None:
        """Forget which tensors live on the host: they are about to be made again."""
        self._on_host.clear()

    def bring_to_host(self, copy: wire.Copy = wire.copy) -> None:
        """Copy the host tensors from the unmasked bytes."""
        for offset, nbytes in self._on_host:
            assert self._host is not None
            here, there = self.bytes[offset : offset + nbytes], self._host[offset : offset + nbytes]
            copy(there, here)


def alone(part: torch.Tensor) -> torch.Tensor:
    """Return a tensor over the same memory with a storage of its own."""
    if part.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=part.device)
    dlpack: Any = torch.utils.dlpack
    return dlpack.from_dlpack(dlpack.to_dlpack(part))  # type: ignore[no-any-return, unused-ignore]


class Slot:
    """One input at a fixed place: calls of a case get their tensors at the same addresses."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._table: list[dict[str, Any]] | None = None
        self._tree: Any = None
        self._block: Block | None = None
        self.arena: wire.Arena | None = None
        self.in_place = False
        self.data: Any = None
        """The input; its contents are meaningless before :meth:`uncover`."""
        self.tensors: list[torch.Tensor] = []
        self.graph: Any = None
        """A recorded call on this slot's memory, with its result."""

    def describe(self, layout: dict[str, Any]) -> None:
        """Take the layout of the next input."""
        if self._block is None or layout["table"] != self._table:
            # A recorded graph still points at the old memory.
            self.graph = None
            self.data, self.tensors = None, []
            self._block = Block(layout["bytes"], gpu=self._mask.gpu)
        self._table, self._tree, self.in_place = layout["table"], layout["tree"], layout["in_place"]

    def load(self) -> None:
        """Copy the bytes of the arena to the device and make the tensors."""
        self.fill()
        self.make_tensors()

    def fill(self) -> None:
        """Copy the bytes of the arena to the device, into the existing tensors."""
        assert self._block is not None
        assert self.arena is not None
        count = self._block.size
        self.arena.pin(count)
        self._block.bytes[:count].copy_(self.arena.bytes[:count])

    def make_tensors(self) -> None:
        """Make new tensors, without anything that a call may have attached to the old ones."""
        assert self._block is not None
        self._block.forget_tensors()
        decoder = wire.Decoder(self._block, self._table, wire.importing_record_type, dense=False)
        self.data, self.tensors = decoder.value(self._tree), decoder.tensors

    def uncover(self, seed: int | None) -> None:
        """Make the input readable; ``seed`` is None if it came unmasked. Does not wait for the device."""
        assert self._block is not None
        if seed is not None:
            self._mask.toggle(self._block.bytes, seed)
        if self._mask.gpu:
            self._block.bring_to_host()

    def uncover_later(self) -> None:
        """Queue unmasking of the input with the key that comes with the judge's signal."""
        assert self._block is not None
        assert self._mask.code is not None
        self._mask.code.toggle(self._block.bytes, None)
        self._block.bring_to_host(self._mask.code.copy)

    def close(self) -> None:
        """Free the shared memory."""
        if self.arena is not None:
            self.arena.close()
            self.arena = None

    def copy_to(self, other: Slot, *, remake: bool) -> None:
        """Copy the input to another slot, into new tensors if ``remake``."""
        assert self._block is not None
        if other._block is None or other._table != self._table:
            other._block = Block(self._block.size, gpu=self._mask.gpu)
            other._table = self._table
            other.graph = None
        other._tree, other.in_place = self._tree, self.in_place
        other._block.bytes.copy_(self._block.bytes)
        if remake or other.data is None:
            other.make_tensors()
        if self._mask.gpu:
            other._block.bring_to_host()
