"""The clock: the host chooses the start, and a kernel of the harness reads the end.

The host picks a value of the device's timer, a little ahead. A kernel waits for it, the graph runs, and another kernel
writes the timer to host memory. The time of an empty graph is subtracted. No code of the submission runs before its
start, and the start is not stored in any memory that the submission could reach.
"""

from __future__ import annotations

import ctypes
import secrets
import time
from collections.abc import Callable

from kernelcup_harness.device.nvidia.driver import Driver, KernelNode, ptx_of, u64
from kernelcup_harness.device.nvidia.own_kernels import OwnKernels, launch
from kernelcup_harness.window.reasons import ClockTrouble, StampForged

PTX = ptx_of("start_gun.ptx")
"""``hold`` gives up after a second. Works on every device since 2017."""
AHEAD_NS = 100_000
"""Distance of the start from the timer that the host has read; doubled while host or device is ready too late."""
MOST_AHEAD_NS = 100_000_000
MOST_AHEAD_OF_HOST_NS = 10_000_000
"""Beyond this the host may queue a graph after its start: such a graph is large, and its launch counts as its time."""
SWEEP_BYTES_A_NS = 2_000
"""Assumed rate of the sweep in bytes a nanosecond; a slower device needs a start further ahead."""
STAMPS = 1 << 20
"""Number of places for end times; each sample draws one at random."""
PATIENCE_S = 30.0


class StartGun:
    """Times launches of graphs on one stream.

    Args:
        driver: With a current context.
        kernels: Of the harness.
        sweep: Address and size of memory, full of zeros, whose reading empties the cache.
        host_ns: Reads the host's clock.
    """

    def __init__(
        self,
        driver: Driver,
        kernels: OwnKernels,
        sweep: tuple[int, int],
        host_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._driver = driver
        self._kernels = kernels
        self._host_ns = host_ns
        self._sweep = sweep
        self.stream = driver.handle("cuStreamCreate", 1)
        module = driver.handle("cuModuleLoadData", PTX)
        self._hold, self._stamp, self._nothing = (
            driver.handle("cuModuleGetFunction", u64(module), name)
            for name in (b"hold", b"stamp", b"nothing")
        )
        page = ctypes.c_void_p()
        driver("cuMemHostAlloc", ctypes.byref(page), ctypes.c_size_t(8 * STAMPS), 2)
        self._page = page.value or 0
        self._words = (u64 * STAMPS).from_address(self._page)
        self._ahead_ns = AHEAD_NS + sweep[1] // SWEEP_BYTES_A_NS
        self._taken: dict[int, int] = {}

    def empty_graph(self) -> int:
        """Return a graph of one kernel that does nothing: its time is the clock's own share."""
        graph = self._driver.handle("cuGraphCreate", 0)
        wanted = KernelNode(func=self._nothing, grid=(1, 1, 1), block=(1, 1, 1))
        node = u64()
        self._driver(
            "cuGraphAddKernelNode_v2",
            ctypes.byref(node),
            u64(graph),
            None,
            ctypes.c_size_t(0),
            ctypes.byref(wanted),
        )
        made = self._driver.handle("cuGraphInstantiateWithFlags", u64(graph), ctypes.c_ulonglong(0))
        self._driver("cuGraphUpload", u64(made), u64(self.stream))
        return made

    def sample(self, graph: int) -> int | None:
        """Time one launch with a cold cache; return nanoseconds, the time of an empty graph included.

        Returns None if host or device was not ready at its start. The next start is further ahead then. The caller
        decides whether to launch again: the graph has run, and may have seen its input.

        Raise :class:`ClockTrouble`, :class:`StampForged` or ``DriverError``.
        """
        if self._ahead_ns > MOST_AHEAD_NS:
            raise ClockTrouble("the device was never ready before its start")
        found = self._try(graph)
        if found is None:
            self._ahead_ns *= 2
        elif found < 0:
            raise StampForged("a launch ended before its start")
        return found

    def check(self) -> None:
        """Raise :class:`StampForged` if an end stamp was written again after it had been read."""
        for place, value in self._taken.items():
            if self._words[place] != value:
                raise StampForged("an end time was written again after it had been read")
        self._taken.clear()

    def now(self) -> int:
        """Return the device's timer, in nanoseconds."""
        return self._wait_for(self._queue_stamp())

    def _try(self, graph: int) -> int | None:
        """Return the time of a launch, None if it was queued, or the device became ready, after its start."""
        asked_ns = self._host_ns()
        start = self.now() + self._ahead_ns
        began = self._free_place()
        self._kernels.sweep(self.stream, *self._sweep)
        self._launch(self._hold, start, self._page + 8 * began)
        self._driver("cuGraphLaunch", u64(graph), u64(self.stream))
        stamp = self._queue_stamp()
        queued_ns = self._host_ns() - asked_ns
        host_is_late = queued_ns >= self._ahead_ns and self._ahead_ns <= MOST_AHEAD_OF_HOST_NS
        end = self._wait_for(stamp)
        device_is_late = self._words[began] >= start
        return None if host_is_late or device_is_late else end - start

    def _queue_stamp(self) -> int:
        place = self._free_place()
        self._launch(self._stamp, self._page + 8 * place)
        return place

    def _wait_for(self, place: int) -> int:
        self._driver("cuStreamSynchronize", u64(self.stream))
        until = time.monotonic() + PATIENCE_S
        while not self._words[place]:
            if time.monotonic() > until:
                raise ClockTrouble("the end of a launch was never stamped")
        value = int(self._words[place])
        self._taken[place] = value
        return value

    def _free_place(self) -> int:
        if len(self._taken) > STAMPS // 4:
            self.check()
        place = secrets.randbelow(STAMPS)
        while place in self._taken:
            place = secrets.randbelow(STAMPS)
        self._words[place] = 0
        return place

    def _launch(self, kernel: int, *arguments: int) -> None:
        launch(self._driver, kernel, self.stream, *arguments)
