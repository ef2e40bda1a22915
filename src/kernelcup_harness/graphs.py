"""Records calls into CUDA graphs, so that launches cost the host almost nothing."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kernelcup_harness.protocol import NotCaptured

SAYINGS = {
    "legacy stream": NotCaptured.ELSEWHERE,
    "unjoined work": NotCaptured.ELSEWHERE,
    "uncaptured work": NotCaptured.ELSEWHERE,
    "CaptureImplicit": NotCaptured.ELSEWHERE,
    "CaptureUnjoined": NotCaptured.ELSEWHERE,
    "CaptureIsolation": NotCaptured.ELSEWHERE,
    "when stream is capturing": NotCaptured.WAITS,
    "during CUDA graph capture": NotCaptured.WAITS,
    "CaptureUnsupported": NotCaptured.WAITS,
}
"""Parts of the messages of the driver, PyTorch and CuPy."""
RUNTIME_MODULES = ("jax_plugins.",)
"""Prefixes of modules that reveal a runtime on the device that must not be recorded.

XLA queues host functions that free their arguments. In a recording they run never or twice: XLA then waits for
them, or its memory is corrupted.
"""
PER_THREAD_STREAM = 2
"""``cudaStreamPerThread``. Code compiled for it uses it unless it names a stream; unlike the default stream it can be
recorded."""
HOST_NODE, CHILD_NODE = 3, 4
"""``CU_GRAPH_NODE_TYPE_HOST`` and ``CU_GRAPH_NODE_TYPE_GRAPH`` of the driver."""


@dataclass(slots=True)
class Recording:
    """Recorded calls and their return values, whose tensors each replay overwrites."""

    replay: Callable[[], None]
    values: list[Any]


class NotRecorded(RuntimeError):
    """A recording, or one that is asked for, cannot be replayed."""

    def __init__(self, reason: NotCaptured) -> None:
        super().__init__(reason)
        self.reason = reason


class Recorder(Protocol):
    """Makes recordings."""

    def record(self, calls: Sequence[Callable[[], Any]]) -> Recording:
        """Record calls in one graph. Raise the error that keeps them from being recorded."""


class NoRecorder:
    """For devices without graphs."""

    def record(self, calls: Sequence[Callable[[], Any]]) -> Recording:  # noqa: ARG002
        """Refuse."""
        raise RuntimeError("this device has no graphs to record")


class CudaRecorder:
    """Records in the mode that detects all work outside of the graph.

    Records on a separate stream, or on the current one if it is the thread's.
    """

    def record(self, calls: Sequence[Callable[[], Any]]) -> Recording:
        """Warm up once, record every call, then restore the previous stream.

        Raise :class:`NotRecorded` for host functions, which expect to be called once, and what calls raise.
        """
        if any(name.startswith(RUNTIME_MODULES) for name in list(sys.modules)):
            raise NotRecorded(NotCaptured.RUNTIME)
        before = torch.cuda.current_stream()
        stream = before if before.cuda_stream == PER_THREAD_STREAM else torch.cuda.Stream()
        try:
            stream.wait_stream(before)
            with torch.cuda.stream(stream):
                calls[0]()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph(keep_graph=True)
            # Not torch.cuda.graph: it empties the allocator's cache each time.
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="global")
                try:
                    values = [call() for call in calls]
                finally:
                    graph.capture_end()
            if has_host_function(graph.raw_cuda_graph(), ctypes.CDLL("libcuda.so.1")):
                raise NotRecorded(NotCaptured.HOST_FUNCTION)
            graph.instantiate()
            torch.cuda.synchronize()
        except BaseException:
            clean_up()
            raise
        finally:
            torch.cuda.set_stream(before)
        return Recording(graph.replay, values)


def use_per_thread_stream() -> None:
    """Make PyTorch use the per-thread stream, like CUDA C++ that is compiled for it and names no stream.

    On the default stream the two would wait for each other at every call.
    """
    torch.cuda.init()
    torch.cuda.set_stream(torch.cuda.ExternalStream(PER_THREAD_STREAM))


def clean_up() -> None:
    """Leave the device as it was before a recording that was cut off."""
    # Its error stays until the next call reports it.
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()
    # Otherwise the generator refuses to draw, because the recording never ended.
    with contextlib.suppress(RuntimeError, AttributeError):
        fresh = torch.Generator("cuda")
        fresh.manual_seed(torch.initial_seed())
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generator.graphsafe_set_state(fresh.graphsafe_get_state())


def has_host_function(graph: int, driver: Any) -> bool:
    """Return whether a graph or one of its child graphs has a host function.

    Args:
        graph: The driver's handle.
        driver: The driver's library.

    Raises:
        RuntimeError: The driver reports an error.
    """
    for node in _nodes(graph, driver):
        kind = ctypes.c_int()
        _checked(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)))
        if kind.value == HOST_NODE:
            return True
        if kind.value == CHILD_NODE:
            child = ctypes.c_void_p()
            _checked(driver.cuGraphChildGraphNodeGetGraph(ctypes.c_void_p(node), ctypes.byref(child)))
            if has_host_function(child.value or 0, driver):
                return True
    return False


def _nodes(graph: int, driver: Any) -> Iterator[int]:
    count = ctypes.c_size_t()
    _checked(driver.cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count)))
    if not count.value:
        # Everything was launched elsewhere, which its replay reveals. The driver refuses to list an empty graph.
        return
    found = (ctypes.c_void_p * count.value)()
    _checked(driver.cuGraphGetNodes(ctypes.c_void_p(graph), found, ctypes.byref(count)))
    yield from (node or 0 for node in found[: count.value])


def _checked(code: int) -> None:
    if code:
        raise RuntimeError(f"the driver cannot read the recording: error {code}")


def reason_of(error: BaseException) -> NotCaptured:
    """Return why calls could not be recorded, by the first error raised."""
    # Exceptions are user code: they may have any text, and form a cycle.
    try:
        chain = [error]
        while (before := chain[-1].__context__) is not None and before not in chain:
            chain.append(before)
        first = chain[-1]
        if isinstance(first, NotRecorded):
            return first.reason
        text = str(first)
    except BaseException:
        return NotCaptured.UNKNOWN
    return next((reason for saying, reason in SAYINGS.items() if saying in text), NotCaptured.UNKNOWN)
