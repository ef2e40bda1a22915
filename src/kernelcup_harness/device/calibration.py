"""Measures this machine's device in a few seconds: rates, latencies, and a canary.

Nothing here changes the device: no clocks, no modes. It needs torch and nothing else. Rates are the
best of several tries, because they are used as bounds; the canary is the best of the medians at several places of
memory, because it is compared.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kernelcup_harness.device import accelerators, machine
from kernelcup_harness.device.stopwatch import Stopwatch, best_ns, place, series_ns, stopwatch, zeros
from kernelcup_harness.protocol import Backend, DeviceFacts, Precision
from kernelcup_harness.protocol.calibration import DeviceCalibration, fits, relative_spread

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20

LARGE_BYTES = {Backend.CUDA: 1024 * MIB, Backend.CPU: 128 * MIB}
"""Size of each buffer for the bandwidth: many times any cache."""
MATRIX_SIZES = {Backend.CUDA: (1024, 4096, 8192), Backend.CPU: (256, 1024)}
"""Sides of square matrices, multiples of all tiles, in order."""
MATRIX_BUDGET_S = 1.0
"""A larger size is left out if all its tries would take longer, for example fp64 on a GPU with little of it."""
FP4_BLOCK = 16
"""Elements that share a scale."""
TRIES = {Backend.CUDA: 10, Backend.CPU: 3}

CANARY_BYTES = {Backend.CUDA: 64 * MIB, Backend.CPU: 16 * MIB}
CANARY_SIDE = {Backend.CUDA: 2048, Backend.CPU: 256}
CANARY_SAMPLES = {Backend.CUDA: 50, Backend.CPU: 5}
CANARY_BUDGET_S = 0.1
"""Time after which no sample is begun on a processor, which others may use at the same time."""
CANARY_WARM_UP_S = {Backend.CUDA: 0.05, Backend.CPU: 0.02}
CANARY_BATCH = {Backend.CUDA: 20, Backend.CPU: 1}
"""Number of canaries queued at once during warm-up: a GPU that waits for the host lowers its clocks."""
CANARY_PLACES = {Backend.CUDA: 4, Backend.CPU: 1}
"""Places of a GPU's memory differ by one to three per cent: the best one says what the device can do."""
SPACE_BYTES, MOST_SPACES = 16 * MIB, 32
CANARY_REPEATS = 7
"""Canaries of one calibration: their median is kept, and their spread sets the processor's tolerance."""

RESTS_S = (0.0, 0.2, 5.0)
"""Rests of a GPU before each repeat of a canary that does not fit."""

LAUNCHES = (200, 800)
PROFILED_LAUNCHES = 30


# --- the canary


def canary_ns(backend: Backend) -> float:
    """Return the current time of the canary: a copy (64 MiB on a GPU) and a product of two matrices.

    The least of the medians at several places of memory. Takes less than 0.5 s in a process that has a context.

    Raises:
        ValueError: For an emulated device, whose times are meaningless.
    """
    if backend is Backend.EMULATED:
        raise ValueError("an emulated device has no times")
    found = []
    for _ in range(CANARY_PLACES[backend]):
        with elsewhere(backend):
            found.append(canary_here_ns(backend))
    return min(found)


@contextmanager
def elsewhere(backend: Backend) -> Iterator[None]:
    """Have memory allocated at another place than before: some places of a GPU's memory are one per cent faster."""
    if backend is not Backend.CUDA:
        yield
        return
    import torch

    torch.cuda.empty_cache()
    spacer = torch.empty(random.randrange(1, MOST_SPACES) * SPACE_BYTES, dtype=torch.uint8, device="cuda")
    try:
        yield
    finally:
        del spacer
        torch.cuda.empty_cache()


def canary_here_ns(backend: Backend) -> float:
    """Return the same as :func:`canary_ns`, with memory wherever it is allocated."""
    watch, sing = stopwatch(backend), canary(backend)
    until = time.monotonic() + CANARY_WARM_UP_S[backend]
    sing()
    while time.monotonic() < until:
        watch.times_ns(sing, CANARY_BATCH[backend])
    if backend is Backend.CUDA:
        return statistics.median(watch.times_ns(sing, CANARY_SAMPLES[backend]))
    samples, until = watch.times_ns(sing, 1), time.monotonic() + CANARY_BUDGET_S
    while len(samples) < CANARY_SAMPLES[backend] and time.monotonic() < until:
        samples += watch.times_ns(sing, 1)
    return statistics.median(samples)


def canary(backend: Backend) -> Callable[[], None]:
    """Return the canary. Its buffers are used in turns, so that no cache holds what it reads."""
    import torch

    where, side = place(backend), CANARY_SIDE[backend]
    buffers = [zeros(CANARY_BYTES[backend], dtype=torch.uint8, device=where) for _ in range(4)]
    dtype = torch.float16 if backend is Backend.CUDA else torch.float32
    left, right = (zeros(side, side, dtype=dtype, device=where) for _ in range(2))
    product = torch.empty_like(left)
    turn = 0

    def sing() -> None:
        nonlocal turn
        turn = (turn + 1) % 2
        buffers[2 * turn].copy_(buffers[2 * turn + 1])
        torch.mm(left, right, out=product)

    return sing


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryCheck:
    """The comparison of a job's canary with its expected time."""

    canary_ns: float
    """The last time, which counts."""
    first_ns: float
    fits: bool
    """Whether it is within the tolerance, or there is no expectation yet."""


def check_canary(
    backend: Backend,
    facts: DeviceFacts | None,
    *,
    wait: Callable[[float], object] = time.sleep,
    measure: Callable[[Backend], float] = canary_ns,
) -> CanaryCheck:
    """Take the canary before a ranked stage; repeat one that does not fit, each time after a rest.

    ``facts`` is :attr:`JobSpec.device`. Only a GPU rests: on a processor a drift is only marked.
    """
    first = latest = measure(backend)
    if facts is None:
        return CanaryCheck(canary_ns=first, first_ns=first, fits=True)
    # Disturbances only make a canary slower, mostly for a moment.
    for rest_s in RESTS_S if backend is Backend.CUDA else ():
        if fits(latest, facts.canary_ns, facts.canary_tolerance):
            break
        wait(rest_s)
        latest = measure(backend)
    good = fits(latest, facts.canary_ns, facts.canary_tolerance)
    return CanaryCheck(canary_ns=latest, first_ns=first, fits=good)


# --- the whole calibration


def calibrate(backend: Backend) -> DeviceCalibration:
    """Measure everything. Takes a few seconds, and some gigabytes of a GPU's memory.

    Raises:
        ValueError: For an emulated device.
    """
    if backend is Backend.EMULATED:
        raise ValueError("an emulated device has no times, so there is nothing to calibrate")
    began, watch = time.monotonic(), stopwatch(backend)
    canaries = [canary_ns(backend) for _ in range(CANARY_REPEATS)]
    launch = launches(backend, watch)
    copied, read = bandwidths(backend, watch)
    rates = matrix_rates(backend, watch)
    # Last, because a profiled process may stay slower.
    profiled = profiled_empty_ns(backend)
    return DeviceCalibration(
        backend=backend,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        copy_bytes_per_s=copied,
        read_bytes_per_s=read,
        matrix_flops_per_s=rates,
        profiled_empty_ns=profiled,
        canary_ns=statistics.median(canaries),
        canary_spread=relative_spread(canaries),
        duration_s=round(time.monotonic() - began, 3),
        **launch,
        **identity(backend),
    )


def identity(backend: Backend) -> dict[str, Any]:
    """Return the device's identity and state, as fields of the calibration."""
    import torch

    if backend is not Backend.CUDA:
        return {"device_name": machine.processor_name(), "torch": torch.__version__}
    device = torch.cuda.get_device_properties(0)
    state = accelerators.of(backend).state()
    clocks = {name: number(state.get(f"clocks.{name}")) for name in ("sm", "mem")}
    return {
        "device_name": device.name,
        "driver": state.get("driver_version", ""),
        "torch": torch.__version__,
        "l2_bytes": int(getattr(device, "L2_cache_size", 0)),
        "clocks_mhz": {name: clock for name, clock in clocks.items() if clock is not None},
        "temperature_c": number(state.get("temperature.gpu")),
    }


def number(text: str | None) -> int | None:
    """Return the integer at the beginning of a text like ``1980 MHz``, None if there is none."""
    first = (text or "").split(" ")[0]
    return int(first) if first.isdecimal() else None


def bandwidths(backend: Backend, watch: Stopwatch) -> tuple[float, float]:
    """Return bytes a second of a large copy (read and written) and of a large sum (read)."""
    import torch

    size = LARGE_BYTES[backend]
    source = zeros(size // 4, dtype=torch.float32, device=place(backend))
    target = torch.empty_like(source)
    copied = best_ns(watch, lambda: target.copy_(source), TRIES[backend])
    summed = best_ns(watch, source.sum, TRIES[backend])
    return 2 * size / copied * 1e9, size / summed * 1e9


def matrix_rates(backend: Backend, watch: Stopwatch) -> dict[str, float]:
    """Return operations a second by precision, for the precisions that this device and this torch support."""
    found: dict[str, float] = {}
    for precision in Precision:
        for side in MATRIX_SIZES[backend]:
            # Unsupported precisions have no rate: an older GPU has no fp8, a processor no TF32.
            with suppress(RuntimeError, AttributeError, NotImplementedError, AssertionError):
                known = found.get(precision.value)
                if known and 2 * side**3 / known * (TRIES[backend] + 2) > MATRIX_BUDGET_S:
                    break
                with product_of(backend, precision, side) as multiply:
                    rate = 2 * side**3 / best_ns(watch, multiply, TRIES[backend]) * 1e9
                found[precision.value] = max(rate, found.get(precision.value, 0.0))
    return found


@contextmanager
def product_of(backend: Backend, precision: Precision, side: int) -> Iterator[Callable[[], Any]]:
    """Yield a call that multiplies two square matrices. Raise ``NotImplementedError`` if it is not supported."""
    import torch

    on_cpu = backend is not Backend.CUDA
    if on_cpu and precision not in (Precision.FP32, Precision.FP64):
        raise NotImplementedError(precision)
    if precision is Precision.TF32 and torch.cuda.get_device_capability() < (8, 0):
        raise NotImplementedError(precision)
    products = {Precision.FP8: fp8_product, Precision.FP4: fp4_product, Precision.INT8: int8_product}
    if precision in products:
        yield products[precision](side)
        return
    names = {Precision.FP64: "float64", Precision.FP16: "float16", Precision.BF16: "bfloat16"}
    dtype = getattr(torch, names.get(precision, "float32"))
    left, right = (zeros(side, side, dtype=dtype, device=place(backend)) for _ in range(2))
    product = torch.empty_like(left)
    with fastest(precision):
        yield lambda: torch.mm(left, right, out=product)


@contextmanager
def fastest(precision: Precision) -> Iterator[None]:
    """Let products be as fast as their precision allows: TF32 if it is requested, and accumulation in fp16.

    Some GPUs are twice as fast with fp16 accumulation, so an honest kernel may be, too.
    """
    import torch

    settings = torch.backends.cuda.matmul
    wanted = {"allow_tf32": precision is Precision.TF32}
    if hasattr(settings, "allow_fp16_accumulation"):
        wanted["allow_fp16_accumulation"] = precision is Precision.FP16
    before = {name: getattr(settings, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(settings, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def fp8_product(side: int) -> Callable[[], Any]:
    """Return a product of fp8 matrices; calling it raises ``RuntimeError`` on a device without them."""
    import torch

    left = torch.zeros(side, side, device="cuda").to(torch.float8_e4m3fn)
    # The library expects the second matrix in column-major order.
    right = torch.zeros(side, side, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def fp4_product(side: int) -> Callable[[], Any]:
    """Return a product of fp4 matrices with a scale for each block of 16; calling it raises ``RuntimeError`` on a
    device without them, ``AttributeError`` with a torch that does not know them."""
    import torch

    def packed() -> torch.Tensor:
        return torch.zeros(side, side // 2, dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2)

    left, right = packed(), packed().t()
    # In the order of tiles that the library expects; equal ones have any order.
    one = torch.ones(side * side // FP4_BLOCK, device="cuda").to(torch.float8_e4m3fn)
    return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def int8_product(side: int) -> Callable[[], Any]:
    """Return a product of int8 matrices."""
    import torch

    left, right = (torch.zeros(side, side, dtype=torch.int8, device="cuda") for _ in range(2))
    return lambda: torch._int_mm(left, right.t())


def launches(backend: Backend, watch: Stopwatch) -> dict[str, Any]:
    """Return the cost of launching the smallest kernel, as fields of the calibration."""
    import torch

    one = torch.zeros(1, device=place(backend))
    watch.times_ns(one.zero_, 20)
    found = {
        "empty_kernel_ns": statistics.median(watch.times_ns(one.zero_, 100)),
        "launch_ns": slope_ns(one.zero_, watch),
    }
    if backend is Backend.CUDA:
        found["empty_pair_ns"] = statistics.median(watch.times_ns(lambda: None, 100))
    return found


def profiled_empty_ns(backend: Backend) -> float:
    """Return the profiler's time of an empty kernel in nanoseconds; 0 if the profiler cannot be used."""
    if backend is not Backend.CUDA:
        return 0.0
    import torch
    from torch.profiler import ProfilerActivity, profile

    durations: list[float] = []
    with suppress(RuntimeError, AttributeError):
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            for _ in range(PROFILED_LAUNCHES):
                torch.cuda._sleep(0)
            torch.cuda.synchronize()
        events = recorded.profiler.kineto_results.events()
        durations = [float(event.duration_ns()) for event in events if "spin" in event.name()]
    return statistics.median(durations) if durations else 0.0


def slope_ns(call: Callable[[], Any], watch: Stopwatch) -> float:
    """Return the steady-state time of one call by the host's clock: the cost of start and end cancels out."""
    slopes = []
    for _ in range(5):
        few, many = (series_ns(call, watch, count) for count in LAUNCHES)
        slopes.append((many - few) / (LAUNCHES[1] - LAUNCHES[0]))
    return max(0.0, statistics.median(slopes))
