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


FLOORS = {
    "reads take the time that the memory needs": (Work(bytes=2e6), 1000),
    "arithmetic takes the time of its precision": (Work(flops=5e11, precision="fp16"), 1e6),
    "of a slower precision, more": (Work(flops=5e11, precision="fp32"), 1e7),
    "without a precision the fastest counts": (Work(flops=5e11), 1e6),
    "a precision that was not measured proves nothing": (Work(flops=5e11, precision="fp8"), None),
    "but its reads do": (Work(bytes=2e6, flops=1e30, precision="fp8"), 1000),
    "arithmetic is the longer of the two": (Work(bytes=2e6, flops=5e11, precision="fp16"), 1e6),
    "both are equally long": (Work(bytes=2e9, flops=5e11, precision="fp16"), 1e6),
    "writes that may still be in the cache take no time": (Work(written=50 * MIB), None),
    "beside reads too": (Work(bytes=2e6, written=50 * MIB), 1000),
    "writes beyond the cache take time": (Work(written=50 * MIB + 2e6), 1000),
    "nothing declared": (Work(), None),
}


@pytest.mark.parametrize(("work", "ns"), FLOORS.values(), ids=FLOORS)
def test_the_floor_is_the_longer_of_memory_and_arithmetic(work: Work, ns: float | None) -> None:
    assert floor_ns(work, DEVICE) == (None if ns is None else pytest.approx(ns))


def test_what_limits_a_call_is_named() -> None:
    assert limited_by(Work(bytes=2e6, flops=5e11, precision="fp16"), DEVICE) == "arithmetic"
    assert limited_by(Work(bytes=2e6, flops=1, precision="fp16"), DEVICE) == "memory"


def test_writes_take_none_where_the_size_of_the_cache_is_not_known() -> None:
    assert floor_ns(Work(written=1e15), DeviceFacts(copy_bytes_per_s=2e12)) is None


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_none_makes_no_floor(rate: float) -> None:
    device = DeviceFacts(copy_bytes_per_s=rate, matrix_flops_per_s={"fp16": rate})
    work = Work(bytes=1e9, flops=1e12, precision="fp16")
    assert floor_ns(work, device) is None
    assert finding(work, device, 1e-9) is None
    assert limited_by(work, device) == ""
    assert floor_ns(Work(flops=1e12), device) is None


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
