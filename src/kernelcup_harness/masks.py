"""Masked inputs, which are in place but cannot be read: XOR with a pad derived from one seed.

Judge and contestant make the same pad on the same kind of device: on a GPU with a counter-based
generator (Philox, in :mod:`kernelcup_harness.device_code`), on the processor with SHAKE-128, where a part
of the pad reveals nothing about the rest. With PyTorch's generator for the processor, a few known bytes of
the input would reveal it.
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
"""Larger inputs on the processor come unmasked with the call: a copy is faster than a pad."""
BUSY_S = 0.2
FEWEST_CORES = 4


def on_gpu() -> bool:
    """Return whether this process uses a real GPU."""
    return os.environ.get("KERNELCUP_BACKEND") == "cuda" and bool(torch.cuda.is_available())


def busy_s() -> float:
    """Return how long processes that time a GPU poll for frames before they sleep; each needs a core."""
    return BUSY_S if on_gpu() and len(os.sched_getaffinity(0)) >= FEWEST_CORES else 0.0


def draw_seed() -> int:
    """Return an unpredictable seed."""
    return secrets.randbits(SEED_BITS)


def padded(nbytes: int) -> int:
    """Return the bytes that a maskable buffer needs."""
    return max(BLOCK_BYTES, -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES)


class Mask:
    """Masks and unmasks buffers on one device."""

    def __init__(self, *, gpu: bool) -> None:
        self.gpu = gpu
        self.code = DeviceCode() if gpu else None
        """The harness's kernels, on a GPU."""

    def allows(self, nbytes: int) -> bool:
        """Return whether an input of this size is masked."""
        return self.gpu or nbytes <= LONGEST_ON_HOST

    def toggle(self, buffer: torch.Tensor, seed: int) -> None:
        """Mask a buffer of bytes, or unmask it; its length is as returned by :func:`padded`."""
        if self.code is not None:
            self.code.toggle(buffer, seed)
            return
        words = buffer.view(torch.int64)
        stream = bytearray(hashlib.shake_128(seed.to_bytes(SEED_BYTES, "big")).digest(buffer.numel()))
        words ^= torch.frombuffer(stream, dtype=torch.int64)
