"""Inputs that are there but cannot be read: XOR with a pad that one number makes.

Judge and contestant make the same pad on the same kind of device: on a GPU with PyTorch's counter-based
generator (Philox), on the processor with SHAKE-128, whose pad tells nothing about the rest of it.
PyTorch's generator for the processor would: whoever knows a few bytes of the input could compute it.
"""

from __future__ import annotations

import hashlib
import os
import secrets

import torch

SEED_BITS = 63
WORD = 8
CHUNK_WORDS = 8 << 20
"""Words of pad made at a time; both sides must use the same number."""
LONGEST_ON_HOST = 256 << 10
"""Inputs on the processor with more bytes are handed over plainly with the call: a copy is faster than a pad."""
LOWEST_WORD = -(1 << 63)
BUSY_S = 0.2
FEWEST_CORES = 4


def on_gpu() -> bool:
    """Tell whether this process works on a real GPU."""
    return os.environ.get("KERNELCUP_BACKEND") == "cuda" and bool(torch.cuda.is_available())


def busy_s() -> float:
    """Return how long processes that time a GPU look for frames before they sleep; they need a core each."""
    return BUSY_S if on_gpu() and len(os.sched_getaffinity(0)) >= FEWEST_CORES else 0.0


def draw_seed() -> int:
    """Return a seed that nobody can guess."""
    return secrets.randbits(SEED_BITS)


def padded(nbytes: int) -> int:
    """Return the bytes that a buffer needs in order to be masked."""
    return max(WORD, -(-nbytes // WORD) * WORD)


class Mask:
    """Covers and uncovers buffers on one device."""

    def __init__(self, *, gpu: bool) -> None:
        self.gpu = gpu
        self._generator = torch.Generator("cuda") if gpu else None
        self._pad = torch.empty(0, dtype=torch.int64)

    def allows(self, nbytes: int) -> bool:
        """Tell whether an input of this size is masked."""
        return self.gpu or nbytes <= LONGEST_ON_HOST

    def toggle(self, buffer: torch.Tensor, seed: int) -> None:
        """Cover a buffer of bytes, or uncover it again; its length must be a multiple of 8."""
        words = buffer.view(torch.int64)
        if self._generator is None:
            stream = bytearray(hashlib.shake_128(seed.to_bytes(WORD, "big")).digest(buffer.numel()))
            words ^= torch.frombuffer(stream, dtype=torch.int64)
            return
        self._generator.manual_seed(seed)
        for begin in range(0, words.numel(), CHUNK_WORDS):
            part = words[begin : begin + CHUNK_WORDS]
            part ^= self._made(part.numel())

    def _made(self, count: int) -> torch.Tensor:
        """Return the next words of the pad. All 64 bits: the default would leave the sign open."""
        if self._pad.numel() < count:
            self._pad = torch.empty(count, dtype=torch.int64, device="cuda")
        return self._pad[:count].random_(LOWEST_WORD, None, generator=self._generator)
