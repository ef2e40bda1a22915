"""Inputs that are there but cannot be read: XOR with a pad that one number makes.

Judge and contestant make the same pad on the same kind of device: on a GPU with a counter-based
generator (Philox, in :mod:`kernelcup_harness.device_code`), on the processor with SHAKE-128, whose pad
tells nothing about the rest of it. PyTorch's generator for the processor would: whoever knows a few bytes
of the input could compute it.
"""

from __future__ import annotations

import hashlib
import os
import secrets

import torch

from kernelcup_harness.device_code import BLOCK_BYTES, DeviceCode

SEED_BITS = 64
SEED_BYTES = 8
LONGEST_ON_HOST = 256 << 10
"""Inputs on the processor with more bytes are handed over plainly with the call: a copy is faster than a pad."""
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
    return max(BLOCK_BYTES, -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES)


class Mask:
    """Covers and uncovers buffers on one device."""

    def __init__(self, *, gpu: bool) -> None:
        self.gpu = gpu
        self.code = DeviceCode() if gpu else None
        """The harness's kernels, on a GPU."""

    def allows(self, nbytes: int) -> bool:
        """Tell whether an input of this size is masked."""
        return self.gpu or nbytes <= LONGEST_ON_HOST

    def toggle(self, buffer: torch.Tensor, seed: int) -> None:
        """Cover a buffer of bytes, or uncover it again; its length is one that :func:`padded` returns."""
        if self.code is not None:
            self.code.toggle(buffer, seed)
            return
        words = buffer.view(torch.int64)
        stream = bytearray(hashlib.shake_128(seed.to_bytes(SEED_BYTES, "big")).digest(buffer.numel()))
        words ^= torch.frombuffer(stream, dtype=torch.int64)
