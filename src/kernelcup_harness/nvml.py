"""What the driver says of the GPU: clock, temperature, reasons for slowing down, who uses it.

By ``libnvidia-ml`` itself, in the judge: no package is needed, and the contestant has no part in it.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Protocol

SM_CLOCK = 1
GPU_TEMPERATURE = 0
SLOWED_DOWN = 0x08 | 0x20 | 0x40 | 0x80
"""Reasons ``HwSlowdown``, ``SwThermalSlowdown``, ``HwThermalSlowdown`` and ``HwPowerBrakeSlowdown``.

A limit on power that the kernel itself runs into is none of them."""
MOST_PROCESSES = 64


class Gauge(Protocol):
    """What is asked about a device between two calls."""

    def clock_mhz(self) -> float | None:
        """Return the clock of the multiprocessors."""

    def is_slowed_down(self) -> bool:
        """Tell whether heat or the power supply slows the device down."""

    def temperature_c(self) -> float | None:
        """Return the temperature of the chip."""

    def processes(self) -> int | None:
        """Return how many processes compute on the device."""


class NoGauge:
    """For devices of which nobody tells anything."""

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
    """Asks the driver. Each function answers with 0 when it worked.

    Args:
        library: The loaded library.
        uuid: The device as ``GPU-...``; empty for the first.
    """

    def __init__(self, library: Any, uuid: str = "") -> None:
        self._library = library
        self._device = ctypes.c_void_p()
        found = library.nvmlInit_v2() == 0 and self._find(uuid)
        if not found:
            raise OSError("the driver does not tell about this device")

    def clock_mhz(self) -> float | None:
        """Return the clock of the multiprocessors."""
        return self._number(self._library.nvmlDeviceGetClockInfo, SM_CLOCK)

    def temperature_c(self) -> float | None:
        """Return the temperature of the chip."""
        return self._number(self._library.nvmlDeviceGetTemperature, GPU_TEMPERATURE)

    def is_slowed_down(self) -> bool:
        """Tell whether heat or the power supply slows the device down."""
        reasons = ctypes.c_ulonglong()
        ask = self._library.nvmlDeviceGetCurrentClocksThrottleReasons
        return ask(self._device, ctypes.byref(reasons)) == 0 and bool(reasons.value & SLOWED_DOWN)

    def processes(self) -> int | None:
        """Return how many processes compute on the device; None where none is told, for one always does."""
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
    """Return what tells about the first GPU of this process."""
    if not gpu:
        return NoGauge()
    import torch

    uuid = str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))
    with contextlib.suppress(OSError, AttributeError):
        return Nvml(ctypes.CDLL("libnvidia-ml.so.1"), f"GPU-{uuid.removeprefix('GPU-')}" if uuid else "")
    return NoGauge()
