"""Recording calls into CUDA graphs, so that launches cost the host next to nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(slots=True)
class Recording:
    """Recorded calls and what each returned; its tensors are written anew by each replay."""

    replay: Callable[[], None]
    values: list[Any]


class Recorder(Protocol):
    """Makes recordings."""

    def record(self, calls: Sequence[Callable[[], Any]]) -> Recording:
        """Record calls in one graph. Raise whatever keeps them from being recorded."""


class NoRecorder:
    """For devices without graphs."""

    def record(self, calls: Sequence[Callable[[], Any]]) -> Recording:  # noqa: ARG002
        """Refuse."""
        raise RuntimeError("this device has no graphs to record")


class CudaRecorder:
    """Records on a stream of its own, in the mode that notices everything that would not be in the graph."""

    def record(self, calls: Sequence[Callable[[], Any]]) -> Recording:
        """Call once to warm up on that stream, then record all. The stream in use afterwards is that of before."""
        before, stream = torch.cuda.current_stream(), torch.cuda.Stream()
        try:
            stream.wait_stream(before)
            with torch.cuda.stream(stream):
                calls[0]()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            # Not torch.cuda.graph: it empties the allocator's cache each time.
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="global")
                try:
                    values = [call() for call in calls]
                finally:
                    graph.capture_end()
            torch.cuda.synchronize()
        except BaseException:
            clean_up()
            raise
        finally:
            torch.cuda.set_stream(before)
        return Recording(graph.replay, values)


def clean_up() -> None:
    """Leave the device as it was before a recording that was cut off."""
    # Its error stays for the next call that looks.
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()
    # The generator would refuse to draw outside of a recording that never ended.
    with contextlib.suppress(RuntimeError, AttributeError):
        fresh = torch.Generator("cuda")
        fresh.manual_seed(torch.initial_seed())
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generator.graphsafe_set_state(fresh.graphsafe_get_state())
