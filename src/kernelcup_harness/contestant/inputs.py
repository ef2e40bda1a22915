"""The contestant's side of an input: memory at a place, which calls of a case get in turns.

All slow work is done before the call: the tensors are made when the layout is known. Only one copy of the bytes is
left for the call.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelcup_harness.wire import decode, values
from kernelcup_harness.wire.messages import InputLayout


class Block:
    """Memory for the tensors of one input, on the device and, for host tensors, on the host.

    Args:
        size: Bytes of the layout.
        gpu: Whether the device is a real GPU; otherwise everything is on the host.
    """

    def __init__(self, size: int, *, gpu: bool) -> None:
        self.size = size
        self.bytes = torch.empty(size, dtype=torch.uint8, device="cuda" if gpu else "cpu")
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

    def fill(self, source: torch.Tensor) -> None:
        """Copy the bytes of an input, shape (size,) or longer, to where its tensors are."""
        self.bytes.copy_(source[: self.size])
        for offset, nbytes in self._on_host:
            assert self._host is not None
            self._host[offset : offset + nbytes].copy_(source[offset : offset + nbytes])


def alone(part: torch.Tensor) -> torch.Tensor:
    """Return a tensor over the same memory with a storage of its own."""
    if part.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=part.device)
    dlpack: Any = torch.utils.dlpack
    return dlpack.from_dlpack(dlpack.to_dlpack(part))  # type: ignore[no-any-return, unused-ignore]


class Slot:
    """One input at a fixed place.

    Args:
        gpu: Whether the device is a real GPU.
    """

    def __init__(self, *, gpu: bool) -> None:
        self._gpu = gpu
        self._table: list[dict[str, Any]] | None = None
        self._block: Block | None = None
        self.arena: values.Arena | None = None
        self.in_place = False
        self.data: Any = None
        """The input; its contents are meaningless before :meth:`fill`."""
        self.tensors: list[torch.Tensor] = []

    def describe(self, layout: InputLayout) -> None:
        """Make the tensors of the next input, without anything that a call has attached to earlier ones."""
        if self._block is None or layout.table != self._table:
            self.data, self.tensors = None, []
            self._block = Block(layout.bytes, gpu=self._gpu)
        self._table, self.in_place = layout.table, layout.in_place
        self._block.forget_tensors()
        decoder = decode.Decoder(self._block, self._table, decode.importing_record_type, dense=False)
        self.data, self.tensors = decoder.value(layout.tree), decoder.tensors

    def touch(self) -> None:
        """Have the device work for this process, so that it need not switch to it when the call begins."""
        assert self._block is not None
        self._block.bytes[:1].zero_()

    def fill(self) -> None:
        """Copy the bytes of the arena into the tensors."""
        assert self._block is not None
        assert self.arena is not None
        self.arena.pin(self._block.size)
        self._block.fill(self.arena.bytes)

    def close(self) -> None:
        """Free the shared memory."""
        if self.arena is not None:
            self.arena.close()
            self.arena = None
