"""Capturing on a GPU: the order of calls is that in which ``benchmarks/replay_probe.py`` made them on an H100."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

import torch

from kernelcup_harness import graphs
from kernelcup_harness.replay import capture as capturing
from kernelcup_harness.replay import export, graph_data, own_graphs, pool
from kernelcup_harness.replay.driver import Driver, DriverError
from kernelcup_harness.replay.exporting import Call, of_error, of_export, of_foreign
from kernelcup_harness.replay.images import ImageKeeper, NoImages
from kernelcup_harness.replay.reasons import NotReplayed, WhyNot
from kernelcup_harness.replay.window import NoWindow, Window


class GpuHands:
    """Captures on the first GPU. Make it before anything uses the driver: code that is loaded earlier is not seen."""

    def __init__(self) -> None:
        self._trouble: WhyNot | None = None
        self._regions: list[range] = []
        self._captured: list[capturing.Captured] = []
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
        """Look at addresses of the window."""
        return pool.bytes_at(address, nbytes)

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        """Map a region of the window."""
        if self._trouble is not None:
            raise NotReplayed(self._trouble)
        try:
            self._regions.append(self._window.attach(fd, address, nbytes).addresses)
        except (NoWindow, DriverError) as error:
            raise NotReplayed(WhyNot.NO_WINDOW) from error

    def use_heap(self, address: int, nbytes: int) -> None:
        """Have PyTorch take memory from a region, and keep graphs of the submission's own."""
        self._pool = pool.WindowPool(pool.Heap(address, nbytes))
        self._own_pool = self._pool.more()
        own_graphs.keep_graphs(self._driver, self._own_pool)

    def in_use(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which tensors lie in the window."""
        return self._pool.in_use()

    def is_capturing(self) -> bool:
        """Tell whether the current stream is being captured."""
        return bool(torch.cuda.is_current_stream_capturing())

    def capture(self, calls: Sequence[Call]) -> list[Any]:
        """Warm calls up and capture each in a graph of its own."""
        if any(name.startswith(graphs.RUNTIME_MODULES) for name in list(sys.modules)):
            raise NotReplayed(WhyNot.RUNTIME)
        before = torch.cuda.current_stream()
        try:
            stream = self._stream_for(before)
            try:
                # What else raises here raises in an ordinary call as well: the submission's own failure.
                capturing.warm_up(calls, self._pool, stream)
            except torch.OutOfMemoryError as error:
                raise NotReplayed(WhyNot.MEMORY) from error
            made = self._captured_on(calls, stream)
        finally:
            torch.cuda.set_stream(before)
        self._captured.append(made)
        return made.values

    def _captured_on(self, calls: Sequence[Call], stream: torch.cuda.Stream) -> capturing.Captured:
        try:
            made = capturing.capture(calls, self._pool, stream)
            torch.cuda.synchronize()
        # Whatever goes wrong means the same: these calls cannot be captured.
        except BaseException as error:
            graphs.clean_up()
            raise NotReplayed(of_error(error)) from error
        return made

    def export(self) -> bytes:
        """Return all captured graphs, in the order of their capture."""
        exporter = export.Exporter(self._driver, self._keeper.loaded)
        try:
            found = exporter.capture([graph for made in self._captured for graph in made.graphs])
            foreign = export.foreign_pointers(self._driver, found, self._regions)
        except export.NotExported as refused:
            raise NotReplayed(of_export(str(refused))) from refused
        except DriverError as error:
            raise NotReplayed(WhyNot.UNKNOWN) from error
        if foreign:
            raise NotReplayed(of_foreign(foreign))
        return graph_data.encode(found)

    def _stream_for(self, before: torch.cuda.Stream) -> torch.cuda.Stream:
        """Return where to capture: on a stream of its own, or on the thread's where that is in use."""
        if before.cuda_stream == graphs.PER_THREAD_STREAM:
            return before
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        self._stream.wait_stream(before)
        return self._stream
