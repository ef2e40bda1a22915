"""A call of the judge's own as a graph: to be launched without Python, and without the gaps that launching causes."""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from kernelcup_harness.device.nvidia.driver import Driver
from kernelcup_harness.device.nvidia.graphs import clean_up
from kernelcup_harness.device.port import Captured

KERNEL = 0
"""The type of a node that launches a kernel."""


def captured(call: Callable[[Any], Any], make: Callable[[], Any]) -> Captured:
    """Return a call on a new input as a graph that was launched once. Raise ``RuntimeError`` if it has none."""
    data, graph = make(), torch.cuda.CUDAGraph(keep_graph=True)
    with warnings.catch_warnings():
        # An empty one is wanted.
        warnings.filterwarnings("ignore", "The CUDA Graph is empty")
        try:
            with torch.cuda.graph(graph):
                answer = call(data)
        except RuntimeError:
            clean_up()
            raise
    kernels = count_kernels(Driver(), graph.raw_cuda_graph())
    graph.replay()
    torch.cuda.synchronize()
    kept = tensors_of(data)

    def restore() -> None:
        for target, source in zip(kept, tensors_of(make()), strict=False):
            # Where a call has changed an input's shape, it stays as it is.
            with contextlib.suppress(RuntimeError):
                target.copy_(source)

    # Its memory belongs to the graph, which is replayed as long as it is there.
    return Captured(graph.replay, kernels, restore, sum(each.nbytes for each in kept), keeps=(data, answer))


def tensors_of(data: Any) -> list[torch.Tensor]:
    """Return the tensors of an input in their order."""
    return [each for each in _pytree.tree_leaves(data) if isinstance(each, torch.Tensor)]


def count_kernels(driver: Driver, graph: int) -> int:
    """Count the nodes of a graph that the device surely shows as dispatches: it shows no short filling of memory."""
    count, kind = ctypes.c_size_t(), ctypes.c_int()
    driver("cuGraphGetNodes", ctypes.c_uint64(graph), None, ctypes.byref(count))
    nodes = (ctypes.c_uint64 * max(1, count.value))()
    if count.value:
        driver("cuGraphGetNodes", ctypes.c_uint64(graph), nodes, ctypes.byref(count))
    kernels = 0
    for node in nodes[: count.value]:
        driver("cuGraphNodeGetType", ctypes.c_uint64(node), ctypes.byref(kind))
        kernels += kind.value == KERNEL
    return kernels
