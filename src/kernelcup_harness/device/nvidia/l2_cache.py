"""The GPU's L2 cache: its size, emptying it, and releasing the persisting part.

A kernel may make part of the cache keep its data (a persisting access window), which would survive a
sweep. Before each timed call the persisting part is released and no more is allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from kernelcup_harness.device.nvidia.driver import Driver
from kernelcup_harness.device.nvidia.own_kernels import OwnKernels

LIMIT_PERSISTING_L2 = 6
"""``CU_LIMIT_PERSISTING_L2_CACHE_SIZE``."""
LEAST_SWEEP_BYTES = 256 << 20
"""Reading this much also takes longer than most launches, so the call is queued while the device is busy."""


def l2_bytes() -> int:
    """Return the size of the cache."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def sweep_bytes() -> int:
    """Return the number of bytes to read to empty the cache: more than twice its size."""
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


class OwnWork:
    """The judge's own work on the device beside the calls, in its own context: no submission can change it."""

    def __init__(self) -> None:
        self._memory = torch.zeros(sweep_bytes(), dtype=torch.uint8, device="cuda")
        self._kernels = OwnKernels(Driver())

    def sweep(self) -> None:
        """Queue the emptying of the cache."""
        self._kernels.sweep(self._stream(), self._memory.data_ptr(), self._memory.numel())

    def mark(self, lengths_ns: Sequence[int]) -> None:
        """Do nothing for each number of nanoseconds in turn, with an idle device in between."""
        for ns in lengths_ns:
            self._kernels.spin(self._stream(), ns)
            torch.cuda.synchronize()

    @staticmethod
    def _stream() -> int:
        return int(torch.cuda.current_stream().cuda_stream)
