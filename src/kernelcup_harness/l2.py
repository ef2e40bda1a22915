"""The GPU's second-level cache: how large it is, emptying it, and taking back what was set aside in it.

A kernel may have part of the cache keep its data (a persisting access window); that would survive a
sweep. Before each timed call everything set aside is given back and no more is allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch

LIMIT_PERSISTING_L2 = 6
"""``CU_LIMIT_PERSISTING_L2_CACHE_SIZE``."""
LEAST_SWEEP_BYTES = 256 << 20
"""Writing so much also takes longer than most launches: the call is queued while the device is busy."""


def l2_bytes() -> int:
    """Return the size of the cache."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def sweep_bytes() -> int:
    """Return how much is written to empty the cache: more than twice its size."""
    return max(LEAST_SWEEP_BYTES, 2 * l2_bytes() + (1 << 20))


class Persisting:
    """Takes back what was set aside in the cache, through the driver where it is there."""

    def __init__(self, library: Any = None) -> None:
        self._library = library
        if library is None:
            with contextlib.suppress(OSError):
                self._library = ctypes.CDLL("libcuda.so.1")

    def reset(self) -> None:
        """Allow nothing to be set aside, and make ordinary what is. The context of PyTorch must be current."""
        if self._library is not None:
            self._library.cuCtxSetLimit(LIMIT_PERSISTING_L2, ctypes.c_size_t(0))
            self._library.cuCtxResetPersistingL2Cache()
