from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernelcup.launchers.gpu_health.probe import MIB, GpuProcess, NvmlProbe, ProbeFailed, gpus_here

FIRST, SECOND = "GPU-1f2a5c3e-0000-1111-2222-333344445555", "GPU-9e8d7c6b-0000-1111-2222-333344445555"


class NVMLError(Exception):
    """As pynvml has it."""


class NotSupported(NVMLError):
    """As pynvml has it."""


class NoPermission(NVMLError):
    """As pynvml has it."""


class Timeout(NVMLError):
    """As pynvml has it."""


class FakeNvml:
    """As much of pynvml as we use, for two GPUs; handles are their indices."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NotSupported
    NVMLError_NoPermission = NoPermission
    NVMLError_Timeout = Timeout
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self) -> None:
        self.users = 0
        self.events: list[tuple[int, int]] = []
        self.registered: list[int] = []

    def nvmlInit(self) -> None:  # noqa: N802
        self.users += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.users -= 1

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "events"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index > 1:
            raise NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return (FIRST, SECOND)[handle]

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return ("NVIDIA H100 80GB HBM3", "NVIDIA L4")[handle]

    def nvmlDeviceGetMemoryInfo(self, handle: int):  # noqa: N802
        return SimpleNamespace(used=5 * MIB)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int):  # noqa: N802
        return [SimpleNamespace(pid=2**30, usedGpuMemory=None)] if handle else []

    def nvmlDeviceGetRemappedRows(self, handle: int):  # noqa: N802
        return (3, 1, True, handle == 1)

    def nvmlDeviceGetRetiredPages(self, handle: int, cause: int):  # noqa: N802
        assert cause == 1
        raise NotSupported("retired pages")

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:  # noqa: N802
        assert (kind, counter) == (1, 0)
        return 4

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        return 33

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        return 1

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: str) -> None:  # noqa: N802
        assert (kinds, events) == (8, "events")
        self.registered.append(handle)

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int):  # noqa: N802
        assert timeout_ms == 0
        if not self.events:
            raise Timeout("timeout")
        device, xid = self.events.pop(0)
        return SimpleNamespace(device=device, eventData=xid)


def test_two_gpus_are_read() -> None:
    first, second = NvmlProbe(FakeNvml()).read(["0", "GPU-9e8d"])
    assert (first.uuid, first.memory_used_bytes, first.processes) == (FIRST, 5 * MIB, ())
    assert (first.temperature_c, first.clock_reasons, first.remap_failed) == (33, 1, False)
    assert first.errors == {
        "uncorrected memory errors": 4,
        "remapped rows": 1,
        "row remaps that wait for a reset": 1,
        "Xid errors": 0,
    }
    assert (second.uuid, second.remap_failed) == (SECOND, True)
    assert second.processes == (GpuProcess(pid=2**30, name="[Not Found]"),)


def test_xids_are_counted_for_their_gpu_but_not_those_of_a_programs_own_fault() -> None:
    nvml = FakeNvml()
    probe = NvmlProbe(nvml)
    probe.read(["0"])
    nvml.events = [(0, 79), (0, 31), (0, 13), (0, 48)]
    assert probe.read(["0"])[0].errors["Xid errors"] == 2
    assert probe.read(["0", "1"])[1].errors["Xid errors"] == 0
    assert nvml.registered == [0, 1]


def test_what_nvml_cannot_tell_is_left_out() -> None:
    nvml = FakeNvml()
    for name in ("nvmlDeviceRegisterEvents", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows"):
        setattr(nvml, name, refuse)
    (reading,) = NvmlProbe(nvml).read(["0"])
    assert (reading.errors, reading.remap_failed) == ({}, False)


def refuse(*_args):
    raise NotSupported("not here")


@pytest.mark.parametrize("gpu", ["2", "GPU-ffff"])
def test_nvml_has_only_its_gpus(gpu: str) -> None:
    with pytest.raises(ProbeFailed, match="NVML"):
        NvmlProbe(FakeNvml()).read([gpu])


class NoLibrary(FakeNvml):
    """The package on a machine without NVIDIA's driver."""

    def nvmlInit(self) -> None:  # noqa: N802
        raise NVMLError("Shared Library Not Found")


def test_a_machine_without_a_driver_gives_no_reading() -> None:
    with pytest.raises(ProbeFailed, match="NVML: Shared Library Not Found"):
        NvmlProbe(NoLibrary()).read(["0"])


def test_the_gpus_of_a_machine_are_listed_and_the_driver_is_let_go() -> None:
    nvml = FakeNvml()
    assert gpus_here(nvml) == [(FIRST, "NVIDIA H100 80GB HBM3"), (SECOND, "NVIDIA L4")]
    assert nvml.users == 0
    assert gpus_here(NoLibrary()) == []
