"""The GPU's L2 cache: its size, emptying it, and releasing the persisting part.

A kernel may make part of the cache keep its data (a persisting access window), which would survive a
sweep. Before each timed call the persisting part is released and no more is allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
import secrets
from typing import Any

import torch

from kernelcup_harness.device.nvidia.driver import Driver, u64

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


class Sweep:
    """Empties the device's cache from the judge's own context, where no code of a submission can change it."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._memory = torch.empty(sweep_bytes(), dtype=torch.uint8, device="cuda")

    def __call__(self) -> None:
        """Queue the sweep."""
        stream = u64(torch.cuda.current_stream().cuda_stream)
        address = u64(self._memory.data_ptr())
        count = ctypes.c_size_t(self._memory.numel() // 4)
        # Lines that a call has marked to stay would survive.
        self._driver("cuCtxResetPersistingL2Cache")
        self._driver("cuMemsetD32Async", address, ctypes.c_uint(secrets.randbits(32)), count, stream)
