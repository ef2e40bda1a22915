"""Captures submissions that replay CUDA graphs of their own.

A graph cannot be launched on a stream that is being captured. While the harness captures, a replay adds the graph as
a child node instead. ``torch.compile`` is kept from making graphs: the harness's own graph launches its kernels.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

from kernelcup_harness.device.nvidia.driver import Driver, u64

SET_DEPENDENCIES = 1
COMPILED_GRAPHS = "triton.cudagraphs"


def keep_graphs(driver: Driver, pool: torch.cuda.MemPool) -> None:
    """Make new graphs keep their nodes, take memory from a pool, and be capturable.

    Args:
        driver: With a current context.
        pool: A pool in the window for these graphs alone; it lives as long as they do.
    """
    plain = torch.cuda.CUDAGraph
    make, start, begin, replay = plain.__new__, plain.__init__, plain.capture_begin, plain.replay

    def make_kept(cls: Any, *_arguments: Any, **_named: Any) -> Any:
        return make(cls, keep_graph=True)

    def start_kept(graph: Any, *_arguments: Any, **_named: Any) -> None:
        start(graph, keep_graph=True)

    def begin_in_pool(
        graph: Any, _pool: Any = None, capture_error_mode: str = "global", **_named: Any
    ) -> None:
        begin(graph, pool=pool.id, capture_error_mode=capture_error_mode)

    def launch(graph: Any) -> None:
        if torch.cuda.is_current_stream_capturing():
            add_child(driver, graph.raw_cuda_graph(), torch.cuda.current_stream().cuda_stream)
        else:
            replay(graph)

    plain.__new__, plain.__init__ = make_kept, start_kept
    plain.capture_begin, plain.replay = begin_in_pool, launch
    torch.compile = without_graphs_once(torch.compile)


def without_graphs_once(plain: Any) -> Any:
    """Return a ``torch.compile`` that makes no graphs. The patch is applied at the first call, because it imports for
    seconds."""

    @functools.wraps(plain)
    def compile_kept(*arguments: Any, **named: Any) -> Any:
        if not compiled:
            compiled.append(True)
            compile_without_graphs()
        return plain(*arguments, **named)

    compiled: list[bool] = []
    return compile_kept


def add_child(driver: Driver, graph: int, stream: int) -> None:
    """Add a graph to the capture on a stream, after everything captured so far."""
    status, number, count = ctypes.c_int(), u64(), ctypes.c_size_t()
    captured, dependencies, node = u64(), ctypes.c_void_p(), u64()
    driver(
        "cuStreamGetCaptureInfo_v2",
        u64(stream),
        *map(ctypes.byref, (status, number, captured, dependencies, count)),
    )
    driver("cuGraphAddChildGraphNode", ctypes.byref(node), captured, dependencies, count, u64(graph))
    driver(
        "cuStreamUpdateCaptureDependencies",
        u64(stream),
        ctypes.byref(node),
        ctypes.c_size_t(1),
        ctypes.c_uint(SET_DEPENDENCIES),
    )


def compile_without_graphs() -> None:
    """Keep ``torch.compile`` from making graphs in any of its modes."""
    import torch._inductor as inductor

    listed = inductor.list_mode_options

    def without_graphs(*arguments: Any, **named: Any) -> dict[str, Any]:
        options = listed(*arguments, **named)
        return {name: value for name, value in options.items() if name != COMPILED_GRAPHS}

    inductor.list_mode_options = without_graphs
