"""The GPU's L2 cache: its size, emptying it, and releasing the persisting part.

A kernel may make part of the cache keep its data (a persisting access window), which would survive a
sweep. Before each timed call the persisting part is released and no more is allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch

LIMIT_PERSISTING_L2 = 6
"""``CU_LIMIT_PERSISTING_L2_CACHE_SIZE``."""
LEAST_SWEEP_BYTES = 256 << 20
"""Writing this much also takes longer than most launches, so the call is queued while the device is busy."""


def l2_bytes() -> int:
    """Return the size of the cache."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def sweep_bytes() -> int:
    """Return the number of bytes to write to empty the cache: more than twice its size."""
    return max(LEAST_SWEEP_BYTES, 2 * l2_bytes() + (1 << 20))


class Persisting:
    """Releases the persisting part of the cache through the driver, if there is one."""

    def __init__(self, library: Any = None) -> None:
        self._library = library
        if library is None:
            with contextlib.suppress(OSError):
                self._library = ctypes.CDLL("libcuda.so.1")

    def reset(self) -> None:
        """Forbid persisting data, and make existing ones ordinary. PyTorch's context must be current."""
        if self._library is not None:
            self._library.cuCtxSetLimit(LIMIT_PERSISTING_L2, ctypes.c_size_t(0))
            self._library.cuCtxResetPersistingL2Cache()
