"""A random pattern where an answer is due: it removes old answers and reveals writes beside a new one."""

from __future__ import annotations

import ctypes
import os

import torch

from kernelcup_harness.wire import values

POISON_BYTES = 4096
MOST_BY_HOST = 1 << 20
"""Larger patterns are written by the GPU, if there is one: it is much faster."""


class Poison:
    """Fills arenas with a new pattern each time.

    Args:
        gpu: Whether a GPU may fill them.
    """

    def __init__(self, *, gpu: bool) -> None:
        self._gpu = gpu
        self._block = torch.empty(0, dtype=torch.uint8)
        self.pattern = torch.empty(0, dtype=torch.uint8)
        """The last pattern, which is repeated."""
        self.count = 0
        """Number of bytes of the arena that have it."""

    def fill(self, arena: values.Arena, expected: int) -> None:
        """Fill the place of an answer of ``expected`` bytes; a large one on the device, if that is allowed."""
        count = min(arena.size, max(expected, POISON_BYTES))
        pattern = torch.frombuffer(bytearray(os.urandom(POISON_BYTES)), dtype=torch.uint8)
        arena.pin(count)
        if self._gpu and count > MOST_BY_HOST:
            self._repeat_on_gpu(arena.bytes[:count], pattern)
        else:
            repeat_on_host(arena.bytes[:count], pattern)
        self.pattern, self.count = pattern, count

    def _repeat_on_gpu(self, target: torch.Tensor, pattern: torch.Tensor) -> None:
        if self._block.numel() < target.numel():
            self._block = torch.empty(target.numel(), dtype=torch.uint8, device="cuda")
        block = self._block[: target.numel()]
        repeat(block, pattern.to("cuda"))
        target.copy_(block)


def repeat_on_host(target: torch.Tensor, pattern: torch.Tensor) -> None:
    """Fill bytes on the host with a repeated pattern, in one thread."""
    count, begin = target.numel(), target.data_ptr()
    done = min(count, POISON_BYTES)
    ctypes.memmove(begin, pattern.data_ptr(), done)
    while done < count:
        # The filled part is a whole number of patterns.
        more = min(done, count - done)
        ctypes.memmove(begin + done, begin, more)
        done += more


def repeat(target: torch.Tensor, pattern: torch.Tensor) -> None:
    """Fill bytes with a repeated pattern."""
    whole = target.numel() // POISON_BYTES * POISON_BYTES
    target[:whole].view(-1, POISON_BYTES).copy_(pattern)
    target[whole:].copy_(pattern[: target.numel() - whole])


def holds(memory: torch.Tensor, pattern: torch.Tensor) -> bool:
    """Return whether memory holds a repeated pattern, as written by :func:`repeat`."""
    whole = memory.numel() // pattern.numel() * pattern.numel()
    rows = memory[:whole].view(-1, pattern.numel())
    return bool((rows == pattern).all()) and torch.equal(memory[whole:], pattern[: memory.numel() - whole])
