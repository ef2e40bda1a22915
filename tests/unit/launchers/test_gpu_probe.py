from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from kernelcup.launchers.gpu_health import probe as gpu_probe
from kernelcup.launchers.gpu_health.probe import (
    MIB,
    GpuProcess,
    NvmlProbe,
    ProbeFailed,
    SmiProbe,
    ask_smi,
    find_probe,
)

FIRST, SECOND = "GPU-1f2a5c3e-0000-1111-2222-333344445555", "GPU-9e8d7c6b-0000-1111-2222-333344445555"

H100 = {
    "gpu": f"""\
0, {FIRST}, 4, 0, [N/A], 31, 0x0000000000000001
1, {SECOND}, 1033, 2, [N/A], 64, 0x0000000000000004
""",
    "compute-apps": f"""\
{SECOND}, 4711, 1020, /usr/bin/python3
{SECOND}, 4712, [N/A], a name, with commas
""",
    "remapped-rows": f"""\
{FIRST}, 0, 0, 0
{SECOND}, 1, Yes, No
""",
}

CONSUMER = {
    "gpu": f"0, {FIRST}, 311, [N/A], [N/A], 44, Not Active\n",
    "compute-apps": "",
    "remapped-rows": ProbeFailed("nvidia-smi ended with 6: No devices support row remapping"),
}


class Recorded:
    """Answers like nvidia-smi did, and knows some of its fields."""

    def __init__(self, answers, *, unknown: Sequence[str] = ()) -> None:
        self.answers, self.unknown = answers, unknown
        self.asked: list[str] = []

    def __call__(self, arguments: Sequence[str]) -> str:
        query, form = arguments
        assert form == "--format=csv,noheader,nounits"
        kind, fields = query.removeprefix("--query-").split("=")
        self.asked.append(fields)
        for name in self.unknown:
            if name in fields.split(","):
                raise ProbeFailed(f'nvidia-smi ended with 2: Field "{name}" is not a valid field to query.')
        answer = self.answers[kind]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_idle_gpu_is_read() -> None:
    (reading,) = SmiProbe(Recorded(H100)).read(["0"])
    assert (reading.gpu, reading.uuid, reading.memory_used_bytes) == ("0", FIRST, 4 * MIB)
    assert reading.processes == ()
    assert reading.errors == {
        "uncorrected memory errors": 0,
        "remapped rows": 0,
        "row remaps that wait for a reset": 0,
    }
    assert (reading.remap_failed, reading.temperature_c, reading.clock_reasons) == (False, 31, 1)


def test_processes_are_read_with_their_memory_and_odd_names() -> None:
    (reading,) = SmiProbe(Recorded(H100)).read(["1"])
    assert reading.processes == (
        GpuProcess(pid=4711, name="/usr/bin/python3", memory_bytes=1020 * MIB),
        GpuProcess(pid=4712, name="a name, with commas", memory_bytes=None),
    )
    assert reading.errors == {
        "uncorrected memory errors": 2,
        "remapped rows": 1,
        "row remaps that wait for a reset": 1,
    }


def test_a_gpu_is_found_by_the_beginning_of_its_uuid_too() -> None:
    (reading,) = SmiProbe(Recorded(H100)).read(["GPU-9e8d"])
    assert (reading.gpu, reading.uuid) == ("GPU-9e8d", SECOND)


def test_readings_come_in_the_order_that_was_asked_for() -> None:
    assert [reading.uuid for reading in SmiProbe(Recorded(H100)).read(["1", "0"])] == [SECOND, FIRST]


def test_what_a_gpu_does_not_tell_is_left_out() -> None:
    (reading,) = SmiProbe(Recorded(CONSUMER)).read(["0"])
    assert (reading.memory_used_bytes, reading.errors, reading.remap_failed) == (311 * MIB, {}, False)


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "N/A", "[Insufficient Permissions]"])
def test_every_way_to_say_nothing_is_understood(word: str) -> None:
    answers = CONSUMER | {"gpu": f"0, {FIRST}, {word}, {word}, {word}, {word}, {word}\n"}
    (reading,) = SmiProbe(Recorded(answers)).read(["0"])
    assert (reading.memory_used_bytes, reading.temperature_c, reading.clock_reasons) == (None, None, None)


@pytest.mark.parametrize("word", ["[Unknown Error]", "[GPU requires reset]", "ERR!", "12.5 MiB", ""])
def test_anything_else_is_no_reading(word: str) -> None:
    answers = CONSUMER | {"gpu": f"0, {FIRST}, {word}, 0, 0, 40, 0x0\n"}
    with pytest.raises(ProbeFailed, match=r"for memory.used"):
        SmiProbe(Recorded(answers)).read(["0"])


def test_a_line_with_too_few_values_is_no_reading() -> None:
    with pytest.raises(ProbeFailed, match="expected 7 values"):
        SmiProbe(Recorded(CONSUMER | {"gpu": "0, GPU-1\n"})).read(["0"])


def test_a_process_without_a_number_is_no_reading() -> None:
    answers = H100 | {"compute-apps": f"{FIRST}, [N/A], 12, python\n"}
    with pytest.raises(ProbeFailed, match="without its number"):
        SmiProbe(Recorded(answers)).read(["0"])


def test_a_gpu_that_is_not_there_is_no_reading() -> None:
    with pytest.raises(ProbeFailed, match="no GPU 7"):
        SmiProbe(Recorded(H100)).read(["7"])


def test_fields_that_a_version_does_not_know_are_left_out_from_then_on() -> None:
    answers = CONSUMER | {"gpu": f"0, {FIRST}, 311, [N/A], 44\n"}
    recorded = Recorded(answers, unknown=["retired_pages.double_bit.count", "clocks_throttle_reasons.active"])
    probe = SmiProbe(recorded)
    assert probe.read(["0"])[0].temperature_c == 44
    questions = len(recorded.asked)
    assert probe.read(["0"])[0].clock_reasons is None
    assert len(recorded.asked) == questions + 3


def test_a_version_without_the_fields_that_matter_is_no_reading() -> None:
    with pytest.raises(ProbeFailed, match=r"memory.used"):
        SmiProbe(Recorded(H100, unknown=["memory.used"])).read(["0"])


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (subprocess.TimeoutExpired("nvidia-smi", 10), "did not answer within 10 s"),
        (FileNotFoundError("nvidia-smi"), "cannot be started"),
        (subprocess.CompletedProcess([], 9, stdout="", stderr="driver lost"), "ended with 9: driver lost"),
    ],
)
def test_an_nvidia_smi_that_fails_is_told(monkeypatch, outcome, text: str) -> None:
    def run(*_args, **_options):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(gpu_probe.subprocess, "run", run)
    with pytest.raises(ProbeFailed, match=text):
        ask_smi(["-L"])


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

    def __init__(self, *, old: bool = False) -> None:
        self.old = old
        self.events: list[tuple[int, int]] = []
        self.registered: list[int] = []

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "events"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index > 1:
            raise NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:  # noqa: N802
        uuid = (FIRST, SECOND)[handle]
        return uuid.encode() if self.old else uuid

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


@pytest.mark.parametrize("old", [False, True])
def test_nvml_tells_the_same(old: bool) -> None:
    first, second = NvmlProbe(FakeNvml(old=old)).read(["0", "GPU-9e8d"])
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


def test_an_nvml_without_its_library_is_not_used(monkeypatch) -> None:
    nvml = FakeNvml()

    def fail() -> None:
        raise NVMLError("Shared Library Not Found")

    nvml.nvmlInit = fail  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert isinstance(find_probe(), SmiProbe)


def test_nvml_is_used_where_it_is_there(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert isinstance(find_probe(), NvmlProbe)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert isinstance(find_probe(), SmiProbe)
