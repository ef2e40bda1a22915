"""Read the state of GPUs from the driver: memory in use, processes, error counters.

NVML answers in a millisecond and reports Xid errors; if its Python package is not installed, ``nvidia-smi``
provides the rest. Only the standard library and ``kernelcup.errors`` are needed.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelcup.errors import LaunchError

MIB = 1 << 20
SMI_TIMEOUT_S = 10.0

APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors caused by a program's own fault, for example an access out of bounds, not by a faulty device."""


SLOWED_DOWN = 0x08 | 0x20 | 0x40 | 0x80
"""The reasons for lower clocks that count: hardware, heat (software and hardware limits), and the power supply. A
power limit that a kernel itself reaches does not count, and neither does idleness."""


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


def find_probe() -> GpuProbe:
    """Return the probe for NVML if its package and library are installed, else the one for nvidia-smi."""
    try:
        import pynvml
    except ImportError:
        return SmiProbe()
    try:
        return NvmlProbe(pynvml)
    except ProbeFailed:
        return SmiProbe()


# --- nvidia-smi


GPU_FIELDS = ("index", "uuid", "memory.used")
"""The fields that each reading needs."""
MORE_FIELDS = {
    "ecc.errors.uncorrected.volatile.total": "uncorrected memory errors",
    "retired_pages.double_bit.count": "retired pages",
}
STATE_FIELDS = ("temperature.gpu", "clocks_throttle_reasons.active")
PROCESS_FIELDS = ("gpu_uuid", "pid", "used_memory", "process_name")
REMAP_FIELDS = {
    "remapped_rows.uncorrectable": "remapped rows",
    "remapped_rows.pending": "row remaps that wait for a reset",
}
REMAP_FAILED = "remapped_rows.failure"

UNTOLD = frozenset({"[N/A]", "N/A", "[Not Supported]", "[Not Found]", "[Insufficient Permissions]"})
_WORDS = {"no": 0, "yes": 1, "not active": 0, "active": 1}
_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')

Rows = list[dict[str, str]]


def ask_smi(arguments: Sequence[str]) -> str:
    """Return the output of nvidia-smi. Raise ``ProbeFailed`` with its error message."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ProbeFailed(f"nvidia-smi did not answer within {SMI_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise ProbeFailed(f"nvidia-smi cannot be started: {error}") from error
    if done.returncode != 0:
        raise ProbeFailed(f"nvidia-smi ended with {done.returncode}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


class SmiProbe:
    """Reads GPUs through nvidia-smi.

    Args:
        ask: Runs it with arguments; tests pass recorded answers.
    """

    def __init__(self, ask: Callable[[Sequence[str]], str] = ask_smi) -> None:
        self._ask = ask
        self._unknown: set[str] = set()
        """Fields that this version of nvidia-smi does not have."""

    def read(self, gpus: Sequence[str]) -> list[GpuReading]:
        """Return a reading for each GPU. Raise ``ProbeFailed``."""
        rows = self._query("gpu", [*GPU_FIELDS, *MORE_FIELDS, *STATE_FIELDS])
        processes = self._query("compute-apps", PROCESS_FIELDS)
        remaps = {row["gpu_uuid"]: row for row in self._remaps()}
        readings = []
        for gpu in gpus:
            row = next((row for row in rows if _is_meant(gpu, row["index"], row["uuid"])), None)
            if row is None:
                raise ProbeFailed(f"nvidia-smi lists no GPU {gpu}")
            readings.append(_smi_reading(gpu, row, remaps.get(row["uuid"], {}), processes))
        return readings

    def _remaps(self) -> Rows:
        try:
            return self._query("remapped-rows", ["gpu_uuid", *REMAP_FIELDS, REMAP_FAILED])
        except ProbeFailed:
            return []  # GPUs without such memory, and older versions, refuse the whole query

    def _query(self, kind: str, fields: Sequence[str]) -> Rows:
        """Query a table, without the fields that this version does not know."""
        while True:
            known = [name for name in fields if name not in self._unknown]
            try:
                answer = self._ask([f"--query-{kind}={','.join(known)}", "--format=csv,noheader,nounits"])
            except ProbeFailed as error:
                refused = set(_UNKNOWN_FIELD.findall(str(error))) & set(known)
                if not refused or not refused.isdisjoint((*GPU_FIELDS, *PROCESS_FIELDS)):
                    raise
                self._unknown |= refused
                continue
            return list(_rows(answer, known))


def _rows(answer: str, fields: Sequence[str]) -> Iterator[dict[str, str]]:
    for line in answer.splitlines():
        if not line.strip():
            continue
        # Only the last field, the name of a process, may contain commas.
        parts = [part.strip() for part in line.split(",", len(fields) - 1)]
        if len(parts) != len(fields):
            raise ProbeFailed(f"nvidia-smi: expected {len(fields)} values, got {line!r}")
        yield dict(zip(fields, parts, strict=True))


def _smi_reading(gpu: str, row: Mapping[str, str], remap: Mapping[str, str], processes: Rows) -> GpuReading:
    counted = {
        text: count
        for source, names in ((row, MORE_FIELDS), (remap, REMAP_FIELDS))
        for name, text in names.items()
        if (count := _number(source, name)) is not None
    }
    used = _number(row, "memory.used")
    return GpuReading(
        gpu=gpu,
        uuid=row["uuid"],
        memory_used_bytes=None if used is None else used * MIB,
        processes=tuple(_smi_process(each) for each in processes if each["gpu_uuid"] == row["uuid"]),
        errors=counted,
        remap_failed=bool(_number(remap, REMAP_FAILED)),
        temperature_c=_number(row, "temperature.gpu"),
        clock_reasons=_number(row, "clocks_throttle_reasons.active"),
    )


def _smi_process(row: Mapping[str, str]) -> GpuProcess:
    pid, used = _number(row, "pid"), _number(row, "used_memory")
    if pid is None:
        raise ProbeFailed("nvidia-smi lists a process without its number")
    return GpuProcess(pid=pid, name=row["process_name"], memory_bytes=None if used is None else used * MIB)


def _number(row: Mapping[str, str], name: str) -> int | None:
    """Return a number, None if the driver does not report it. Raise ``ProbeFailed`` for anything else."""
    text = row.get(name, "[N/A]")
    if text in UNTOLD:
        return None
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return int(text, 0)
    except ValueError:
        # for example `[Unknown Error]` or `[GPU requires reset]`
        raise ProbeFailed(f"nvidia-smi says {text!r} for {name}") from None


def _is_meant(gpu: str, index: str, uuid: str) -> bool:
    return gpu == index or (not gpu.isdecimal() and uuid.startswith(gpu))


# --- NVML


class NvmlProbe:
    """Reads GPUs through the driver's library.

    Args:
        nvml: The module ``pynvml`` of the package ``nvidia-ml-py``.

    Raises:
        ProbeFailed: The library is not installed.
    """

    is_quick = True
    """It is fast enough to be used while a job is measured."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._lock = threading.Lock()
        self._xids: Counter[str] = Counter()
        self._listening: set[str] = set()
        try:
            nvml.nvmlInit()
            self._events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            raise ProbeFailed(f"NVML: {error}") from error

    def read(self, gpus: Sequence[str]) -> list[GpuReading]:
        """Return a reading for each GPU. Raise ``ProbeFailed``."""
        try:
            with self._lock:
                found = {gpu: self._handle(gpu) for gpu in gpus}
                for handle in found.values():
                    self._listen(handle)
                self._collect_xids()
                return [self._reading(gpu, handle) for gpu, handle in found.items()]
        except self._nvml.NVMLError as error:
            raise ProbeFailed(f"NVML: {error}") from error

    def _handle(self, gpu: str) -> Any:
        if gpu.isdecimal():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(gpu))
        for index in range(self._nvml.nvmlDeviceGetCount()):
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            if _text(self._nvml.nvmlDeviceGetUUID(handle)).startswith(gpu):
                return handle
        raise ProbeFailed(f"NVML lists no GPU {gpu}")

    def _reading(self, gpu: str, handle: Any) -> GpuReading:
        nvml = self._nvml
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
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
        uuid = _text(self._nvml.nvmlDeviceGetUUID(handle))
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
                self._xids[_text(self._nvml.nvmlDeviceGetUUID(event.device))] += 1


def _nvml_process(process: Any) -> GpuProcess:
    used = process.usedGpuMemory
    return GpuProcess(pid=process.pid, name=_process_name(process.pid), memory_bytes=used)


def _process_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "[Not Found]"  # it has ended, or belongs to another container


def _text(value: str | bytes) -> str:
    """Return a string from NVML, which older versions of its package return as bytes."""
    return value.decode() if isinstance(value, bytes) else value
