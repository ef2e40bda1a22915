"""What a thread gains by the wall clock that zeroes buffers between calls, and what load does to the empty call.

    python3 benchmarks/blame.py [--backend cpu|cuda] [--runs 3]

Both submissions count values in a zeroed table of 64 MiB. One zeroes it in the call, the other has a thread zero the
next one while the judge makes and checks inputs. On a GPU both wait for the device, so that no call is replayed. The
times are those of the harness's ranked stage. The empty call is measured as after a time limit, beside processes that
compute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

from results import machine_facts, publish  # noqa: E402

from kernelcup_harness.protocol import (  # noqa: E402
    Backend,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    RunReport,
    SourceTree,
    dumps,
    from_json,
)
from kernelcup_harness.run import empty_call  # noqa: E402

TABLE, COUNT, HOGS = 1 << 24, 4096, (0, 1, 2, 4, 8, 16)
COMMON = f"""\
import torch
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TABLE, COUNT = {TABLE}, {COUNT}
ONES = torch.ones(COUNT, dtype=torch.int32, device=DEVICE)
def settle():
    if DEVICE == "cuda":
        torch.cuda.synchronize()
def counted(table, data):
    table.index_add_(0, data, ONES)
    found = table[data]
    settle()
    return found
"""
REFERENCE = (
    COMMON
    + """\
def generate_input(size, seed):
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    return torch.randint(0, TABLE, (size,), device=DEVICE, generator=generator)
def ref_kernel(data):
    return counted(torch.zeros(TABLE, dtype=torch.int32, device=DEVICE), data)
def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "not the counts"
"""
)
IN_CALL = (
    COMMON
    + """\
TABLE_ = torch.zeros(TABLE, dtype=torch.int32, device=DEVICE)
def custom_kernel(data):
    return counted(TABLE_.zero_(), data)
"""
)
BETWEEN = (
    COMMON
    + """\
import queue, threading, time
tables = [torch.zeros(TABLE, dtype=torch.int32, device=DEVICE) for _ in range(3)]
clean, used = queue.SimpleQueue(), queue.SimpleQueue()
for table in tables:
    clean.put(table)
def zero():
    while True:
        table = used.get()
        time.sleep(0.001)
        table.zero_()
        settle()
        clean.put(table)
threading.Thread(target=zero, daemon=True).start()
def custom_kernel(data):
    table = clean.get()
    found = counted(table, data)
    used.put(table)
    return found
"""
)


def main() -> int:
    """Measure and write the result. Return 1 where a run was not accepted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    backend = Backend(options.backend)
    runs = {"in the call": [], "between calls": []}
    for _ in range(options.runs):
        for name, source in (("in the call", IN_CALL), ("between calls", BETWEEN)):
            runs[name].append(judged(source, backend))
    times = {name: statistics.median(each["ms"] for each in found) for name, found in runs.items()}
    accepted = all(each["verdict"] == "accepted" for found in runs.values() for each in found)
    gain = times["in the call"] / times["between calls"] if accepted else 0.0
    beside = {str(count): beside_others(count) for count in HOGS}
    load = {"load": os.getloadavg()[0]}
    result = {**machine_facts(), **load, "gain": gain, "runs": runs, "empty call beside processes": beside}
    publish(f"blame-{backend.value}.json", result)
    return 0 if accepted else 1


def judged(source: str, backend: Backend) -> dict[str, Any]:
    """Return verdict, message, and the milliseconds of the ranked case and of a call that computes nothing."""
    spec = JobSpec(
        job_id="blame",
        mode=Mode.LEADERBOARD,
        backend=backend,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE},
        private_files=["reference.py"],
        submission=SourceTree.of(source),
        tests=[{"size": COUNT, "seed": 1}],
        benchmarks=[{"size": COUNT, "seed": 2}],
        rules=MeasureRules(stage_budget_s=20.0, case_budget_s=20.0),
    )
    argv = [sys.executable, "-P", "-m", "kernelcup_harness", "-"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        argv, input=dumps(spec), capture_output=True, text=True, check=True, env=environment
    )
    report = from_json(RunReport, json.loads(done.stdout.splitlines()[-1])["report"])
    timing = report.stages[-1].cases[0].timing if report.stages[-1].cases else None
    found: dict[str, Any] = {"verdict": report.verdict.value, "message": report.message, "ms": 0.0}
    if timing is not None and timing.score_ns is not None:
        found |= {"ms": timing.score_ns / 1e6, "overhead_ms": (timing.overhead_ns or 0.0) / 1e6}
    return found


def beside_others(count: int) -> dict[str, float]:
    """Return milliseconds of the empty call beside some processes that compute: its mean, and the quickest tenth."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        times_ns = empty_call.calls_ns()
    finally:
        for other in others:
            other.kill()
            other.wait()
    now, idle = statistics.fmean(times_ns) / 1e6, statistics.quantiles(times_ns, n=10)[0] / 1e6
    return {"mean": now, "quickest tenth": idle, "ratio": now / idle}


if __name__ == "__main__":
    sys.exit(main())
