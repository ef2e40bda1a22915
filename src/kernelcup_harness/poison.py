"""A random pattern where an answer is to be written: an old answer is gone, and nothing is written beside a new one."""

from __future__ import annotations

import ctypes
import os

import torch

from kernelcup_harness import wire

POISON_BYTES = 4096


class Poison:
    """Fills arenas; has a pattern of its own each time.

    Args:
        gpu: Whether a GPU may do it.
    """

    def __init__(self, *, gpu: bool) -> None:
        self._gpu = gpu
        self._block = torch.empty(0, dtype=torch.uint8)
        self.pattern = torch.empty(0, dtype=torch.uint8)
        """What was last filled in, over and over."""
        self.count = 0
        """So many bytes of the arena have it."""

    def fill(self, arena: wire.Arena, expected: int, *, by_host: int) -> None:
        """Fill the place of an answer of so many bytes; with more than ``by_host`` the device does it, if it may."""
        count = min(arena.size, max(expected, POISON_BYTES))
        pattern = torch.frombuffer(bytearray(os.urandom(POISON_BYTES)), dtype=torch.uint8)
        arena.pin(count)
        if self._gpu and count > by_host:
            # The GPU writes large patterns much faster than the processor. Small ones leave it alone:
            # it would have to turn from one process to the other while a handshake is timed.
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
    """Fill bytes on the host with a pattern over and over, by one thread."""
    count, begin = target.numel(), target.data_ptr()
    done = min(count, POISON_BYTES)
    ctypes.memmove(begin, pattern.data_ptr(), done)
    while done < count:
        # What is there already is a whole number of patterns.
        more = min(done, count - done)
        ctypes.memmove(begin + done, begin, more)
        done += more


def repeat(target: torch.Tensor, pattern: torch.Tensor) -> None:
    """Fill bytes with a pattern over and over."""
    whole = target.numel() // POISON_BYTES * POISON_BYTES
    target[:whole].view(-1, POISON_BYTES).copy_(pattern)
    target[whole:].copy_(pattern[: target.numel() - whole])
