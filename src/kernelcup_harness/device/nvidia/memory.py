"""The memory of a GPU, as the driver and PyTorch count it, and as two processes of a job share it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Collection

import torch

from kernelcup_harness.device.nvidia.driver import Driver, u64
from kernelcup_harness.window.allocator import bytes_at

LAZY_PEER_ACCESS = 1
"""``CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS``, the only flag that opening takes."""


class IpcHandle(ctypes.Structure):
    """``CUipcMemHandle``."""

    _fields_ = (("reserved", ctypes.c_ubyte * 64),)


class GpuMemory:
    """The first GPU that this process sees."""

    def __init__(self) -> None:
        self._opened: dict[str, int] = {}

    @functools.cached_property
    def _driver(self) -> Driver:
        return Driver()

    def free_and_total(self) -> tuple[int, int]:
        """Return the driver's figures."""
        free, total = torch.cuda.mem_get_info()
        return int(free), int(total)

    def held(self) -> int:
        """Return the figure of PyTorch's allocator."""
        return int(torch.cuda.memory_reserved())

    def take(self, size: int) -> None:
        """Leave a block in PyTorch's allocator, which does not release it by itself."""
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        del block

    def give_back(self) -> None:
        """Empty PyTorch's cache."""
        torch.cuda.empty_cache()

    def limit(self, share: float) -> None:
        """Limit PyTorch's allocator."""
        torch.cuda.set_per_process_memory_fraction(share)

    def lend(self, tensor: torch.Tensor) -> tuple[str, int]:
        """Return the handle of the allocation in which a tensor lies, in hex digits, and the tensor's place in it."""
        base, size, handle = u64(), ctypes.c_size_t(), IpcHandle()
        address = torch.Tensor.data_ptr(tensor)
        self._driver("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), u64(address))
        self._driver("cuIpcGetMemHandle", ctypes.byref(handle), base)
        return bytes(handle.reserved).hex(), address - base.value

    def borrow(self, handle: str, begin: int, nbytes: int) -> torch.Tensor:
        """Return a copy: what a checker writes, or keeps, is its own."""
        if handle not in self._opened:
            opened = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
            self._opened[handle] = self._driver.handle("cuIpcOpenMemHandle_v2", opened, LAZY_PEER_ACCESS)
        return bytes_at(self._opened[handle] + begin, nbytes).clone()

    def close_but(self, handles: Collection[str]) -> None:
        """Close what the other process may have freed: it stays allocated as long as it is open here."""
        for handle in self._opened.keys() - set(handles):
            self._driver("cuIpcCloseMemHandle", u64(self._opened.pop(handle)))
