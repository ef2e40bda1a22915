"""The state of a device between two calls."""

from __future__ import annotations

from typing import Protocol


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
