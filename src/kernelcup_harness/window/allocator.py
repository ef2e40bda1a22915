"""PyTorch's allocations inside a window, so that captured addresses mean the same in the timer.

PyTorch's caching allocator stays in place; only its large blocks come from the window. Tensors that outlive a call
share one pool, and each captured call has a pool of its own: no call writes over the answer of another.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import torch

BLOCK = 512
_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


class Heap:
    """First-fit memory between two addresses; makes no calls to the driver, so it works during a capture.

    Args:
        address: Address of its first byte.
        nbytes: Its size.
    """

    def __init__(self, address: int, nbytes: int) -> None:
        self.addresses = range(address, address + nbytes)
        self.reach = 0
        """Bytes up to the end of the last block that was ever in use."""
        self._free = {address: nbytes}
        self._used: dict[int, int] = {}
        self.peak = 0
        """Largest number of bytes in use so far."""

    def take(self, nbytes: int) -> int:
        """Return the address of a free block; 0 if there is none."""
        wanted = max(BLOCK, -(-nbytes // BLOCK) * BLOCK)
        for address in sorted(self._free):
            left = self._free[address] - wanted
            if left < 0:
                continue
            del self._free[address]
            if left:
                self._free[address + wanted] = left
            self._used[address] = wanted
            self.reach = max(self.reach, address + wanted - self.addresses.start)
            self.peak = max(self.peak, sum(self._used.values()))
            return address
        return 0

    def give_back(self, address: int) -> None:
        """Free a block; addresses that are not in use are ignored."""
        nbytes = self._used.pop(address, 0)
        if not nbytes:
            return
        after = self._free.pop(address + nbytes, 0)
        before = next((each for each, size in self._free.items() if each + size == address), None)
        if before is not None:
            self._free[before] += nbytes + after
        else:
            self._free[address] = nbytes + after


class WindowPool:
    """Has PyTorch take memory from a heap.

    Args:
        heap: In memory that this process has mapped.
    """

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self._allocate = _ALLOCATE(lambda size, _device, _stream: heap.take(size) or None)
        self._free = _FREE(lambda address, _size, _device, _stream: heap.give_back(address or 0))
        # PyTorch takes the addresses of two functions; both live as long as this object.
        self._allocator: Any = torch._C._cuda_customAllocator(
            ctypes.cast(self._allocate, ctypes.c_void_p).value, ctypes.cast(self._free, ctypes.c_void_p).value
        )
        self._pool = self.more()

    def more(self) -> torch.cuda.MemPool:
        """Return another pool that takes its blocks from the same heap."""
        return torch.cuda.MemPool(self._allocator)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Allocate from the heap within this block, in this thread."""
        with torch.cuda.use_mem_pool(self._pool):
            yield


class _Exported:
    """Describes memory by the CUDA array interface, so that PyTorch can view it."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def bytes_at(address: int, nbytes: int) -> torch.Tensor:
    """Return device memory as a tensor of uint8 with shape (nbytes,); it does not own it."""
    return torch.as_tensor(_Exported(address, nbytes), device="cuda")
