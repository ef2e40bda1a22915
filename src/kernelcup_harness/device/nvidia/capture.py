"""Capturing calls of a submission, one graph for each place of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness.window.allocator import WindowPool


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
