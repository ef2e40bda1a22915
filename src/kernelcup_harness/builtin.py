"""What the trusted contestant computes: nothing, or for a while. Both take the way of any submission."""

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
    """Returns an answer of the agreed form that was there before the call."""

    def __init__(self) -> None:
        self._answer: Any = None

    def prepare(self, frame: dict[str, Any]) -> None:
        """Make the answer: tensors of the form's shapes, whatever is in them."""
        decoder = wire.Decoder(Nothing(), frame["table"], wire.importing_record_type, dense=False)
        self._answer = wire.with_tensors(decoder.value(frame["tree"]), whole)

    def __call__(self, _data: Any) -> Any:
        """Return the answer."""
        return self._answer

    def renew(self) -> None:
        """Write the answer, as a call does: so that it lies in the cache as one of a submission."""
        for each in aliasing.leaves(self._answer):
            each.zero_()


def nothing() -> None:
    """What other kernels do when an input is given."""


class Nothing:
    """Memory from which each tensor is taken as zeros: only its form is of interest."""

    size = 1 << 62

    def take(self, device: str, _offset: int, nbytes: int) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(nbytes, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor like an expanded one."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def spin(data: dict[str, Any]) -> None:
    """Keep the device busy for so many cycles of its clock; with none it is a kernel that does nothing."""
    torch.cuda._sleep(data["cycles"])


def spin_on_host(data: dict[str, Any]) -> None:
    """Keep the processor busy for so many nanoseconds."""
    end = time.perf_counter_ns() + data["cycles"]
    while time.perf_counter_ns() < end:
        pass


def empty_kernel_ns() -> float | None:
    """Return what the profiler sees of an empty kernel; None where it cannot be used here."""
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
