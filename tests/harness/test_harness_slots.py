"""The contestant's side of an input: memory at a place, and what the judge reads of the device beside it."""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernelcup_harness.contestant.inputs import Slot
from kernelcup_harness.device.nvidia import l2_cache, nvml
from kernelcup_harness.wire import values
from kernelcup_harness.wire.messages import InputLayout

TWO = {"x": torch.arange(6.0).reshape(2, 3).t(), "y": torch.ones(5, dtype=torch.int16), "n": 3}


def given(slot: Slot, data: Any, *, in_place: bool = False) -> Slot:
    """Have a slot make the tensors of an input, and write its bytes into the slot's shared memory."""
    encoder = values.Encoder()
    tree = encoder.tree(data, "input")
    size = max(1, encoder.nbytes)
    if slot.arena is None:
        slot.arena = values.Arena.create(4096)
    slot.describe(InputLayout(tree=tree, table=encoder.table(), bytes=size, in_place=in_place))
    encoder.write(slot.arena)
    return slot


@pytest.fixture
def slot() -> Iterator[Slot]:
    """A slot whose two tensors are made and not filled."""
    made = given(Slot(gpu=False), TWO)
    yield made
    made.close()


def test_an_input_is_in_its_tensors_once_they_are_filled(slot: Slot) -> None:
    slot.fill()
    assert torch.equal(slot.data["x"], TWO["x"])
    assert slot.data["x"].stride() == TWO["x"].stride()
    assert torch.equal(slot.data["y"], TWO["y"])
    assert slot.data["n"] == 3


def test_tensors_on_the_host_lie_in_the_shared_memory_itself(slot: Slot) -> None:
    first = slot.arena.bytes.data_ptr()
    assert slot.data["x"].data_ptr() == first
    slot.arena.bytes[:24].zero_()
    assert not slot.data["x"].any()


def test_an_input_is_whole_after_a_call_that_wrote_into_the_one_before_it(slot: Slot) -> None:
    slot.data["x"].fill_(7)
    given(slot, TWO)
    slot.touch()
    slot.fill()
    assert torch.equal(slot.data["x"], TWO["x"])


def test_tensors_of_an_input_do_not_seem_to_be_parts_of_one(slot: Slot) -> None:
    x, y = slot.data["x"], slot.data["y"]
    assert x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()
    assert x.untyped_storage().nbytes() == 24
    assert x.data_ptr() % 8 == 0
    before = x._version
    y.add_(1)
    assert x._version == before


def test_the_next_input_of_a_form_lies_where_the_last_one_did(slot: Slot) -> None:
    first = slot.data["x"]
    given(slot, {**TWO, "x": torch.zeros(2, 3).t()})
    slot.fill()
    assert slot.data["x"] is not first
    assert slot.data["x"].data_ptr() == first.data_ptr()
    assert slot.data["x"].sum() == 0


def test_an_input_of_another_form_has_its_own_tensors(slot: Slot) -> None:
    given(slot, {"x": torch.zeros(2)})
    slot.fill()
    assert slot.data["x"].tolist() == [0.0, 0.0]
    assert slot.data.keys() == {"x"}


def test_tensors_outlive_the_slots_shared_memory(slot: Slot) -> None:
    kept = slot.data["x"]
    slot.close()
    slot.arena = values.Arena.create(1 << 20)
    given(slot, {"x": torch.zeros(2)})
    assert torch.equal(kept, TWO["x"])


def test_nothing_that_was_hung_on_a_tensor_is_there_the_next_time(slot: Slot) -> None:
    slot.data["x"].kept = "answer"
    given(slot, TWO)
    assert not hasattr(slot.data["x"], "kept")


def test_gradients_are_wished_for_again(slot: Slot) -> None:
    assert not slot.data["x"].requires_grad
    given(slot, {"x": torch.zeros(2, requires_grad=True)})
    assert slot.data["x"].requires_grad
    assert slot.data["x"].is_leaf


def test_an_input_without_tensors_needs_no_bytes(slot: Slot) -> None:
    given(slot, {"n": 5})
    slot.fill()
    assert slot.data == {"n": 5}


def test_a_slot_that_is_closed_has_no_shared_memory(slot: Slot) -> None:
    fd = slot.arena.fd
    slot.close()
    slot.close()
    assert slot.arena is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


# The device


class FakeDriver:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def cuCtxSetLimit(self, limit: int, value: ctypes.c_size_t) -> int:  # noqa: N802
        self.calls.append((str(limit), value.value))
        return 0

    def cuCtxResetPersistingL2Cache(self) -> int:  # noqa: N802
        self.calls.append(("reset", None))
        return 0


def test_nothing_stays_set_aside_in_the_cache() -> None:
    driver = FakeDriver()
    l2_cache.Persisting(driver).reset()
    assert driver.calls == [("6", 0), ("reset", None)]


class FakeNvml:
    """A driver that knows one device."""

    clock, temperature, reasons, count = 1980, 41, 0, 3

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, _device: Any) -> int:  # noqa: N802
        return 0 if uuid == b"GPU-1" else 6

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, _device: Any) -> int:  # noqa: N802
        return 0 if index == 0 else 2

    def nvmlShutdown(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetName(self, _device: Any, text: Any, length: int) -> int:  # noqa: N802
        assert length == len(text)
        text.value = b"NVIDIA H200"
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, _length: int) -> int:  # noqa: N802
        text.value = b"570.1"
        return 0

    def nvmlDeviceGetMemoryInfo_v2(self, _device: Any, memory: Any) -> int:  # noqa: N802
        assert memory._obj.version == 0x2000028
        memory._obj.used = 512 << 20
        return 0

    def nvmlDeviceGetClockInfo(self, _device: Any, kind: int, value: Any) -> int:  # noqa: N802
        """Tell a clock; that of the memory is not known."""
        value._obj.value = self.clock if kind == 1 else 0
        return 0 if kind == 1 else 3

    def __getattr__(self, name: str) -> Any:
        """Answer what has one number: milliwatts, degrees, why the clock is low, who computes."""
        numbers = {
            "nvmlDeviceGetPowerUsage": 75120,
            "nvmlDeviceGetTemperature": self.temperature,
            "nvmlDeviceGetCurrentClocksThrottleReasons": self.reasons,
            "nvmlDeviceGetComputeRunningProcesses_v3": self.count,
        }
        number = numbers[name]

        def tell(*arguments: Any) -> int:
            next(each for each in arguments if hasattr(each, "_obj"))._obj.value = number
            return 0

        return tell


def test_the_driver_is_asked_for_clock_temperature_and_users() -> None:
    gauge = nvml.Nvml(FakeNvml(), "GPU-1")
    assert (gauge.clock_mhz(), gauge.temperature_c(), gauge.processes()) == (1980.0, 41.0, 3)


@pytest.mark.parametrize(
    ("reasons", "expected"), [(0, False), (0x1, False), (0x4, False), (0x8, True), (0x40, True), (0x84, True)]
)
def test_heat_and_power_supply_slow_a_device_down_its_own_limit_does_not(
    reasons: int, expected: bool
) -> None:
    driver = FakeNvml()
    driver.reasons = reasons
    assert nvml.Nvml(driver).is_slowed_down() is expected


def test_the_state_of_a_gpu_is_what_its_driver_knows() -> None:
    assert nvml.Nvml(FakeNvml()).state() == {
        "name": "NVIDIA H200",
        "driver_version": "570.1",
        "clocks.sm": "1980 MHz",
        "temperature.gpu": "41",
        "power.draw": "75.12 W",
        "memory.used": "512 MiB",
    }


@pytest.mark.parametrize(
    ("visible", "name"),
    [
        (None, "NVIDIA L4"),
        ("", "NVIDIA L4"),
        ("0", "NVIDIA L4"),
        ("1,0", "NVIDIA H100"),
        (" GPU-1", "NVIDIA H100"),
        ("7", "NVIDIA L4"),  # not visible here: a sandbox shows fewer
    ],
)
def test_the_state_is_that_of_the_gpu_that_a_process_may_use(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, name: str
) -> None:
    class Two(FakeNvml):
        names = ("NVIDIA L4", "NVIDIA H100")

        def nvmlDeviceGetHandleByUUID(self, uuid: bytes, device: Any) -> int:  # noqa: N802
            return self.nvmlDeviceGetHandleByIndex_v2(1, device) if uuid == b"GPU-1" else 6

        def nvmlDeviceGetHandleByIndex_v2(self, index: int, _device: Any) -> int:  # noqa: N802
            if index > 1:
                return 2
            self.chosen = self.names[index]
            return 0

        def nvmlDeviceGetName(self, _device: Any, text: Any, _length: int) -> int:  # noqa: N802
            text.value = self.chosen.encode()
            return 0

    monkeypatch.setattr(nvml, "_library", Two)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert nvml.gpu_state()["name"] == name


@pytest.mark.skipif(bool(glob.glob("/dev/nvidia[0-9]*")), reason="a GPU is here")
def test_a_machine_without_a_driver_has_no_state() -> None:
    assert nvml.gpu_state() == {}


def test_without_a_device_nobody_tells_anything() -> None:
    gauge = nvml.gauge(gpu=False)
    assert (gauge.clock_mhz(), gauge.temperature_c(), gauge.processes()) == (None, None, None)
    assert not gauge.is_slowed_down()
