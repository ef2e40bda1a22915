"""The timer's engine: a context, the window, the start gun, and rebuilt graphs."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence

from kernelcup_harness.device.nvidia import own_kernels, rebuild, start_gun, window
from kernelcup_harness.device.nvidia.driver import Driver, u64
from kernelcup_harness.window import decoding, steps
from kernelcup_harness.window.graph_data import Rebuilt
from kernelcup_harness.window.messages import Access, SharedRegion

L2_CACHE_SIZE = 38
"""``CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE``."""
LEAST_SWEEP_BYTES = 256 << 20


class GpuEngine:
    """Times on the first GPU that this process sees. The constructor does everything that needs no job.

    Args:
        driver: Of the GPU; None to load it.
        host_ns: Reads the host's clock.

    Raises:
        OSError: There is no driver.
        DriverError: The driver refuses.
        NoWindow: Its addresses are taken.
    """

    def __init__(
        self, driver: Driver | None = None, host_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._driver = driver or Driver()
        self._context = self._driver.make_context()
        # Before anything else takes addresses.
        self._window = window.Window(self._driver)
        nbytes = self._sweep_bytes()
        sweep = self._driver.handle("cuMemAlloc_v2", ctypes.c_size_t(nbytes))
        self._driver("cuMemsetD8_v2", u64(sweep), ctypes.c_ubyte(0), ctypes.c_size_t(nbytes))
        self._kernels = own_kernels.OwnKernels(self._driver)
        self._gun = start_gun.StartGun(self._driver, self._kernels, (sweep, nbytes), host_ns)
        self._nothing = self._gun.empty_graph()
        self._regions: list[window.Region] = []
        self._sets: list[list[int]] = []

    def attach(self, region: SharedRegion, fd: int) -> None:
        """Map a region that another process created."""
        access = window.READ if region.access is Access.READ else window.READ_WRITE
        self._regions.append(self._window.attach(fd, region.address, region.bytes, access=access))

    def load(self, data: bytes, cut: int | None = None) -> Rebuilt:
        """Rebuild a capture as another set, or one of its graphs cut into steps."""
        inside, capture, kernels = (
            [each.addresses for each in self._regions],
            decoding.decode(data),
            list[int](),
        )
        if cut is not None:
            parts = steps.cut(capture, cut)
            capture, kernels = parts.capture, parts.kernels
        made = rebuild.GraphBuilder(self._driver, self._context, inside, self._kernels.fill).build(capture)
        made.steps = kernels
        self._sets.append(made.executables)
        return made

    def fire(self, group: int, place: int) -> int | None:
        """Return the nanoseconds of one call with a cold cache, None if it was not ready in time."""
        return self._gun.sample(self._sets[group][place])

    def launch(self, calls: Sequence[tuple[int, int]]) -> None:
        """Make calls one after another, and wait for their end."""
        for group, place in calls:
            self._driver("cuGraphLaunch", u64(self._sets[group][place]), u64(self._gun.stream))
        self._driver("cuStreamSynchronize", u64(self._gun.stream))

    def profile(self, call: tuple[int, int]) -> None:
        """Make a call that a profiler around this process sees, and wait for its end."""
        self._driver("cuProfilerStart")
        self.launch([call])
        self._driver("cuProfilerStop")

    def empty(self) -> int | None:
        """Return the nanoseconds of the same for an empty graph."""
        return self._gun.sample(self._nothing)

    def check(self) -> None:
        """Raise ``StampForged`` if an end stamp was written again after it had been read."""
        self._gun.check()

    def _sweep_bytes(self) -> int:
        """Return the number of bytes to read to empty the cache: more than twice its size."""
        found, device = ctypes.c_int(), ctypes.c_int()
        self._driver("cuDeviceGet", ctypes.byref(device), 0)
        self._driver("cuDeviceGetAttribute", ctypes.byref(found), L2_CACHE_SIZE, device)
        return max(LEAST_SWEEP_BYTES, 2 * found.value + (1 << 20))
