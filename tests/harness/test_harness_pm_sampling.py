"""Sampling of hardware counters: what CUPTI is asked, in structures of its sizes, and what is refused."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from kernelcup_harness.device.nvidia import cupti, pm_sampling
from kernelcup_harness.device.nvidia.pm_sampling import Sample, Sampler
from kernelcup_harness.window.reasons import NoCounters

SIZES = {
    "_Initialize": 16,
    "_ChipName": 32,
    "_Availability": 40,
    "_Enable": 32,
    "_Sampler": 24,
    "_SetConfig": 64,
    "_Decode": 45,
    "_ImageSize": 56,
    "_InitImage": 40,
    "_ImageInfo": 56,
    "_SampleInfo": 64,
    "_HostInit": 48,
    "_AddMetrics": 40,
    "_ConfigSize": 32,
    "_GetConfig": 40,
    "_Passes": 40,
    "_Evaluate": 72,
}
"""As in CUPTI's headers, in the order of the file."""
COUNTERS = ("sm__cycles_active.max", "sm__inst_executed.sum")
SAMPLER, HOST = 77, 88
HIGH_BITS = 5 << 52


class FakeCupti:
    """CUPTI's functions that a sampler calls.

    What it enforces: sizes of structures, steps in their order, one configuration, room for what is returned, and an
    image that was made ready before it is written.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.passes = 1
        self.overflow = 0
        self.why_stopped = pm_sampling.END_OF_RECORDS
        self.records = [(1_000 * at, 1_000 * at + 1_000, (float(at), 10.0 * at)) for at in range(4)]
        self.fails: dict[str, int] = {}
        self.names: list[str] = []
        self.configured: dict[str, int] = {}
        self._is_ready = False
        self._is_on = False

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cupti"):
            raise AttributeError(name)
        return lambda params: self._call(name, params._obj)

    def cuptiGetResultString(self, code: int, text: Any) -> int:  # noqa: N802
        text._obj.value = f"ERROR_{code}".encode()
        return 0

    def _call(self, name: str, params: Any) -> int:
        self.log.append(name)
        assert params.size == SIZES[type(params).__name__]
        assert params.private is None
        if name in self.fails:
            return self.fails[name]
        answer = getattr(self, "_" + name.removeprefix("cupti"), None)
        return 0 if answer is None else int(answer(params) or 0)

    def _DeviceGetChipName(self, params: Any) -> None:  # noqa: N802
        params.name = b"GH100"

    def _PmSamplingGetCounterAvailability(self, params: Any) -> None:  # noqa: N802
        if params.image:
            assert params.image_bytes == 10
            ctypes.memset(params.image, 7, 10)
        params.image_bytes = 10

    def _PmSamplingEnable(self, params: Any) -> None:  # noqa: N802
        params.sampler = SAMPLER

    def _ProfilerHostInitialize(self, params: Any) -> None:  # noqa: N802
        assert (params.kind, params.chip) == (pm_sampling.PM_SAMPLING, b"GH100")
        assert ctypes.string_at(params.available, 10) == b"\7" * 10
        params.host = HOST

    def _ProfilerHostConfigAddMetrics(self, params: Any) -> None:  # noqa: N802
        self.names = names_at(params)

    def _ProfilerHostGetConfigImageSize(self, params: Any) -> None:  # noqa: N802
        params.config_bytes = 20

    def _ProfilerHostGetConfigImage(self, params: Any) -> None:  # noqa: N802
        ctypes.memset(params.config, 9, params.config_bytes)

    def _ProfilerHostGetNumOfPasses(self, params: Any) -> None:  # noqa: N802
        assert ctypes.string_at(params.config, params.config_bytes) == b"\t" * 20
        params.passes = self.passes

    def _PmSamplingSetConfig(self, params: Any) -> None:  # noqa: N802
        assert not self.configured
        assert params.sampler == SAMPLER
        wanted = ("interval", "trigger", "append", "buffer_bytes")
        self.configured = {each: getattr(params, each) for each in wanted}

    def _PmSamplingGetCounterDataSize(self, params: Any) -> None:  # noqa: N802
        assert names_at(params) == self.names
        self.most = params.most
        params.image_bytes = 100

    def _PmSamplingCounterDataImageInitialize(self, params: Any) -> None:  # noqa: N802
        assert params.image_bytes == 100
        assert self.configured
        ctypes.memset(params.image, 1, 100)
        self._is_ready = True

    def _PmSamplingStart(self, params: Any) -> None:  # noqa: N802
        assert params.sampler == SAMPLER
        assert not self._is_on
        self._is_on = True

    def _PmSamplingStop(self, _params: Any) -> None:  # noqa: N802
        assert self._is_on
        self._is_on = False

    def _PmSamplingDecodeData(self, params: Any) -> None:  # noqa: N802
        assert self._is_ready
        self._is_ready = False
        params.overflow, params.why_stopped = self.overflow, self.why_stopped

    def _PmSamplingGetCounterDataInfo(self, params: Any) -> None:  # noqa: N802
        params.total = params.populated = params.completed = len(self.records)

    def _PmSamplingCounterDataGetSampleInfo(self, params: Any) -> None:  # noqa: N802
        params.start, params.end = (HIGH_BITS + at for at in self.records[params.index][:2])

    def _ProfilerHostEvaluateToGpuValues(self, params: Any) -> None:  # noqa: N802
        assert params.host == HOST
        assert names_at(params) == self.names
        values = self.records[params.index][2]
        (ctypes.c_double * params.count).from_address(params.values)[:] = values


class FakeCuda:
    code = 0

    def cuInit(self, _flags: int) -> int:  # noqa: N802
        return self.code


def names_at(params: Any) -> list[str]:
    return [each.decode() for each in (ctypes.c_char_p * params.count).from_address(params.names)]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    found = FakeCupti()
    monkeypatch.setattr(cupti, "library", lambda: found)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: FakeCuda())
    return found


def made() -> Sampler:
    return Sampler(COUNTERS, interval_ns=2_000, most=64)


@pytest.mark.parametrize("name", SIZES)
def test_structures_are_as_large_as_in_the_headers(name: str) -> None:
    assert getattr(pm_sampling, name).made().size == SIZES[name]


def test_fields_lie_where_the_library_has_them() -> None:
    # A byte at the end: the whole would be as large as the next multiple of 8.
    assert ctypes.sizeof(pm_sampling._Decode) == 48
    assert pm_sampling._SetConfig.interval.offset == 48
    assert pm_sampling._ImageSize.most.offset == 40
    assert pm_sampling._ImageSize.image_bytes.offset == 48
    assert pm_sampling._HostInit.chip.offset == 24


def test_a_sampler_samples_by_time_and_keeps_the_oldest(library: FakeCupti) -> None:
    made()

    assert library.names == list(COUNTERS)
    assert library.most == 64
    assert library.configured == {
        "interval": 2_000,
        "trigger": pm_sampling.BY_TIME,
        "append": pm_sampling.KEEP_OLDEST,
        "buffer_bytes": pm_sampling.BUFFER_BYTES,
    }


def test_all_samples_but_the_first_are_read_without_the_high_bits_of_their_times(library: FakeCupti) -> None:
    sampler = made()
    sampler.start()
    sampler.stop()

    assert sampler.read() == [
        Sample(1_000, 2_000, (1.0, 10.0)),
        Sample(2_000, 3_000, (2.0, 20.0)),
        Sample(3_000, 4_000, (3.0, 30.0)),
    ]
    assert library.log[-1] == "cuptiPmSamplingCounterDataImageInitialize"


@pytest.mark.parametrize(("name", "value"), [("overflow", 1), ("why_stopped", 1), ("why_stopped", 0)])
def test_lost_samples_are_refused_and_the_next_watch_is_read(
    library: FakeCupti, name: str, value: int
) -> None:
    sampler = made()
    was = getattr(library, name)
    setattr(library, name, value)
    with pytest.raises(NoCounters, match="too long"):
        sampler.read()

    setattr(library, name, was)
    assert len(sampler.read()) == 3


def test_a_watch_without_samples_is_empty(library: FakeCupti) -> None:
    sampler = made()
    library.records.clear()

    assert sampler.read() == []


@pytest.mark.parametrize("passes", [0, 2])
def test_counters_that_do_not_fit_into_one_pass_are_refused(library: FakeCupti, passes: int) -> None:
    library.passes = passes
    with pytest.raises(NoCounters, match=f"take {passes} passes"):
        made()
    assert "cuptiPmSamplingSetConfig" not in library.log


def test_locked_counters_are_told_in_the_librarys_words(library: FakeCupti) -> None:
    library.fails["cuptiPmSamplingEnable"] = 35
    with pytest.raises(NoCounters, match=r"^cuptiPmSamplingEnable answers 35 \(ERROR_35\)$"):
        made()


def test_a_machine_without_the_library_has_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise OSError("libcupti was not found")

    monkeypatch.setattr(cupti, "library", missing)
    with pytest.raises(NoCounters, match="libcupti was not found"):
        made()


def test_a_driver_that_does_not_start_has_no_counters(
    library: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeCuda, "code", 100)
    with pytest.raises(NoCounters, match="cuInit answers 100"):
        made()
    assert library.log == []
