"""Try the hygiene of GPUs on a machine that has torch and nvidia-ml-py and nothing else of ours.

    PYTHONPATH=src python3 benchmarks/gpu_hygiene.py OUT.json [GPU]

A process that holds 2 GiB must be noticed, and the GPU be clean again within 5 s of its end. Ends
with 1 if a check fails. Takes less than a minute, and touches one GPU only.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelcup.errors import UnfitDevice
from kernelcup.launchers.gpu_health.checks import PATIENCE_S, TOLERANCE_BYTES, Hygiene
from kernelcup.launchers.gpu_health.cleanup import USER_IDS, sweep
from kernelcup.launchers.gpu_health.probe import MIB, GpuProbe, NvmlProbe

HELD_BYTES = 2 << 30
PROBE_READS = 10

HOLD = f"""
import sys, torch
held = torch.ones({HELD_BYTES // 4}, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""
CONTEXT_ONLY = """
import sys, torch
torch.ones(1, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""


def main(target: Path, gpu: str) -> int:
    """Run all trials and return how many checks failed."""
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(),
        "machine": platform.node(),
        "gpu": gpu,
        "as_root": os.geteuid() == 0,
        "probes": {},
    }
    result["probes"]["nvml"] = trial(NvmlProbe(), gpu)
    result["leftovers"] = leftovers()
    target.write_text(json.dumps(result, indent=1, default=str))
    print(json.dumps(result, indent=1, default=str))
    checks = [each["checks"] for each in (*result["probes"].values(), result["leftovers"])]
    return sum(not passed for each in checks for passed in each.values())


def trial(probe: GpuProbe, gpu: str) -> dict[str, Any]:
    """Baseline, a stranger with 2 GiB, a stranger with nothing but a context, and clean after each."""
    hygiene = Hygiene(probe)
    found: dict[str, Any] = {"tolerance_mib": TOLERANCE_BYTES // MIB, "checks": {}}
    checks = found["checks"]
    found["baseline"] = reading(probe, gpu)
    found["probe_ms"] = probe_ms(probe, gpu)
    found["clean_at_start"] = fitness(hygiene.before, gpu)
    checks["clean at the start"] = found["clean_at_start"] is None
    for name, body in (("2 GiB", HOLD), ("a context only", CONTEXT_ONLY)):
        with stranger(body, gpu) as process:
            found[f"reading with {name}"] = reading(probe, gpu)
            found[f"told of {name}"] = told = look(hygiene, gpu)
            checks[f"{name} is noticed"] = told is not None
            found[f"process of {name} is visible"] = str(process.pid) in (told or "")
            process.kill()
            process.wait()
            began = time.monotonic()
            late = fitness(hygiene.after, gpu)
        found[f"clean after {name}, s"] = round(time.monotonic() - began, 3)
        found[f"left by {name}"] = late
        checks[f"clean within {PATIENCE_S:g} s after {name}"] = late is None
    found["end"] = reading(probe, gpu)
    return found


def reading(probe: GpuProbe, gpu: str) -> dict[str, Any]:
    """Return what the probe says now."""
    (now,) = probe.read([gpu])
    return dataclasses.asdict(now)


def probe_ms(probe: GpuProbe, gpu: str) -> dict[str, float]:
    """Return how long one look takes."""
    times = []
    for _ in range(PROBE_READS):
        began = time.perf_counter()
        probe.read([gpu])
        times.append((time.perf_counter() - began) * 1e3)
    return {"median": round(statistics.median(times), 2), "max": round(max(times), 2)}


def fitness(check: Callable[..., None], gpu: str) -> str | None:
    """Return what makes a GPU unfit after all patience, None if nothing does."""

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    try:
        check([gpu], wait=wait)
    except UnfitDevice as error:
        return str(error)
    return None


def look(hygiene: Hygiene, gpu: str) -> str | None:
    """Return what makes a GPU unfit at this moment."""
    try:
        hygiene.look_again([gpu])
    except UnfitDevice as error:
        return str(error)
    return None


@contextmanager
def stranger(body: str, gpu: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that uses the GPU, and wait until it does."""
    environ = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpu}
    process = subprocess.Popen(
        [sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "held":
            raise SystemExit("the process that should use the GPU did not start")
        yield process
    finally:
        process.kill()
        process.wait()


def leftovers() -> dict[str, Any]:
    """Put a file of a dedicated user into shared memory, and see it removed. Only root can."""
    if os.geteuid() != 0:
        return {"checks": {}, "why": "not root"}
    path = Path("/dev/shm") / f"kernelcup-hygiene-{os.getpid()}"
    path.write_text("left")
    owner = min(USER_IDS)
    os.chown(path, owner, owner)
    began = time.perf_counter()
    swept = sweep()
    took_ms = (time.perf_counter() - began) * 1e3
    gone = not path.exists()
    path.unlink(missing_ok=True)
    return {
        "checks": {"a leftover in shared memory is removed": gone and str(path) in swept.removed},
        "sweep_ms": round(took_ms, 2),
        "removed": swept.removed,
        "stuck": swept.stuck,
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "0"))
