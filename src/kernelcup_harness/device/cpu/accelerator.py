"""The processor, which has no state, no memory and no device nodes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernelcup_harness.device.port import Captured, Gauge, NoGauge


class Cpu:
    """The processor of this machine."""

    def is_here(self) -> bool:
        """Return True."""
        return True

    def sandbox_trouble(self) -> str:
        """Return an empty text."""
        return ""

    def nodes(self, _environ: Mapping[str, str]) -> None:
        """Return None."""

    def start(self) -> None:
        """Nothing to prepare."""

    def describe(self) -> dict[str, Any]:
        """Return nothing: the machine's fields name the processor."""
        return {}

    def describe_without_torch(self) -> dict[str, Any]:
        """Return an empty state."""
        return {"gpu": self.state()}

    def state(self) -> dict[str, str]:
        """Return nothing."""
        return {}

    def gauge(self) -> Gauge:
        """Return a gauge that knows nothing."""
        return NoGauge()

    def memory(self) -> None:
        """Return None."""

    def captured(self, _call: Callable[[Any], Any], _make: Callable[[], Any]) -> Captured:
        """Raise ``RuntimeError``."""
        raise RuntimeError("a processor has no graphs")
