"""The kernels of the trusted contestant: a no-op and a spin, called like those of any submission."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from kernelcup_harness import aliasing, wire

PROFILED_LAUNCHES = 30


class Noop:
    """Returns an answer of the agreed form that was made before the call."""

    def __init__(self) -> None:
        self._answer: Any = None

    def prepare(self, frame: dict[str, Any]) -> None:
        """Make the answer: tensors of the form's shapes, with any contents."""
        decoder = wire.Decoder(Nothing(), frame["table"], wire.importing_record_type, dense=False)
        self._answer = wire.with_tensors(decoder.value(frame["tree"]), whole)

    def __call__(self, _data: Any) -> Any:
        """Return the answer."""
        return self._answer

    def renew(self) -> None:
        """Write the answer, so that it lies in the cache like that of a submission's call."""
        for each in aliasing.leaves(self._answer):
            each.zero_()


def nothing() -> None:
    """Do nothing: other kernels need no step when an input is given."""


class Nothing:
    """Memory whose tensors are all zeros, if only their form matters."""

    size = 1 << 62

    def take(self, device: str, _offset: int, nbytes: int) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(nbytes, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor like an expanded one."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def spin(data: dict[str, Any]) -> None:
    """Keep the device busy for ``cycles`` of its clock; with 0 cycles the kernel is empty."""
    torch.cuda._sleep(data["cycles"])


def spin_on_host(data: dict[str, Any]) -> None:
    """Keep the processor busy for ``cycles`` nanoseconds."""
    end = time.perf_counter_ns() + data["cycles"]
    while time.perf_counter_ns() < end:
        pass


def empty_kernel_ns() -> float | None:
    """Return the profiler's time of an empty kernel in nanoseconds; None if the profiler cannot be used."""
    from torch.profiler import ProfilerActivity, profile

    durations: list[float] = []
    with contextlib.suppress(RuntimeError, AttributeError):
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            for _ in range(PROFILED_LAUNCHES):
                torch.cuda._sleep(0)
            torch.cuda.synchronize()
        events = recorded.profiler.kineto_results.events()
        durations = [float(event.duration_ns()) for event in events if "spin" in event.name()]
    return statistics.median(durations) if durations else None


def kernels(*, gpu: bool) -> dict[str, Callable[[Any], Any]]:
    """Return the kernels by name."""
    return {"noop": Noop(), "spin": spin if gpu else spin_on_host}
