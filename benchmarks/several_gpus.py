"""Usage: python benchmarks/several_gpus.py OUT.json [--jobs 10] [--largest] [--attacks [--only NAME,NAME]] [--world 2]

An all-reduce on several GPUs of this host, in fresh jobs of the harness: the scatter of the score over the jobs, beside
a loop of live launches timed by events and KernelBot's way (rank 0's host clock between barriers), and the share of the
bus bandwidth. With `--attacks` each file of `tests/judged/several_gpus` instead, against `honest.py` in the same run.
Needs torch only.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    Mode,
    RunReport,
    SourceTree,
    dumps,
    from_json,
)

HERE = Path(__file__).resolve().parent
ATTACKS = HERE.parent / "tests/judged/several_gpus"
EXAMPLE = HERE.parent / "src/kernelcup/tasks/examples/all_reduce"
SIZES = {"64 kB": 1 << 14, "1 MB": 1 << 18, "64 MB": 1 << 24}
LARGEST = {"1 GB": 1 << 28}
LIVE_CALLS = 30
NVLINK_BYTES_A_NS = 450.0
"""One direction of the links of an H100 or H200, NV18."""


def job(source: str, sizes: dict[str, int], world: int) -> dict[str, Any]:
    """Run one ranked job; return its verdict and the score of each size in microseconds."""
    spec = JobSpec(
        job_id="1.1",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={name: (EXAMPLE / name).read_text() for name in ("reference.py", "task.py")},
        private_files=["reference.py"],
        submission=SourceTree.of(source, "submission.py"),
        multi_gpu=True,
        tests=[],
        benchmarks=[{"size": size, "world_size": world, "seed": 3} for size in sizes.values()],
    )
    began = time.monotonic()
    command = [sys.executable, "-P", "-m", "kernelcup_harness", "-"]
    done = subprocess.run(
        command, input=dumps(spec), capture_output=True, text=True, timeout=200, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"verdict": "no report", "message": done.stderr[-500:]}
    report = from_json(RunReport, json.loads(lines[-1])["report"])
    cases = report.stages[-1].cases
    return {
        "verdict": report.verdict.value,
        "reason": report.reason.value,
        "message": (report.message or "")[:600],
        "log": done.stderr[-1500:] if report.verdict.value == "internal_error" else "",
        "seconds": round(time.monotonic() - began, 1),
        "us": {
            name: round(case.timing.score_ns / 1e3, 2)
            for name, case in zip(sizes, cases, strict=False)
            if case.timing is not None
        },
        "level": [case.timing.audit.level.value for case in cases if case.timing and case.timing.audit],
        "phases": {name: round(seconds, 2) for name, seconds in report.phases.items()},
    }


def live(rank: int, world: int, store: str, sizes: dict[str, int], found: Any) -> None:
    """Time calls that are launched live, in one rank."""
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=world)
    for name, size in sizes.items():
        by_events, by_host = list[float](), list[float]()
        for _ in range(LIVE_CALLS):
            data = torch.randn(size, device="cuda")
            dist.barrier()
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began = time.perf_counter_ns()
            begin.record()
            total = data.clone()
            dist.all_reduce(total)
            end.record()
            torch.cuda.synchronize()
            dist.barrier()
            by_host.append((time.perf_counter_ns() - began) / 1e3)
            by_events.append(begin.elapsed_time(end) * 1e3)
        if rank == 0:
            found.put(
                (name, round(statistics.median(by_events[5:]), 1), round(statistics.median(by_host[5:]), 1))
            )
    dist.destroy_process_group()


def live_times(world: int, sizes: dict[str, int]) -> dict[str, dict[str, float]]:
    """Return the times of live launches by events and by the host's clock, in microseconds."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    store = str(Path(tempfile.mkdtemp(), "store"))
    ranks = [context.Process(target=live, args=(rank, world, store, sizes, found)) for rank in range(world)]
    for each in ranks:
        each.start()
    times = {}
    for _ in sizes:
        name, by_events, by_host = found.get(timeout=120)
        times[name] = {"events": by_events, "kernelbot": by_host}
    for each in ranks:
        each.join(30)
    return times


def scatter(jobs: list[dict[str, Any]], sizes: dict[str, int], world: int) -> dict[str, dict[str, float]]:
    """Return mean, standard deviation and share of the bus bandwidth of each size."""
    table = {}
    for name, size in sizes.items():
        scores = [each["us"][name] for each in jobs if each.get("us", {}).get(name)]
        if len(scores) < 2:
            continue
        mean = statistics.fmean(scores)
        moved = 2 * (world - 1) / world * 4 * size
        table[name] = {
            "jobs": len(scores),
            "mean_us": round(mean, 2),
            "scatter_percent": round(100 * statistics.stdev(scores) / mean, 2),
            "bus_share_percent": round(100 * moved / (mean * 1e3) / NVLINK_BYTES_A_NS, 1),
        }
    return table


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--attacks", action="store_true")
    parser.add_argument("--only", default="", help="of the attacks, separated by commas")
    options = parser.parse_args()
    sizes = SIZES | (LARGEST if options.largest else {})
    honest = (ATTACKS / "honest.py").read_text()
    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0),
        "world_size": options.world,
        "pid": os.getpid(),
    }
    if options.attacks:
        wanted = options.only.split(",") if options.only else None
        files = sorted(ATTACKS.glob("*.py"), key=lambda each: each.stem != "honest")
        sizes = {name: SIZES[name] for name in ("64 kB", "64 MB")}
        for file in (each for each in files if wanted is None or each.stem in wanted):
            found[file.stem] = job(file.read_text(), sizes, options.world)
            print(file.stem, json.dumps(found[file.stem]), flush=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n")
        return
    found["live"] = live_times(options.world, sizes)
    print("live", json.dumps(found["live"]), flush=True)
    found["runs"] = []
    for _ in range(options.jobs):
        found["runs"].append(job(honest, sizes, options.world))
        print(json.dumps(found["runs"][-1]), flush=True)
        found["scatter"] = scatter(found["runs"], sizes, options.world)
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["scatter"], indent=1))


if __name__ == "__main__":
    main()
