"""Kernels of the harness for any process with a context: to empty the cache, to last for some time, to fill memory."""

from __future__ import annotations

import ctypes

from kernelcup_harness.device.nvidia.driver import Driver, KernelNode, ptx_of, u64

PTX = ptx_of("own_kernels.ptx")
"""``sweep`` reads zeros, and writes only where it finds something else. Works on every device since 2017."""
THREADS = 256
BLOCKS_A_MULTIPROCESSOR = 8
MULTIPROCESSORS = 16
"""``CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT``."""


class OwnKernels:
    """The kernels of one context.

    Args:
        driver: With a current context.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        module = driver.handle("cuModuleLoadData", PTX)
        self._sweep, self._spin, self.fill = (
            driver.handle("cuModuleGetFunction", u64(module), name) for name in (b"sweep", b"spin", b"fill")
        )
        found, device = ctypes.c_int(), ctypes.c_int()
        driver("cuCtxGetDevice", ctypes.byref(device))
        driver("cuDeviceGetAttribute", ctypes.byref(found), MULTIPROCESSORS, device)
        self._blocks = max(1, found.value) * BLOCKS_A_MULTIPROCESSOR

    def sweep(self, stream: int, address: int, nbytes: int) -> None:
        """Queue the emptying of the cache: read memory that holds zeros, more than twice the cache's size.

        The cache is clean afterwards. One that is full of written lines makes a call that reads from memory wait for
        their way there: up to 39 % of 20 us.
        """
        # Lines that a call has marked to stay would survive.
        self._driver("cuCtxResetPersistingL2Cache")
        size = {"blocks": self._blocks, "threads": THREADS}
        launch(self._driver, self._sweep, stream, address, nbytes, **size)

    def spin(self, stream: int, ns: int) -> None:
        """Queue a kernel of one thread that lasts that many nanoseconds."""
        launch(self._driver, self._spin, stream, ns)


def launch(
    driver: Driver, kernel: int, stream: int, *arguments: int, blocks: int = 1, threads: int = 1
) -> None:
    """Queue a kernel whose parameters are numbers of 64 bits."""
    values = [u64(each) for each in arguments]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
    place = (blocks, 1, 1, threads, 1, 1, 0, u64(stream), pointers, None)
    driver("cuLaunchKernel", u64(kernel), *place)


def fill_node(kernel: int, target: int, value: int, width: int, nbytes: int) -> tuple[KernelNode, object]:
    """Return a node that fills memory with elements of ``width`` bytes, and what has to live until it is added."""
    values = [u64(each) for each in (target, value, width, nbytes)]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
    params = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
    return KernelNode(func=kernel, grid=(1, 1, 1), block=(1024, 1, 1), params=params), (values, pointers)
