"""A gate that work on a stream waits behind: a word in a page that only the judge can write.

The page is a sealed file in memory. Other processes map it for reading only, and so do their devices: a store of a
kernel, or of the device's own queue, to the gate ends its context.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os

import torch

from kernelcup_harness.device.nvidia.driver import Driver, DriverError, u64

SEAL_FUTURE_WRITE = 0x10
"""``F_SEAL_FUTURE_WRITE``: mappings that are made later cannot be written."""
READ_ONLY, MAPPED = 0x08, 0x02
"""``CU_MEMHOSTREGISTER_READ_ONLY`` and ``_DEVICEMAP``."""
AT_LEAST = 0
"""``CU_STREAM_WAIT_VALUE_GEQ``."""


class Gate:
    """The judge's end: opens the gate."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("kernelcup-gate", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, mmap.PAGESIZE)
        self._page = mmap.mmap(self.fd, mmap.PAGESIZE)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEAL_FUTURE_WRITE)
        self.number = 0
        """Of calls that were queued behind it."""

    def open(self) -> None:
        """Let all calls through that are queued by now, with one store."""
        self._page[:4] = self.number.to_bytes(4, "little")


class Wait:
    """The other end, in a process that the judge does not trust.

    Args:
        fd: The page, which is closed.

    Raise ``DriverError`` if the driver cannot map it, and ``OSError``.
    """

    def __init__(self, fd: int) -> None:
        self._driver = Driver()
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        size = ctypes.c_size_t(mmap.PAGESIZE)
        page = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
        os.close(fd)
        if page in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "the gate's page cannot be mapped")
        torch.cuda.current_stream()  # makes the context
        self._driver("cuMemHostRegister_v2", ctypes.c_void_p(page), size, READ_ONLY | MAPPED)
        self._word = self._driver.handle("cuMemHostGetDevicePointer_v2", ctypes.c_void_p(page), 0)

    def queue(self, number: int) -> None:
        """Have the current stream wait until the gate is open for a call."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._driver("cuStreamWaitValue32_v2", stream, u64(self._word), ctypes.c_uint(number), AT_LEAST)


__all__ = ["DriverError", "Gate", "Wait"]
