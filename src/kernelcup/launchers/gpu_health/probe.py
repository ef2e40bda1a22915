"""Read the state of GPUs from the driver: memory in use, processes, error counters.

This is the control plane's only client of the driver; the harness has its own, which needs no package.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pynvml

from kernelcup.errors import LaunchError

MIB = 1 << 20

APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors caused by a program's own fault, for example an access out of bounds, not by a faulty device."""


class ProbeFailed(LaunchError):
    """The driver does not answer, or its answer cannot be parsed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProcess:
    """A process that has a context on a GPU."""

    pid: int
    name: str
    memory_bytes: int | None = None
    """None if the driver does not report it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReading:
    """One GPU at one moment. Values that the driver does not report are None or left out."""

    gpu: str
    """The name as requested."""
    uuid: str = ""
    memory_used_bytes: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    """The driver's counters by name. Each only grows until the driver is reloaded."""
    remap_failed: bool = False
    """Whether a broken row of its memory could not be replaced: the GPU has to be returned to its manufacturer."""
    temperature_c: int | None = None
    clock_reasons: int | None = None
    """The reasons for lower clocks, as the driver's bit mask."""


class GpuProbe(Protocol):
    """Reads the state of GPUs."""

    def read(self, gpus: Sequence[str]) -> list[GpuReading]:
        """Return a reading for each GPU, named as in ``CUDA_VISIBLE_DEVICES``.

        Raises:
            ProbeFailed: The driver does not answer, or has no such GPU.
        """
        ...


def gpus_here(nvml: Any = pynvml) -> list[tuple[str, str]]:
    """Return UUID and model of each GPU of this machine, in the order of the bus; empty without a driver."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        return [(nvml.nvmlDeviceGetUUID(each), nvml.nvmlDeviceGetName(each)) for each in handles]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


class NvmlProbe:
    """Reads GPUs through the driver's library.

    Args:
        nvml: The module ``pynvml`` of the package ``nvidia-ml-py``; tests pass a fake.
    """

    def __init__(self, nvml: Any = pynvml) -> None:
        self._nvml = nvml
        self._lock = threading.Lock()
        self._xids: Counter[str] = Counter()
        self._listening: set[str] = set()
        self._events: Any = None

    def read(self, gpus: Sequence[str]) -> list[GpuReading]:
        """Return a reading for each GPU. Raise ``ProbeFailed``."""
        try:
            with self._lock:
                self._connect()
                found = {gpu: self._handle(gpu) for gpu in gpus}
                for handle in found.values():
                    self._listen(handle)
                self._collect_xids()
                return [self._reading(gpu, handle) for gpu, handle in found.items()]
        except self._nvml.NVMLError as error:
            raise ProbeFailed(f"NVML: {error}") from error

    def _connect(self) -> None:
        if self._events is None:
            self._nvml.nvmlInit()
            self._events = self._nvml.nvmlEventSetCreate()

    def _handle(self, gpu: str) -> Any:
        if gpu.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(gpu))
        for index in range(self._nvml.nvmlDeviceGetCount()):
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            if self._nvml.nvmlDeviceGetUUID(handle).startswith(gpu):
                return handle
        raise ProbeFailed(f"NVML lists no GPU {gpu}")

    def _reading(self, gpu: str, handle: Any) -> GpuReading:
        nvml = self._nvml
        uuid = nvml.nvmlDeviceGetUUID(handle)
        memory = self._told(nvml.nvmlDeviceGetMemoryInfo, handle)
        remap = self._told(nvml.nvmlDeviceGetRemappedRows, handle)
        return GpuReading(
            gpu=gpu,
            uuid=uuid,
            memory_used_bytes=None if memory is None else int(memory.used),
            processes=tuple(map(_nvml_process, nvml.nvmlDeviceGetComputeRunningProcesses(handle))),
            errors=self._errors(uuid, handle, remap),
            remap_failed=remap is not None and bool(remap[3]),
            temperature_c=self._told(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            clock_reasons=self._told(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
        )

    def _errors(self, uuid: str, handle: Any, remap: Sequence[int] | None) -> dict[str, int]:
        nvml = self._nvml
        kinds = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        cause = nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
        retired = self._told(nvml.nvmlDeviceGetRetiredPages, handle, cause)
        counted = {
            "uncorrected memory errors": self._told(nvml.nvmlDeviceGetTotalEccErrors, handle, *kinds),
            "retired pages": None if retired is None else len(retired),
            "remapped rows": None if remap is None else remap[1],
            "row remaps that wait for a reset": None if remap is None else int(remap[2]),
            "Xid errors": self._xids[uuid] if uuid in self._listening else None,
        }
        return {name: int(count) for name, count in counted.items() if count is not None}

    def _told(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that not every GPU supports; return None if this GPU does not."""
        try:
            return question(*arguments)
        except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_NoPermission):
            return None

    def _listen(self, handle: Any) -> None:
        uuid = self._nvml.nvmlDeviceGetUUID(handle)
        if uuid in self._listening:
            return
        wanted = self._nvml.nvmlEventTypeXidCriticalError
        try:
            self._nvml.nvmlDeviceRegisterEvents(handle, wanted, self._events)
        except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_NoPermission):
            return
        self._listening.add(uuid)

    def _collect_xids(self) -> None:
        while self._listening:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError_Timeout:
                return
            if event.eventData not in APPLICATION_XIDS:
                self._xids[self._nvml.nvmlDeviceGetUUID(event.device)] += 1


def _nvml_process(process: Any) -> GpuProcess:
    used = process.usedGpuMemory
    return GpuProcess(pid=process.pid, name=_process_name(process.pid), memory_bytes=used)


def _process_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "[Not Found]"  # it has ended, or belongs to another container


DRIVER = Path("/proc/driver/nvidia/version")


@functools.cache
def facts_here(driver: Path = DRIVER) -> dict[str, Any]:
    """Return the machine's GPUs by model, its driver, its cores and its memory in GiB."""
    try:
        text = driver.read_text()
    except OSError:
        text = ""
    version = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "gpus": [model for _, model in gpus_here()],
        "driver": version[0] if version else "",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / (1 << 30)),
    }
