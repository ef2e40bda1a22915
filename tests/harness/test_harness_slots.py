"""Masked inputs: the contestant's memory for them, the pad, and recordings."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from inside import FakeRecorder
from kernelcup_harness.rings import Ring

from kernelcup_harness import l2, masks, nvml, wire
from kernelcup_harness.slots import Slot, alone

MASK = masks.Mask(gpu=False)
TWO = {"x": torch.arange(6.0).reshape(2, 3).t(), "y": torch.ones(5, dtype=torch.int16), "n": 3}


def loaded(data: Any, seed: int = 5, slot: Slot | None = None) -> Slot:
    """Return a slot with an input that is still covered."""
    slot = slot or Slot(MASK)
    encoder = wire.Encoder()
    tree = encoder.tree(data, "input")
    size = masks.padded(encoder.nbytes)
    if slot.arena is None:
        slot.arena = wire.Arena.create(size)
    encoder.write(slot.arena)
    MASK.toggle(slot.arena.bytes[:size], seed)
    slot.describe({"tree": tree, "table": encoder.table(), "bytes": size, "in_place": False})
    slot.load()
    return slot


@pytest.fixture
def slot() -> Iterator[Slot]:
    """A slot with two tensors, covered."""
    made = loaded(TWO)
    yield made
    assert made.arena is not None
    made.arena.close()


# Pads


def test_covering_twice_uncovers() -> None:
    buffer = torch.arange(64, dtype=torch.uint8)
    MASK.toggle(buffer, 9)
    assert not torch.equal(buffer, torch.arange(64, dtype=torch.uint8))
    MASK.toggle(buffer, 9)
    assert torch.equal(buffer, torch.arange(64, dtype=torch.uint8))


def test_another_seed_gives_another_pad() -> None:
    first, second = torch.zeros(64, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
    MASK.toggle(first, 1)
    MASK.toggle(second, 2)
    assert (first != second).sum() > 50


def test_seeds_have_64_bits_and_do_not_repeat() -> None:
    seeds = {masks.draw_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert 1 << 60 < max(seeds) < 1 << 64


def test_large_inputs_on_the_processor_are_not_masked() -> None:
    assert MASK.allows(masks.LONGEST_ON_HOST)
    assert not MASK.allows(masks.LONGEST_ON_HOST + 8)


@pytest.mark.parametrize(("nbytes", "expected"), [(0, 16), (1, 16), (16, 16), (17, 32)])
def test_buffers_are_whole_blocks(nbytes: int, expected: int) -> None:
    assert masks.padded(nbytes) == expected


# Slots


def test_an_input_cannot_be_read_before_it_is_uncovered(slot: Slot) -> None:
    assert not torch.equal(slot.data["x"], TWO["x"])
    slot.uncover(5)
    assert torch.equal(slot.data["x"], TWO["x"])
    assert slot.data["x"].stride() == TWO["x"].stride()
    assert torch.equal(slot.data["y"], TWO["y"])
    assert slot.data["n"] == 3


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
    loaded({**TWO, "x": torch.zeros(2, 3).t()}, seed=6, slot=slot)
    slot.uncover(6)
    assert slot.data["x"] is not first
    assert slot.data["x"].data_ptr() == first.data_ptr()
    assert slot.data["x"].sum() == 0


def test_an_input_of_another_form_ends_what_was_recorded(slot: Slot) -> None:
    slot.graph = "recorded"
    loaded(TWO, slot=slot)
    assert slot.graph == "recorded"
    loaded({"x": torch.zeros(2)}, slot=slot)
    assert slot.graph is None


def test_nothing_that_was_hung_on_a_tensor_is_there_the_next_time(slot: Slot) -> None:
    slot.data["x"].kept = "answer"
    loaded(TWO, slot=slot)
    assert not hasattr(slot.data["x"], "kept")


def test_gradients_are_wished_for_again(slot: Slot) -> None:
    assert not slot.data["x"].requires_grad
    loaded({"x": torch.zeros(2, requires_grad=True)}, slot=slot)
    assert slot.data["x"].requires_grad
    assert slot.data["x"].is_leaf


def test_an_empty_tensor_needs_no_memory() -> None:
    assert alone(torch.empty(0, dtype=torch.uint8)).numel() == 0


# Rings


def double(data: Any) -> tuple[Any, Any]:
    """Answer as a contestant does."""
    value = data["x"] * 2
    return value, value.contiguous()


@pytest.mark.parametrize("record", [True, False])
def test_each_place_of_a_ring_has_its_own_answer(record: bool) -> None:
    sources = [loaded({"x": torch.full((4,), float(number))}) for number in (1, 2)]
    for source in sources:
        source.uncover(5)
    ring = Ring(MASK, FakeRecorder(), lambda: None)
    ring.fill(sources, 5)
    if record:
        assert ring.record(double) is None
    assert ring.is_recorded is record
    ring.run(3, double)
    assert [float(ring.result(place)[1][1][0]) for place in range(5)] == [2.0, 4.0, 2.0, 4.0, 2.0]
    addresses = {ring.result(place)[0].data["x"].data_ptr() for place in range(5)}
    assert len(addresses) == 5
    for source in sources:
        assert source.arena is not None
        source.arena.close()


def test_a_ring_that_is_filled_again_has_new_answers_at_old_places() -> None:
    source = loaded({"x": torch.ones(4)})
    source.uncover(5)
    ring = Ring(MASK, FakeRecorder(), lambda: None)
    ring.fill([source], 3)
    ring.record(double)
    before = [ring.result(place)[0].data["x"].data_ptr() for place in range(3)]
    loaded({"x": torch.full((4,), 7.0)}, slot=source)
    source.uncover(5)
    ring.fill([source], 3)
    ring.run(1, double)
    assert [ring.result(place)[0].data["x"].data_ptr() for place in range(3)] == before
    assert [float(ring.result(place)[1][1][0]) for place in range(3)] == [14.0] * 3
    assert source.arena is not None
    source.arena.close()


def test_whatever_keeps_a_ring_from_being_recorded_is_told() -> None:
    ring = Ring(MASK, FakeRecorder(), lambda: None)
    source = loaded({"x": torch.ones(4)})
    ring.fill([source], 2)

    def broken(_data: Any) -> Any:
        raise SystemExit("no")

    assert isinstance(ring.record(broken), SystemExit)
    assert not ring.is_recorded
    assert source.arena is not None
    source.arena.close()


# The device


class FakeDriver:
    """Notes what was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def cuCtxSetLimit(self, limit: int, value: ctypes.c_size_t) -> int:  # noqa: N802
        """Take a limit."""
        self.calls.append((str(limit), value.value))
        return 0

    def cuCtxResetPersistingL2Cache(self) -> int:  # noqa: N802
        """Take a reset."""
        self.calls.append(("reset", None))
        return 0


def test_nothing_stays_set_aside_in_the_cache() -> None:
    driver = FakeDriver()
    l2.Persisting(driver).reset()
    assert driver.calls == [("6", 0), ("reset", None)]


class FakeNvml:
    """A driver that knows one device."""

    clock, temperature, reasons, count = 1980, 41, 0, 3

    def nvmlInit_v2(self) -> int:  # noqa: N802
        """Begin."""
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, _device: Any) -> int:  # noqa: N802
        """Know one name."""
        return 0 if uuid == b"GPU-1" else 6

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, _device: Any) -> int:  # noqa: N802
        """Know the first."""
        return 0 if index == 0 else 2

    def nvmlDeviceGetClockInfo(self, _device: Any, kind: int, value: Any) -> int:  # noqa: N802
        """Tell a clock."""
        value._obj.value = self.clock if kind == 1 else 0
        return 0

    def nvmlDeviceGetTemperature(self, _device: Any, _kind: int, value: Any) -> int:  # noqa: N802
        """Tell the temperature."""
        value._obj.value = self.temperature
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _device: Any, value: Any) -> int:  # noqa: N802
        """Tell why the clock is low."""
        value._obj.value = self.reasons
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, _device: Any, count: Any, _found: Any) -> int:  # noqa: N802
        """Tell who computes."""
        count._obj.value = self.count
        return 0


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


def test_without_a_device_nobody_tells_anything() -> None:
    gauge = nvml.gauge(gpu=False)
    assert (gauge.clock_mhz(), gauge.temperature_c(), gauge.processes()) == (None, None, None)
    assert not gauge.is_slowed_down()
