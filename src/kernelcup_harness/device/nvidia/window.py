"""Device memory that several processes map at the same addresses.

A window consists of regions, each an allocation of its own: access rights cannot differ within one. The process that
creates a region passes on its file descriptor; memory lives as long as any process maps it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from kernelcup_harness.device.nvidia.driver import AccessDescription, AllocationProperties, Driver, u64
from kernelcup_harness.window.addresses import GRANULE, WINDOW, WINDOW_BYTES
from kernelcup_harness.window.reasons import NoWindow

PINNED, ON_DEVICE, POSIX_FD = 1, 1, 1
READ, READ_WRITE = 1, 3
"""``CU_MEM_ACCESS_FLAGS_PROT_READ`` and ``_READWRITE``."""


@dataclass(frozen=True, slots=True)
class Region:
    """A mapped part of a window.

    Args:
        address: Address of its first byte.
        nbytes: Its size.
        handle: The driver's handle of its memory.
    """

    address: int
    nbytes: int
    handle: int

    @property
    def addresses(self) -> range:
        """All addresses in it."""
        return range(self.address, self.address + self.nbytes)


class Window:
    """Addresses that are the same in every process. Reserve them before PyTorch takes any memory.

    Args:
        driver: With a current context.
        nbytes: How many addresses to reserve; memory comes with regions.
        device: The number of the device.

    Raises:
        NoWindow: The addresses are taken, or the device does not support this.
    """

    def __init__(self, driver: Driver, nbytes: int = WINDOW_BYTES, device: int = 0) -> None:
        self._driver, self._device = driver, device
        self.address = WINDOW
        there = u64()
        size, granule = ctypes.c_size_t(nbytes), ctypes.c_size_t(GRANULE)
        code = driver.code("cuMemAddressReserve", ctypes.byref(there), size, granule, u64(WINDOW), u64(0))
        if code:
            raise NoWindow(f"addresses cannot be reserved: {driver.error_name(code)}")
        if there.value != WINDOW:
            driver("cuMemAddressFree", there, size)
            raise NoWindow(f"the addresses from {WINDOW:#x} on are taken")

    def create(self, address: int, nbytes: int, *, access: int = READ_WRITE) -> tuple[Region, int]:
        """Allocate device memory and map it.

        Returns:
            The region, and a file descriptor by which other processes map the same memory; the caller closes it.

        Raises:
            NoWindow: There is not enough memory, or it cannot be shared.
        """
        wanted = AllocationProperties(
            kind=PINNED, handle_types=POSIX_FD, location_kind=ON_DEVICE, location_id=self._device
        )
        handle, fd = u64(), ctypes.c_int()
        size = ctypes.c_size_t(nbytes)
        code = self._driver.code("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(wanted), u64(0))
        if code:
            raise NoWindow(f"{nbytes} bytes of device memory to share: {self._driver.error_name(code)}")
        code = self._driver.code("cuMemExportToShareableHandle", ctypes.byref(fd), handle, POSIX_FD, u64(0))
        if code:
            self._driver("cuMemRelease", handle)
            raise NoWindow(f"device memory cannot be shared: {self._driver.error_name(code)}")
        return self._map(handle.value, address, nbytes, access), fd.value

    def attach(self, fd: int, address: int, nbytes: int, *, access: int = READ_WRITE) -> Region:
        """Map a region that another process created. Raise :class:`NoWindow`."""
        handle = u64()
        place = (ctypes.byref(handle), ctypes.c_void_p(fd), POSIX_FD)
        code = self._driver.code("cuMemImportFromShareableHandle", *place)
        if code:
            raise NoWindow(f"shared device memory cannot be opened: {self._driver.error_name(code)}")
        return self._map(handle.value, address, nbytes, access)

    def unmap(self, region: Region) -> None:
        """Unmap a region from this process; its memory is freed with the last process that maps it."""
        self._driver("cuMemUnmap", u64(region.address), ctypes.c_size_t(region.nbytes))
        self._driver("cuMemRelease", u64(region.handle))

    def _map(self, handle: int, address: int, nbytes: int, access: int) -> Region:
        rights = AccessDescription(location_kind=ON_DEVICE, location_id=self._device, flags=access)
        size = ctypes.c_size_t(nbytes)
        self._driver("cuMemMap", u64(address), size, ctypes.c_size_t(0), u64(handle), u64(0))
        self._driver("cuMemSetAccess", u64(address), size, ctypes.byref(rights), ctypes.c_size_t(1))
        return Region(address, nbytes, handle)
