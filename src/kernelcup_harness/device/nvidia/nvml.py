"""The state of the GPU as the driver reports it: clock, temperature, reasons for slowing down, processes.

Read through ``libnvidia-ml`` in the judge: it needs no package, and the contestant has no influence.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

from kernelcup_harness.device.port import Gauge, NoGauge
from kernelcup_harness.protocol import SLOWED_DOWN

SM_CLOCK, MEMORY_CLOCK = 1, 2
GPU_TEMPERATURE = 0
MOST_PROCESSES = 64
LONGEST_TEXT = 96


class Nvml:
    """Asks the driver. Each of its functions returns 0 on success.

    Args:
        library: The loaded library.
        name: The device as ``GPU-...``, or by its number; empty for the first.
    """

    def __init__(self, library: Any, name: str = "") -> None:
        self._library = library
        self._device = ctypes.c_void_p()
        found = library.nvmlInit_v2() == 0 and self._find(name)
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

    def state(self) -> dict[str, str]:
        """Return name, driver, clocks, temperature, power and used memory, as far as they are known."""
        library, known = self._library, {"name": self._text(self._library.nvmlDeviceGetName, self._device)}
        known["driver_version"] = self._text(library.nvmlSystemGetDriverVersion)
        for name, unit, scale, ask, *what in (
            ("clocks.sm", " MHz", 1, library.nvmlDeviceGetClockInfo, SM_CLOCK),
            ("clocks.mem", " MHz", 1, library.nvmlDeviceGetClockInfo, MEMORY_CLOCK),
            ("temperature.gpu", "", 1, library.nvmlDeviceGetTemperature, GPU_TEMPERATURE),
            ("power.draw", " W", 1000, library.nvmlDeviceGetPowerUsage),
        ):
            value = self._number(ask, *what)
            known[name] = "" if value is None else f"{value / scale:g}{unit}"
        memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        if library.nvmlDeviceGetMemoryInfo_v2(self._device, ctypes.byref(memory)) == 0:
            known["memory.used"] = f"{memory.used >> 20} MiB"
        return {name: text for name, text in known.items() if text}

    def close(self) -> None:
        """Let go of the driver; other gauges of this process keep it."""
        self._library.nvmlShutdown()

    def _text(self, ask: Any, *arguments: Any) -> str:
        text = ctypes.create_string_buffer(LONGEST_TEXT)
        return text.value.decode(errors="replace") if ask(*arguments, text, LONGEST_TEXT) == 0 else ""

    def _find(self, name: str) -> bool:
        device = ctypes.byref(self._device)
        if name.isdecimal():
            found = self._library.nvmlDeviceGetHandleByIndex_v2(int(name), device)
        else:
            found = self._library.nvmlDeviceGetHandleByUUID(name.encode(), device) if name else 1
        if found == 0:
            return True
        return bool(self._library.nvmlDeviceGetHandleByIndex_v2(0, device) == 0)

    def _number(self, ask: Any, *what: int) -> float | None:
        value = ctypes.c_uint()
        return float(value.value) if ask(self._device, *what, ctypes.byref(value)) == 0 else None


class _Memory(ctypes.Structure):
    """``nvmlMemory_v2_t``; all but the version in bytes."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def gauge(*, gpu: bool) -> Gauge:
    """Return the gauge of this process's first GPU."""
    if not gpu:
        return NoGauge()
    import torch

    uuid = str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))
    with contextlib.suppress(OSError, AttributeError):
        return Nvml(_library(), f"GPU-{uuid.removeprefix('GPU-')}" if uuid else "")
    return NoGauge()


def gpu_state() -> dict[str, str]:
    """Return the state of the first GPU that this process may use; empty without a driver.

    NVML itself counts all GPUs of the machine, which may be of different kinds.
    """
    name = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    with contextlib.suppress(OSError, AttributeError), contextlib.closing(Nvml(_library(), name)) as first:
        return first.state()
    return {}


def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libnvidia-ml.so.1")
