"""What a kind of device is to the harness.

``accelerators.of`` chooses one by the backend of a job. To have its calls replayed, a device needs four more parts,
each behind a port beside its user: ``Mapping`` (the judge's window), ``Hands`` (capture and export), ``Engine``
(rebuild and start gun), and ``Sampler`` (the witness's counters). Only ``device/nvidia`` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kernelcup_harness.device.memory import DeviceMemory
from kernelcup_harness.isolation.layout import DeviceNodes


class Gauge(Protocol):
    """Reads the state of a device between two calls."""

    def clock_mhz(self) -> float | None:
        """Return the clock of the multiprocessors."""

    def is_slowed_down(self) -> bool:
        """Return whether heat or the power supply slows the device down."""

    def temperature_c(self) -> float | None:
        """Return the temperature of the chip."""

    def processes(self) -> int | None:
        """Return the number of processes that compute on the device."""


class NoGauge:
    """For devices without such figures."""

    def clock_mhz(self) -> float | None:
        """Unknown."""
        return None

    def is_slowed_down(self) -> bool:
        """Unknown."""
        return False

    def temperature_c(self) -> float | None:
        """Unknown."""
        return None

    def processes(self) -> int | None:
        """Unknown."""
        return None


@dataclass(frozen=True, slots=True)
class Captured:
    """A call of the judge's own as a graph."""

    replay: Callable[[], None]
    nodes: int
    """The least number of its nodes that the device shows."""
    restore: Callable[[], None]
    """Writes its input again, which the call may have written."""
    nbytes: int
    """Of its input."""
    keeps: Any = None


class Accelerator(Protocol):
    """A kind of device. Making one costs nothing and needs no device; only :meth:`describe` imports torch."""

    def is_here(self) -> bool:
        """Return whether this machine has such a device."""

    def sandbox_trouble(self) -> str:
        """Return why processes in this machine's sandbox cannot use the device; empty if they can."""

    def nodes(self, environ: Mapping[str, str]) -> DeviceNodes | None:
        """Return what a sandbox shows of the device to a job in this environment, None if there is nothing to show."""

    def start(self) -> None:
        """Prepare a process that waits for its job. Makes no context on the device."""

    def describe(self) -> dict[str, Any]:
        """Return what torch knows of the device, as fields of the environment of a run."""

    def describe_without_torch(self) -> dict[str, Any]:
        """Return the same as far as it is known without torch, and the state as ``gpu``."""

    def state(self) -> dict[str, str]:
        """Return clocks, temperature and more, for people to compare times; empty if nothing is known."""

    def gauge(self) -> Gauge:
        """Return what reads the state between calls. The process has to have a context on the device."""

    def memory(self) -> DeviceMemory | None:
        """Return the memory that judge and contestant share, None if it is the host's."""

    def captured(self, call: Callable[[Any], Any], make: Callable[[], Any]) -> Captured:
        """Return a call on a new input as a graph. Raise ``RuntimeError`` if it cannot be captured."""
