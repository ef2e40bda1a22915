"""The physics floor, which no kernel can beat: the time that a device needs for the least work of a case.

The floor is a lower bound, so everything that might be free is left out:

- **reads** come from the device's memory, because timing begins with a cold cache;
- **writes** count only as far as they exceed the L2 cache: a call may end while its writes are still
  in the cache;
- **arithmetic** counts at the largest rate measured in the declared precision; if that was not
  measured, it does not count.

Reading and computing can happen at the same time: the floor is the longer of the two, not their sum.
Pure functions; no torch.
"""

from __future__ import annotations

import math

from kernelcup_harness.protocol import DeviceFacts, Finding, Work

NEAR = 1.1
"""A time below this multiple of the floor is reported."""

BELOW_FLOOR = "below_floor"
NEAR_FLOOR = "near_floor"


def floor_ns(work: Work, device: DeviceFacts) -> float | None:
    """Return the least time in nanoseconds in which the device can do the work; None if it is not known."""
    bounds = [bound for bound in (memory_ns(work, device), matrix_ns(work, device)) if bound is not None]
    return max(bounds, default=None)


def memory_ns(work: Work, device: DeviceFacts) -> float | None:
    """Return the time of the transfers from and to the device's memory, None if there are none."""
    moved = moved_bytes(work, device)
    return 1e9 * moved / device.copy_bytes_per_s if moved > 0 and _is_rate(device.copy_bytes_per_s) else None


def moved_bytes(work: Work, device: DeviceFacts) -> float:
    """Return the bytes that must cross the memory's bus: reads, and writes beyond the L2 cache."""
    # If the size of the cache is not known, all writes might fit.
    beyond = max(0.0, (work.written or 0.0) - device.l2_bytes) if device.l2_bytes > 0 else 0.0
    return (work.bytes or 0.0) + beyond


def matrix_ns(work: Work, device: DeviceFacts) -> float | None:
    """Return the time for the arithmetic, None if it is not declared or its rate was not measured."""
    if not work.flops:
        return None
    rates = [rate for rate in device.matrix_flops_per_s.values() if _is_rate(rate)]
    rate = device.matrix_flops_per_s.get(work.precision) if work.precision else max(rates, default=None)
    return 1e9 * work.flops / rate if rate is not None and _is_rate(rate) else None


def limited_by(work: Work, device: DeviceFacts) -> str:
    """Return the bound that decides the floor: ``memory``, ``arithmetic``, or an empty text if there is no floor."""
    memory, matrix = memory_ns(work, device) or 0.0, matrix_ns(work, device) or 0.0
    if not memory and not matrix:
        return ""
    return "memory" if memory >= matrix else "arithmetic"


def finding(work: Work, device: DeviceFacts, time_ns: float) -> Finding | None:
    """Return a finding if a time is below the floor or near it, else None."""
    floor = floor_ns(work, device)
    if floor is None or time_ns >= floor * NEAR:
        return None
    limit = _limit_text(work, device)
    if time_ns < floor:
        text = f"{time_ns / 1e3:.3f} us is less than {floor / 1e3:.3f} us, in which this device can {limit} at best"
        return Finding(code=BELOW_FLOOR, text=text, quarantines=True)
    text = f"{time_ns / 1e3:.3f} us is within 10 % of {floor / 1e3:.3f} us, in which this device can {limit}"
    return Finding(code=NEAR_FLOOR, text=text)


def _limit_text(work: Work, device: DeviceFacts) -> str:
    if limited_by(work, device) == "memory":
        moved, rate = moved_bytes(work, device), device.copy_bytes_per_s
        return f"move {moved / 1e6:.3f} MB at {rate / 1e9:,.0f} GB/s"
    floor = matrix_ns(work, device) or math.inf
    flops = work.flops or 0.0
    name = work.precision or "the fastest precision"
    return f"do {flops / 1e9:.3f} Gflop at {flops / floor / 1e3:,.1f} Tflop/s in {name}"


def _is_rate(rate: float) -> bool:
    return math.isfinite(rate) and rate > 0
