"""How far the calibration of a GPU can be trusted: its scatter, what heat and company do, and the floor.

    PYTHONPATH=src python3 benchmarks/calibrate_device.py OUTDIR [PART ...]

Needs torch and a GPU. Parts are ``calibrations``, ``canaries``, ``heat``, ``company`` and ``floor``; each
runs in processes of its own, takes less than two minutes, and appends one line to ``calibrate.jsonl`` in
OUTDIR as soon as it is done. The clocks are left as they are.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from results import machine_facts

from kernelcup.launchers.bundle import harness_hash
from kernelcup_harness.audit.physics import attainable_share, finding, floor_ns
from kernelcup_harness.device import nvml
from kernelcup_harness.device.calibration import calibrate, canary_ns
from kernelcup_harness.device.stopwatch import EventStopwatch
from kernelcup_harness.protocol import Backend, DeviceFacts, Work, from_json, to_json
from kernelcup_harness.protocol.calibration import TOLERANCE, DeviceCalibration

FRESH_PROCESSES = 5
WARM_CANARIES = 60
BURN_S = 30.0
SWEEP_BYTES = 256 << 20
LIMIT_S = 300


def main(folder: Path, names: list[str]) -> int:
    """Run the parts, and return how many failed."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names or list(PARTS):
        began = time.monotonic()
        try:
            found = PARTS[name]()
        except (subprocess.SubprocessError, ValueError, KeyError) as error:
            found, failed = {"error": repr(error)}, failed + 1
        line = {
            **machine_facts(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "harness_hash": harness_hash(),
            "part": name,
            "took_s": round(time.monotonic() - began, 2),
            **found,
        }
        with (folder / "calibrate.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line, indent=1), flush=True)
    return failed


def calibrations() -> dict[str, Any]:
    """Calibrate in fresh processes: how far does each figure differ?"""
    command = [sys.executable, "-P", "-m", "kernelcup_harness", "--calibrate", "cuda"]
    found = []
    for _ in range(FRESH_PROCESSES):
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        found.append(from_json(DeviceCalibration, json.loads(done.stdout.splitlines()[-1])["calibration"]))
    figures = ("copy_bytes_per_s", "read_bytes_per_s", "launch_ns", "empty_kernel_ns", "canary_ns")
    spread = {name: scatter([getattr(each, name) for each in found]) for name in figures}
    for precision in found[0].matrix_flops_per_s:
        spread[precision] = scatter([each.matrix_flops_per_s[precision] for each in found])
    return {"figures": spread, "calibrations": [to_json(each) for each in found]}


def canaries() -> dict[str, Any]:
    """Take many canaries in one warm process: how long do they take, and how many would not fit?"""
    return in_process("warm")


def heat() -> dict[str, Any]:
    """Take canaries before and after the GPU has worked hard."""
    return in_process("heated")


def company() -> dict[str, Any]:
    """Take canaries while another process uses the GPU: they must not fit."""
    alone = in_process("some")
    burner = subprocess.Popen(
        [sys.executable, __file__, "--inside", "burn"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert burner.stdout is not None
        if burner.stdout.readline().strip() != "burning":
            raise ValueError("the process that should use the GPU did not start")
        shared = in_process("some")
    finally:
        burner.kill()
        burner.wait()
    after = in_process("some")
    usual = statistics.median(alone["canaries_ns"])
    drifts = {
        name: statistics.median(each["canaries_ns"]) / usual - 1
        for name, each in (("shared", shared), ("after", after))
    }
    return {"alone": alone, "shared": shared, "after": after, "drift": drifts, "tolerance": TOLERANCE}


def floor() -> dict[str, Any]:
    """Time PyTorch's own operations with a cold cache: none of them may be below its floor."""
    return in_process("floors")


def in_process(name: str) -> dict[str, Any]:
    """Run one of the functions below in a fresh process, and return what it wrote."""
    command = [sys.executable, __file__, "--inside", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise ValueError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- inside a process of its own


def warm() -> dict[str, Any]:
    """Take canaries with pauses, as jobs would."""
    found = take(WARM_CANARIES, pause_s=0.5)
    usual = statistics.median(found["canaries_ns"])
    outside = sum(abs(each / usual - 1) > TOLERANCE for each in found["canaries_ns"])
    return {**found, "outside_tolerance": outside, "tolerance": TOLERANCE}


def some() -> dict[str, Any]:
    """Take a few canaries."""
    return take(10, pause_s=0.1)


def heated() -> dict[str, Any]:
    """Take canaries, make the GPU hot, take them again at once and after a rest."""
    before = take(10, pause_s=0.1)
    hot_until = time.monotonic() + BURN_S
    burn_until(lambda: time.monotonic() > hot_until)
    at_once = take(3, pause_s=0.0)
    time.sleep(5.0)
    rested = take(10, pause_s=0.1)
    usual = statistics.median(before["canaries_ns"])
    parts = {"at_once": at_once, "rested": rested}
    drifts = {name: statistics.median(each["canaries_ns"]) / usual - 1 for name, each in parts.items()}
    return {"before": before, **parts, "drift": drifts, "burn_s": BURN_S, "tolerance": TOLERANCE}


def burn() -> dict[str, Any]:
    """Use the GPU until somebody ends this process."""
    import torch

    torch.zeros(1, device="cuda")
    print("burning", flush=True)
    burn_until(lambda: os.getppid() == 1)
    return {}


def floors() -> dict[str, Any]:
    """Calibrate, then time operations of several sizes against their floors."""
    import torch

    found = calibrate(Backend.CUDA)
    facts = DeviceFacts(
        copy_bytes_per_s=found.bandwidth,
        matrix_flops_per_s=found.matrix_flops_per_s,
        l2_bytes=float(found.l2_bytes),
    )
    sweep, watch = torch.empty(SWEEP_BYTES, dtype=torch.uint8, device="cuda"), EventStopwatch()
    rows = []
    for name, work, call in operations():
        samples = [cold_ns(call, watch, lambda: sweep.fill_(1)) for _ in range(50)]
        raw = statistics.median(samples)
        # The most that could be taken off: what an empty kernel reads.
        calibrated = raw - found.empty_kernel_ns
        told = finding(work, facts, calibrated)
        rows.append(
            {
                "name": name,
                "raw_ns": raw,
                "calibrated_ns": calibrated,
                "fastest_ns": min(samples) - found.empty_kernel_ns,
                "floor_ns": floor_ns(work, facts),
                "share": attainable_share(work, facts, calibrated),
                "finding": told.code if told is not None else "",
            }
        )
    below = [row["name"] for row in rows if row["finding"] == "below_floor"]
    return {"operations": rows, "below_floor": below, "calibration": to_json(found)}


def operations() -> list[tuple[str, Work, Callable[[], Any]]]:
    """Return operations that PyTorch does well, with what they cannot do without."""
    import torch

    found: list[tuple[str, Work, Callable[[], Any]]] = []
    for mib in (1, 4, 16, 64, 256, 1024):
        size = mib << 20
        source = torch.ones(size // 4, device="cuda")
        target = torch.empty_like(source)
        copy = Work(bytes=float(size), written=float(size))
        found.append((f"copy {mib} MiB", copy, lambda s=source, t=target: t.copy_(s)))
        found.append((f"sum {mib} MiB", Work(bytes=float(size)), source.sum))
        found.append((f"fill {mib} MiB", Work(written=float(size)), lambda t=target: t.fill_(1)))
    for side in (1024, 2048, 4096, 8192):
        for kind, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
            left, right = (torch.randn(side, side, device="cuda").to(dtype) for _ in range(2))
            work = Work(
                bytes=2.0 * left.nbytes, written=float(left.nbytes), flops=2.0 * side**3, precision=kind
            )
            found.append((f"matmul {kind} {side}", work, lambda a=left, b=right: torch.mm(a, b)))
    return found


def cold_ns(call: Callable[[], Any], watch: EventStopwatch, sweep: Callable[[], Any]) -> float:
    """Time one call whose inputs are in no cache."""
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    watch.settle()
    sweep()
    start.record()
    call()
    end.record()
    watch.settle()
    return float(start.elapsed_time(end)) * 1e6


def take(count: int, *, pause_s: float) -> dict[str, Any]:
    """Take canaries, and note how long each took to take."""
    found, took = [], []
    for _ in range(count):
        began = time.monotonic()
        found.append(canary_ns(Backend.CUDA))
        took.append(round(time.monotonic() - began, 4))
        time.sleep(pause_s)
    state = nvml.gpu_state()
    return {"canaries_ns": found, "spread": scatter(found), "took_s": took, "gpu": state}


def burn_until(ended: Callable[[], bool]) -> None:
    """Multiply large matrices."""
    import torch

    left = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    while not ended():
        for _ in range(20):
            left @ left
        torch.cuda.synchronize()


def scatter(values: list[float]) -> dict[str, float]:
    """Return the median, and how far the values are from it as shares."""
    middle = statistics.median(values)
    return {"median": middle, "lowest": min(values) / middle - 1, "highest": max(values) / middle - 1}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "calibrations": calibrations,
    "canaries": canaries,
    "heat": heat,
    "company": company,
    "floor": floor,
}
INSIDE = {each.__name__: each for each in (warm, some, heated, burn, floors)}

if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        print(json.dumps(INSIDE[sys.argv[2]]()))
    else:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
