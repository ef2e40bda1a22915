"""Captures on a GPU, in the order of calls that ``benchmarks/replay_probe.py`` tried on an H100."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness.device.nvidia import export, graphs, own_graphs
from kernelcup_harness.device.nvidia.driver import Driver, DriverError
from kernelcup_harness.device.nvidia.images import ImageKeeper, NoImages
from kernelcup_harness.device.nvidia.window import Window
from kernelcup_harness.window import allocator, graph_data
from kernelcup_harness.window.allocator import WindowPool
from kernelcup_harness.window.reasons import NotReplayed, NoWindow, WhyNot, of_capture


@dataclass(slots=True)
class Captured:
    """Captured calls: graphs by the driver's handles, and the value that each call returned.

    Args:
        graphs: Handles, alive as long as ``keep`` is.
        values: The answers; their tensors are written by each replay.
        keep: PyTorch's objects behind both.
    """

    graphs: list[int]
    values: list[Any]
    keep: list[Any]


def warm_up(
    calls: Sequence[Callable[[], Any]], pool: WindowPool, stream: torch.cuda.Stream, rounds: int = 2
) -> None:
    """Make every call outside of a capture, to compile kernels and allocate workspaces. Raise what calls raise."""
    with pool.in_use(), torch.cuda.stream(stream):
        for _ in range(rounds):
            for call in calls:
                call()
    torch.cuda.synchronize()


def capture(calls: Sequence[Callable[[], Any]], pool: WindowPool, stream: torch.cuda.Stream) -> Captured:
    """Capture each call in a graph of its own, with memory of its own.

    Raise the error that keeps a call from being captured.
    """
    begin = torch._C._CUDAGraph.capture_begin
    found = Captured([], [], [])
    for call in calls:
        graph, place = torch.cuda.CUDAGraph(keep_graph=True), pool.more()
        with torch.cuda.stream(stream):
            begin(graph, pool=place.id, capture_error_mode="global")
            try:
                value = call()
            finally:
                graph.capture_end()
        found.graphs.append(graph.raw_cuda_graph())
        found.values.append(value)
        found.keep += [graph, place]
    return found


class GpuHands:
    """Captures on the first GPU. Create it before anything uses the driver: code loaded earlier is not recorded."""

    def __init__(self) -> None:
        self._trouble: WhyNot | None = None
        self._regions: list[range] = []
        self._captured: list[Captured] = []
        self._stream: torch.cuda.Stream | None = None
        try:
            self._keeper = ImageKeeper()
            self._driver = Driver()
            self._driver.make_context()
            torch.cuda.init()
            # Before PyTorch takes any addresses.
            self._window = Window(self._driver)
        except NoImages:
            self._trouble = WhyNot.NO_IMAGES
        except (NoWindow, DriverError, OSError, AttributeError):
            self._trouble = WhyNot.NO_WINDOW

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Return memory of the window as a tensor of uint8 with shape (nbytes,)."""
        return allocator.bytes_at(address, nbytes)

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        """Map a region of the window. Raise :class:`NotReplayed`."""
        if self._trouble is not None:
            raise NotReplayed(self._trouble)
        try:
            self._regions.append(self._window.attach(fd, address, nbytes).addresses)
        except (NoWindow, DriverError) as error:
            raise NotReplayed(WhyNot.NO_WINDOW) from error

    def use_heap(self, address: int, nbytes: int) -> None:
        """Make PyTorch allocate from a region, and make the submission's own graphs capturable."""
        self._pool = allocator.WindowPool(allocator.Heap(address, nbytes))
        self._own_pool = self._pool.more()
        own_graphs.keep_graphs(self._driver, self._own_pool)

    def in_use(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which tensors lie in the window."""
        return self._pool.in_use()

    def is_capturing(self) -> bool:
        """Return whether the current stream is being captured."""
        return bool(torch.cuda.is_current_stream_capturing())

    def capture(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Warm up calls and capture each in a graph of its own. Raise :class:`NotReplayed`."""
        if any(name.startswith(graphs.RUNTIME_MODULES) for name in list(sys.modules)):
            raise NotReplayed(WhyNot.RUNTIME)
        before = torch.cuda.current_stream()
        try:
            stream = self._stream_for(before)
            try:
                # Any other error here would occur in an ordinary call too: it is the submission's own.
                warm_up(calls, self._pool, stream)
            except torch.OutOfMemoryError as error:
                raise NotReplayed(WhyNot.MEMORY) from error
            made = self._captured_on(calls, stream)
        finally:
            torch.cuda.set_stream(before)
        self._captured.append(made)
        return made.values

    def _captured_on(self, calls: Sequence[Callable[[], Any]], stream: torch.cuda.Stream) -> Captured:
        try:
            made = capture(calls, self._pool, stream)
            torch.cuda.synchronize()
        # Any failure means the same: these calls cannot be captured.
        except BaseException as error:
            graphs.clean_up()
            raise NotReplayed(of_error(error)) from error
        return made

    def live(self) -> tuple[list[list[int]], int]:
        """Return address and size of each block of the heap that PyTorch has not freed, and how far blocks reached."""
        heap = self._pool.heap
        live = [
            [block["address"], block["size"]]
            for segment in torch.cuda.memory_snapshot()
            if segment["address"] in heap.addresses
            for block in segment["blocks"]
            if block["state"] != "inactive"
        ]
        return live, heap.reach

    def export(self) -> tuple[bytes, WhyNot | None]:
        """Return all captured graphs as data, in the order of their capture. Raise :class:`NotReplayed`."""
        exporter = export.Exporter(self._driver, self._keeper.loaded, self._regions)
        try:
            found = exporter.capture([graph for made in self._captured for graph in made.graphs])
        except export.NotExported as refused:
            raise NotReplayed(of_export(str(refused))) from refused
        except DriverError as error:
            raise NotReplayed(WhyNot.UNKNOWN) from error
        if not all(map(graph_data.count_nodes, found.graphs)):
            # Work on a stream that the capture does not see, as the default stream is.
            raise NotReplayed(WhyNot.ELSEWHERE)
        return graph_data.encode(found), of_foreign(exporter.foreign) if exporter.foreign else None

    def _stream_for(self, before: torch.cuda.Stream) -> torch.cuda.Stream:
        """Return the stream to capture on: the thread's own if it is in use, else a separate one."""
        if before.cuda_stream == graphs.PER_THREAD_STREAM:
            return before
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        self._stream.wait_stream(before)
        return self._stream


def of_error(error: BaseException) -> WhyNot:
    """Return why a call could not be captured, by the error of the driver, PyTorch or CuPy."""
    return WhyNot.MEMORY if isinstance(error, torch.OutOfMemoryError) else of_capture(error)


RANDOM_KERNELS = ("philox", "distribution_", "dropout", "curand")
"""Parts of the names of kernels that draw random numbers."""
SAYINGS = {
    "a host function": WhyNot.HOST_FUNCTION,
    "the host's memory": WhyNot.HOST_COPY,
    "a memory allocation": WhyNot.ALLOCATES,
    "a memory release": WhyNot.ALLOCATES,
    "too large to be replayed": WhyNot.MEMORY,
    "was not seen when it was loaded": WhyNot.UNSEEN_CODE,
    "cannot be replayed": WhyNot.NODE,
    "cannot be read": WhyNot.NODE,
}
"""Parts of the texts of :class:`NotExported`; the first match counts."""


def of_export(text: str) -> WhyNot:
    """Return why a captured call could not be exported, by the exporter's text."""
    return next((reason for part, reason in SAYINGS.items() if part in text), WhyNot.UNKNOWN)


def of_foreign(kernels: Iterable[str]) -> WhyNot:
    """Return the likely source of addresses outside of the window, given the kernels called with them."""
    if any(part in name.lower() for name in kernels for part in RANDOM_KERNELS):
        return WhyNot.RANDOM
    return WhyNot.OWN_ALLOCATOR if "cupy" in sys.modules else WhyNot.FOREIGN_POINTER
