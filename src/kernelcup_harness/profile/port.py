"""What a profiler is: it works inside the process that makes a call, or around a process.

``torch_trace.TorchTrace`` and ``marks.Marks`` work inside, ``ncu.Ncu`` around. AMD's ``rocprofv3`` would be another one
around; nothing of it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kernelcup_harness.wire.messages import Profiled


class Inside(Protocol):
    """Profiles calls in the process that makes them."""

    def inside(self, call: Callable[[], Any], settle: Callable[[], None]) -> Profiled:
        """Make a call and return what was seen of it; ``settle`` waits for the device."""


class Around(Protocol):
    """Profiles what a process does between its marks."""

    @property
    def visible(self) -> tuple[str, ...]:
        """Folders that its sandbox has to show beside the usual ones."""

    @property
    def fds(self) -> Sequence[int]:
        """Descriptors that the process has to inherit."""

    def around(self, argv: Sequence[str], parent: str) -> list[str]:
        """Return the command that runs ``argv`` under the profiler; ``parent`` is the process that starts it."""


Profiler = Inside | Around


WARM_UPS = 2
"""Calls before the marked one, which compile kernels and allocate workspaces."""


class Marks:
    """Makes a call between the marks that a profiler waits for."""

    def inside(self, call: Callable[[], Any], settle: Callable[[], None]) -> Profiled:
        """Make a call to warm up, then once between the marks. What was seen of it is told by the profiler."""
        import torch

        for _ in range(WARM_UPS):
            call()
        settle()
        torch.cuda.profiler.start()
        try:
            call()
            settle()
        finally:
            torch.cuda.profiler.stop()
        return Profiled(text="", trace="")
