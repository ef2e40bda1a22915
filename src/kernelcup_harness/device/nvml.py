"""The state of the GPU as the driver reports it: clock, temperature, reasons for slowing down, processes.

Read through ``libnvidia-ml`` in the judge: it needs no package, and the contestant has no influence.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Protocol

SM_CLOCK = 1
GPU_TEMPERATURE = 0
SLOWED_DOWN = 0x08 | 0x20 | 0x40 | 0x80
"""Reasons ``HwSlowdown``, ``SwThermalSlowdown``, ``HwThermalSlowdown`` and ``HwPowerBrakeSlowdown``.

A power limit reached by the kernel itself is not among them."""
MOST_PROCESSES = 64


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


class Nvml:
    """Asks the driver. Each of its functions returns 0 on success.

    Args:
        library: The loaded library.
        uuid: The device as ``GPU-...``; empty for the first.
    """

    def __init__(self, library: Any, uuid: str = "") -> None:
        self._library = library
        self._device = ctypes.c_void_p()
        found = library.nvmlInit_v2() == 0 and self._find(uuid)
        if not found:
            raise OSError("the driver reports nothing about this device")

    def clock_mhz(self) -> float | None:
        """Return the clock of the multiprocessors."""
        return self._number(self._library.nvmlDeviceGetClockInfo, SM_CLOCK)

    def temperature_c(self) -> float | None:
        """Return the temperature of the chip."""
        return self._number(self._library.nvmlDeviceGetTemperature, GPU_TEMPERATURE)

    def is_slowed_down(self) -> bool:
        """Return whether heat or the power supply slows the device down."""
        reasons = ctypes.c_ulonglong()
        ask = self._library.nvmlDeviceGetCurrentClocksThrottleReasons
        return ask(self._device, ctypes.byref(reasons)) == 0 and bool(reasons.value & SLOWED_DOWN)

    def processes(self) -> int | None:
        """Return the number of processes that compute on the device; None if 0 is reported: one always does."""
        count = ctypes.c_uint(MOST_PROCESSES)
        # Each entry has 24 bytes: process id, memory, two numbers of instances.
        entries = (ctypes.c_ulonglong * (3 * MOST_PROCESSES))()
        ask = self._library.nvmlDeviceGetComputeRunningProcesses_v3
        return count.value or None if ask(self._device, ctypes.byref(count), entries) == 0 else None

    def _find(self, uuid: str) -> bool:
        device = ctypes.byref(self._device)
        if uuid and self._library.nvmlDeviceGetHandleByUUID(uuid.encode(), device) == 0:
            return True
        return bool(self._library.nvmlDeviceGetHandleByIndex_v2(0, device) == 0)

    def _number(self, ask: Any, what: int) -> float | None:
        value = ctypes.c_uint()
        return float(value.value) if ask(self._device, what, ctypes.byref(value)) == 0 else None


def gauge(*, gpu: bool) -> Gauge:
    """Return the gauge of this process's first GPU."""
    if not gpu:
        return NoGauge()
    import torch

    uuid = str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))
    with contextlib.suppress(OSError, AttributeError):
        return Nvml(ctypes.CDLL("libnvidia-ml.so.1"), f"GPU-{uuid.removeprefix('GPU-')}" if uuid else "")
    return NoGauge()
