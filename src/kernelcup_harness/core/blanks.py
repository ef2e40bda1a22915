"""Memory that a generator allocates and leaves unwritten, for example the place for an output.

The judge's earlier contents of that memory may be the right answer. So it is cleared when it is allocated, and filled
with noise for the submission if the reference only writes to it.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from kernelcup_harness.core.uses import LightMode, memory_of, tensors_of, unseen_by_dynamo
from kernelcup_harness.wire import aliasing, guards, values

UNFILLED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
"""Operations whose result keeps the earlier contents of its memory."""


class Emptied(LightMode):
    """A mode in which torch's uninitialized tensors are filled with zeros and remembered."""

    def __init__(self) -> None:
        super().__init__()
        # The tensors are kept, so that no later one gets the same memory.
        self._made: dict[int, torch.Tensor] = {}

    @unseen_by_dynamo
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; clear an uninitialized result, and forget tensors that it writes to."""
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        before = args[0].untyped_storage().nbytes() if name == "resize_" else 0
        made = func(*args, **(kwargs or {}))
        for writes, tensor in tensors_of(func, args, kwargs or {}):
            if writes:
                self._made.pop(memory_of(tensor), None)
        if name == "resize_":
            made.untyped_storage()[before:].fill_(0)
        elif name in UNFILLED and has_memory(made):
            values.bytes_of(made).zero_()
            self._made[memory_of(made)] = made
        return made

    def left(self, value: Any) -> list[int]:
        """Return the numbers of a value's tensors that were never written."""
        leaves = enumerate(aliasing.leaves(value))
        return [number for number, leaf in leaves if memory_of(leaf) in self._made and is_blank(leaf)]


def has_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is dense and has elements."""
    return tensor.layout is torch.strided and not tensor.is_meta and tensor.numel() > 0


def is_blank(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is contiguous in memory and all zeros."""
    dense = tensor.numel() > 0 and values.span_of(tensor) == tensor.numel()
    return dense and not bool(values.bytes_of(tensor).any())


def fill_with_noise(tensor: torch.Tensor, chance: random.Random) -> None:
    """Overwrite a tensor, and the memory between its elements, with noise of its dtype.

    Integers become 0 and 1: larger ones, used as indices by a kernel, might crash the judge's context.
    """
    if not values.span_of(tensor):
        return
    generator = torch.Generator().manual_seed(chance.getrandbits(63))
    if tensor.is_floating_point() or tensor.is_complex():
        pattern = torch.randint(0, 256, (guards.POISON_BYTES,), dtype=torch.uint8, generator=generator)
    else:
        count = guards.POISON_BYTES // tensor.element_size()
        bits = torch.randint(0, 2, (count, 1), dtype=torch.uint8, generator=generator)
        pattern = torch.nn.functional.pad(bits, (0, tensor.element_size() - 1)).reshape(-1)
    guards.repeat(values.bytes_of(tensor), pattern.to(tensor.device))
