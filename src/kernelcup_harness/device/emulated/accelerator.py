"""The emulated device: the processor under another name, and a ``torch`` that is patched at the start."""

from __future__ import annotations

from typing import Any

from kernelcup_harness.device import machine
from kernelcup_harness.device.cpu.accelerator import Cpu


class Emulated(Cpu):
    """A GPU that the processor stands in for."""

    def start(self) -> None:
        """Have ``torch`` and Triton answer for one GPU."""
        from kernelcup_harness.device.emulated import emulation

        emulation.install()

    def describe(self) -> dict[str, Any]:
        """Return its name."""
        return {"device": f"emulated on {machine.processor_name()}"}

    def describe_without_torch(self) -> dict[str, Any]:
        """Return its name and an empty state."""
        return super().describe_without_torch() | self.describe()
