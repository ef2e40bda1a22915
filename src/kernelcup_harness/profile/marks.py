"""Marks one call for a profiler around this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelcup_harness.wire.messages import Profiled

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
