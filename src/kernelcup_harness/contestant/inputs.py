"""The contestant's side of an input: its tensors at a place, which calls of a case get in turns.

The tensors are made when the layout is known, before the call. On the host they lie in the shared memory itself, into
which the judge writes the input when its clock runs; for a GPU one copy to the device is left for the call.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelcup_harness.wire import decode, values
from kernelcup_harness.wire.messages import InputLayout


def alone(part: torch.Tensor) -> torch.Tensor:
    """Return a tensor over the same memory with a storage of its own."""
    if part.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=part.device)
    dlpack: Any = torch.utils.dlpack
    return dlpack.from_dlpack(dlpack.to_dlpack(part))  # type: ignore[no-any-return, unused-ignore]


class Slot:
    """One input at a fixed place: its memory, on the device and, for host tensors, shared with the judge.

    Args:
        gpu: Whether the device is a real GPU; otherwise all tensors are on the host.
    """

    def __init__(self, *, gpu: bool) -> None:
        self._gpu = gpu
        self._on_device: torch.Tensor | None = None
        self.size = 0
        """Bytes of the layout."""
        self.arena: values.Arena | None = None
        self.in_place = False
        self.data: Any = None
        """The input; its contents are meaningless before :meth:`fill`."""

    def describe(self, layout: InputLayout) -> None:
        """Make the tensors of the next input, without anything that a call has attached to earlier ones."""
        if self.arena is not None:
            self.arena.pin(layout.bytes)
        self.data = None
        if self._gpu and (self._on_device is None or layout.bytes != self.size):
            self._on_device = None
            self._on_device = self._placed(layout.bytes)
        self.size, self.in_place = layout.bytes, layout.in_place
        record_type = decode.importing_record_type
        decoder = decode.Decoder(self, layout.table, record_type, dense=False, runs=not layout.later)
        self.data = decoder.value(layout.tree)

    def _placed(self, nbytes: int) -> torch.Tensor:
        """Return memory of the device."""
        return torch.empty(nbytes, dtype=torch.uint8, device="cuda")

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return the bytes of a tensor with a storage of their own, not as a view of one buffer.

        PyTorch would take tensors of one buffer for aliases of each other.
        """
        on_host = self._on_device is None or device == "cpu"
        memory = (self.arena.bytes if self.arena is not None else None) if on_host else self._on_device
        assert memory is not None
        # It is there already, but emulation has to be told.
        return torch.as_tensor(alone(memory[offset : offset + nbytes]), device=device.removesuffix(":0"))

    def touch(self) -> None:
        """Have the device work for this process, so that it need not switch to it when the call begins."""
        if self._on_device is not None:
            self._on_device[:1].zero_()

    def fill(self, offset: int = 0, nbytes: int | None = None) -> None:
        """Copy bytes of the arena to the device, all by default. Tensors on the host have them already."""
        if self._on_device is not None:
            assert self.arena is not None
            part = slice(offset, self.size if nbytes is None else offset + nbytes)
            self._on_device[part].copy_(self.arena.bytes[part])

    def complete(self, leaves: list[Any] | None) -> None:
        """Put numbers and texts in their places."""
        if leaves is not None:
            decoder = decode.Decoder(self, [], decode.importing_record_type, dense=False)
            found = map(decoder.value, leaves)
            self.data = values.with_tensors(self.data, lambda tensor: tensor, lambda _blank: next(found))

    def close(self) -> None:
        """Free the shared memory."""
        if self.arena is not None:
            self.arena.close()
            self.arena = None
