"""How many short jobs each form of the canary would refuse: many fresh processes, with idle ones beside them.

    python benchmarks/canary_states.py FOLDER [--count 96] [--waiting 4] [--seconds 95]

Needs torch and a GPU, nothing else. Each canary runs in a process of its own, forked before torch has used the GPU; the
waiting processes hold a context and do nothing, like runners. Prints for each form its states and the refusals by the
earlier rule (2 % from the rolling median, either way) and by the present one (slower by 5 %, or by six spreads, at most
10 %), and writes all figures to FOLDER/canary-states.json.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import multiprocessing as mp
import random
import statistics
import time
from pathlib import Path

import torch

PLACES, SAMPLES, WARM_UP_S = 4, 50, 0.03
MIB = 1 << 20
FORMS = ("old", "new", "one_place", "copy", "copy_best", "matmul", "matmul_best")
WINDOW = 50


def clocks() -> dict[str, int]:
    """Return the clocks in MHz, the temperature, and the driver's reasons for slowing down."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        device, found = ctypes.c_void_p(), {}
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
            return {}
        value = ctypes.c_uint()
        for name, number in (("sm", 1), ("memory", 2)):
            nvml.nvmlDeviceGetClockInfo(device, number, ctypes.byref(value))
            found[name] = value.value
        nvml.nvmlDeviceGetTemperature(device, 0, ctypes.byref(value))
        reasons = ctypes.c_ulonglong()
        nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device, ctypes.byref(reasons))
        return found | {"temperature": value.value, "reasons": reasons.value}
    except (OSError, AttributeError):
        return {}


def waits(ready, ended) -> None:
    """Hold a context until the end."""
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    ready.set()
    ended.wait()


def median_us(call) -> float:
    """Return the median time of a call, queued like the canary."""
    call()
    until = time.monotonic() + WARM_UP_S
    while time.monotonic() < until:
        for _ in range(20):
            call()
        torch.cuda.synchronize()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
    for begin, end in pairs:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) * 1e3 for begin, end in pairs)


def at_one_place(forms) -> dict[str, float | int]:
    """Allocate, and time each form there."""
    buffers = [torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    left, right = (torch.zeros(2048, 2048, dtype=torch.float16, device="cuda") for _ in range(2))
    product, turn = torch.empty_like(left), [0]

    def copy() -> None:
        turn[0] ^= 1
        buffers[2 * turn[0]].copy_(buffers[2 * turn[0] + 1])

    def matmul() -> None:
        torch.mm(left, right, out=product)

    def both() -> None:
        copy()
        matmul()

    calls = {"both": both, "copy": copy, "matmul": matmul}
    return {name: median_us(calls[name]) for name in forms} | {"address": buffers[0].data_ptr()}


def one(target) -> None:
    """Take all forms of the canary in this fresh process."""
    began, places = time.monotonic(), []
    for _ in range(PLACES):
        torch.cuda.empty_cache()
        spacer = torch.empty(random.randrange(1, 32) * 16 * MIB, dtype=torch.uint8, device="cuda")
        places.append(at_one_place(("both", "copy", "matmul")))
        del spacer
    target.put({"places": places, "clocks": clocks(), "seconds": time.monotonic() - began})


def by_form(found) -> dict[str, float]:
    """Return the canary of each form in microseconds."""
    first, columns = found["places"][0], {}
    for name in ("both", "copy", "matmul"):
        columns[name] = [place[name] for place in found["places"]]
    return {
        "old": first["both"],
        "new": min(columns["both"]),
        "one_place": columns["both"][-1],
        "copy": first["copy"],
        "copy_best": min(columns["copy"]),
        "matmul": first["matmul"],
        "matmul_best": min(columns["matmul"]),
    }


def spread(samples) -> float:
    """Return the robust standard deviation as a share."""
    middle = statistics.median(samples)
    return statistics.median(abs(each - middle) for each in samples) / 0.6745 / middle


def refusals(times, rule) -> int:
    """Return how many would be refused, each compared with the accepted ones before it."""
    accepted, refused = [], 0
    for each in times:
        last = accepted[-WINDOW:]
        share = each / statistics.median(last) - 1 if last else 0.0
        if rule(share, spread(last) if len(last) >= 5 else 0.0):
            accepted.append(each)
        else:
            refused += 1
    return refused


RULES = {
    "2 % either way": lambda share, _spread: abs(share) <= 0.02,
    "5 % slower": lambda share, _spread: share <= 0.05,
    "5 % or six spreads slower": lambda share, spread: share <= min(0.10, max(0.05, 6 * spread)),
}


def summary(times) -> dict[str, object]:
    """Return quantiles, the widest gap between neighbours (two states show one), and the refusals."""
    ordered = sorted(times)
    gap, at = max(((b / a - 1, place) for place, (a, b) in enumerate(itertools.pairwise(ordered))))
    return {
        "least": ordered[0],
        "median": statistics.median(ordered),
        "most": ordered[-1],
        "spread": spread(ordered),
        "widest_gap": gap,
        "below_gap": at + 1,
        "refused": {name: refusals(times, rule) for name, rule in RULES.items()},
    }


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--waiting", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=95.0)
    options = parser.parse_args()
    until, context = time.monotonic() + options.seconds, mp.get_context("fork")
    ended, queue, found = context.Event(), context.Queue(), []
    readies = [context.Event() for _ in range(options.waiting)]
    idle = [context.Process(target=waits, args=(ready, ended), daemon=True) for ready in readies]
    for process in idle:
        process.start()
    for ready in readies:
        ready.wait(60)
    while len(found) < options.count and time.monotonic() < until:
        child = context.Process(target=one, args=(queue,))
        child.start()
        found.append(queue.get(timeout=60))
        child.join()
    ended.set()
    for process in idle:
        process.join()
    rows = [by_form(each) for each in found]
    figures = {name: summary([row[name] for row in rows]) for name in FORMS}
    options.folder.mkdir(parents=True, exist_ok=True)
    whole = {"processes": len(found), "waiting": options.waiting, "forms": figures, "rows": found}
    (options.folder / "canary-states.json").write_text(json.dumps(whole) + "\n", encoding="utf-8")
    print(f"{len(found)} processes, {options.waiting} waiting")
    for name, each in figures.items():
        times = " ".join(f"{each[key]:.2f}" for key in ("least", "median", "most"))
        told = f"spread {each['spread']:.2%}, widest gap {each['widest_gap']:.2%} above {each['below_gap']}"
        print(f"{name:12} {times} us; {told}; refused {each['refused']}")


if __name__ == "__main__":
    main()
