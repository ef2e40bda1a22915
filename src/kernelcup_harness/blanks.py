"""Memory that a generator asks for and leaves as it is, such as the place for an output.

What the judge had there before may be the right answer. So it is emptied when it is handed out, and where
the reference only writes to it the submission finds noise there.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from kernelcup_harness import aliasing, poison, wire
from kernelcup_harness.uses import LightMode, memory_of, tensors_of, unseen_by_dynamo

UNFILLED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
"""Operations whose result holds what was there before."""


class Emptied(LightMode):
    """Fills with zeros what torch hands out unfilled within it, and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        # The tensors are kept, so that no later one gets the same memory.
        self._made: dict[int, torch.Tensor] = {}

    @unseen_by_dynamo
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let an operation work; fill what it has not, and forget what it writes to."""
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
            wire.bytes_of(made).zero_()
            self._made[memory_of(made)] = made
        return made

    def left(self, value: Any) -> list[int]:
        """Return the numbers of the tensors of a value that nothing was written to."""
        leaves = enumerate(aliasing.leaves(value))
        return [number for number, leaf in leaves if memory_of(leaf) in self._made and is_blank(leaf)]


def has_memory(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor has elements of its own."""
    return tensor.layout is torch.strided and not tensor.is_meta and tensor.numel() > 0


def is_blank(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor lies densely in memory that is all zeros."""
    dense = tensor.numel() > 0 and wire.span_of(tensor) == tensor.numel()
    return dense and not bool(wire.bytes_of(tensor).any())


def fill_with_noise(tensor: torch.Tensor, chance: random.Random) -> None:
    """Overwrite a tensor, and what lies between its elements, with noise of its kind.

    Whole numbers become 0 and 1: a kernel that takes larger ones for indices might end the judge's context.
    """
    if not wire.span_of(tensor):
        return
    generator = torch.Generator().manual_seed(chance.getrandbits(63))
    if tensor.is_floating_point() or tensor.is_complex():
        pattern = torch.randint(0, 256, (poison.POISON_BYTES,), dtype=torch.uint8, generator=generator)
    else:
        count = poison.POISON_BYTES // tensor.element_size()
        bits = torch.randint(0, 2, (count, 1), dtype=torch.uint8, generator=generator)
        pattern = torch.nn.functional.pad(bits, (0, tensor.element_size() - 1)).reshape(-1)
    poison.repeat(wire.bytes_of(tensor), pattern.to(tensor.device))
