from __future__ import annotations

import math

import pytest

from kernelcup_harness.doubt.floor import (
    BELOW_FLOOR,
    NEAR,
    NEAR_FLOOR,
    finding,
    floor_ns,
    limited_by,
)
from kernelcup_harness.protocol import DeviceFacts, Work

MIB = 1 << 20
DEVICE = DeviceFacts(
    copy_bytes_per_s=2e12, matrix_flops_per_s={"fp16": 5e14, "fp32": 5e13}, l2_bytes=50 * MIB
)


def facts(**changes) -> DeviceFacts:
    return DeviceFacts(**{"copy_bytes_per_s": 2e12, **changes})


def test_reads_take_the_time_that_the_memory_needs() -> None:
    assert floor_ns(Work(bytes=2e6), DEVICE) == pytest.approx(1000)


def test_arithmetic_takes_the_time_of_its_precision() -> None:
    assert floor_ns(Work(flops=5e11, precision="fp16"), DEVICE) == pytest.approx(1e6)
    assert floor_ns(Work(flops=5e11, precision="fp32"), DEVICE) == pytest.approx(1e7)


def test_without_a_precision_the_fastest_counts() -> None:
    assert floor_ns(Work(flops=5e11), DEVICE) == pytest.approx(1e6)


def test_a_precision_that_was_not_measured_proves_nothing() -> None:
    assert floor_ns(Work(flops=5e11, precision="fp8"), DEVICE) is None
    assert floor_ns(Work(bytes=2e6, flops=1e30, precision="fp8"), DEVICE) == pytest.approx(1000)


def test_the_longer_of_the_two_counts_because_both_can_happen_at_once() -> None:
    assert floor_ns(Work(bytes=2e6, flops=5e11, precision="fp16"), DEVICE) == pytest.approx(1e6)
    assert floor_ns(Work(bytes=2e9, flops=5e11, precision="fp16"), DEVICE) == pytest.approx(1e6)
    assert limited_by(Work(bytes=2e6, flops=5e11, precision="fp16"), DEVICE) == "arithmetic"
    assert limited_by(Work(bytes=2e6, flops=1, precision="fp16"), DEVICE) == "memory"


def test_writes_that_may_still_be_in_the_cache_take_no_time() -> None:
    assert floor_ns(Work(written=50 * MIB), DEVICE) is None
    assert floor_ns(Work(bytes=2e6, written=50 * MIB), DEVICE) == pytest.approx(1000)


def test_writes_beyond_the_cache_do() -> None:
    assert floor_ns(Work(written=50 * MIB + 2e6), DEVICE) == pytest.approx(1000)


def test_writes_take_none_where_the_size_of_the_cache_is_not_known() -> None:
    assert floor_ns(Work(written=1e15), facts()) is None


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_none_makes_no_floor(rate: float) -> None:
    device = DeviceFacts(copy_bytes_per_s=rate, matrix_flops_per_s={"fp16": rate})
    work = Work(bytes=1e9, flops=1e12, precision="fp16")
    assert floor_ns(work, device) is None
    assert finding(work, device, 1e-9) is None
    assert limited_by(work, device) == ""
    assert floor_ns(Work(flops=1e12), device) is None


def test_nothing_declared_makes_no_floor() -> None:
    assert floor_ns(Work(), DEVICE) is None


def test_below_the_floor_quarantines_and_at_it_does_not() -> None:
    work = Work(bytes=2e6)
    below = finding(work, DEVICE, math.nextafter(1000.0, 0))
    assert (below.code, below.quarantines) == (BELOW_FLOOR, True)
    at = finding(work, DEVICE, 1000.0)
    assert (at.code, at.quarantines) == (NEAR_FLOOR, False)


def test_near_the_floor_is_flagged_up_to_a_tenth_above_it() -> None:
    work = Work(bytes=2e6)
    border = 1000.0 * NEAR
    near = finding(work, DEVICE, math.nextafter(border, 0))
    assert near.code == NEAR_FLOOR
    assert finding(work, DEVICE, border) is None
