"""What the sandbox costs, measured side by side: a start, a whole job, and the time of a kernel.

    PYTHONPATH=src python benchmarks/sandbox_cost.py RESULT.json [--backend cuda] [--starts 40] [--pairs 6]
                                                      [--about ABOUT.json]

Needs torch and nothing else of ours. With and without the sandbox take turns, so that a machine that
becomes faster or slower does so for both. The start is that of an empty Python; a job starts two, and
tries the sandbox once before. ABOUT.json names commit and harness hash, for the result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernelcup_harness.device import machine
from kernelcup_harness.isolation import processes, sandbox
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    RunReport,
    SandboxPolicy,
    dumps,
    from_json,
)

ROOT = Path(__file__).resolve().parent.parent
PROCESSES_OF_A_JOB = 2

REFERENCE = """\
import torch
def generate_input(size, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, size, device="cuda", dtype=torch.float16, generator=generator)
def ref_kernel(data):
    return data @ data
def check_implementation(data, output):
    return torch.allclose(data @ data, output, rtol=1e-2, atol=1e-1)
"""
SUBMISSION = """\
def custom_kernel(data):
    return data @ data
"""


def main() -> int:
    """Measure and write the result. Return 1 where the sandbox costs more than it may."""
    options = parse_options()
    kind = sandbox.describe()["kind"]
    if kind == "none":
        print("no sandbox here: nothing to measure")
        return 1
    starts = paired(options.starts, lambda boxed: start_s(boxed=boxed))
    jobs = paired(options.pairs, lambda boxed: job(Backend(options.backend), boxed=boxed))
    trial_s = statistics.median(trial() for _ in range(options.starts))
    extra_s = statistics.median(with_box - without for with_box, without in starts)
    start_ms = 1e3 * (PROCESSES_OF_A_JOB * extra_s + trial_s)
    ratios = [with_box[1] / without[1] for with_box, without in jobs]
    whole_ms = 1e3 * statistics.median(with_box[0] - without[0] for with_box, without in jobs)
    kernel_percent = 100 * (statistics.median(ratios) - 1)
    result = {
        **(json.loads(options.about.read_text()) if options.about else {}),
        "machine": {"name": device_name(options.backend), "cores": os.cpu_count()},
        "backend": options.backend,
        "sandbox": sandbox.describe(),
        "start_ms_of_a_job": start_ms,
        "trial_ms": 1e3 * trial_s,
        "whole_job_ms": whole_ms,
        "kernel_time_percent": kernel_percent,
        "starts_s": starts,
        "jobs_s_and_kernel_ns": jobs,
    }
    options.result.write_text(json.dumps(result, indent=1))
    print(f"sandbox ({kind}): {start_ms:.1f} ms a job: two starts, one trial (median of {len(starts)} pairs)")
    print(f"whole job with minus without: {whole_ms:+.0f} ms (median of {len(jobs)} pairs)")
    print(f"kernel time with against without: {kernel_percent:+.2f} % (median of {len(ratios)} pairs)")
    return 0 if start_ms < 50 else 1


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("--backend", choices=["cuda", "emulated", "cpu"], default="emulated")
    parser.add_argument("--starts", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--about", type=Path)
    return parser.parse_args()


def paired(count: int, measure: Any) -> list[tuple[Any, Any]]:
    """Measure with and without, in an order drawn for each pair."""
    found = []
    for _ in range(count):
        order = [True, False]
        random.shuffle(order)
        seen = {boxed: measure(boxed) for boxed in order}
        found.append((seen[True], seen[False]))
    return found


def trial() -> float:
    """Return the seconds that it takes to find out which sandbox works."""
    sandbox.kind.cache_clear()
    began = time.perf_counter()
    sandbox.kind()
    return time.perf_counter() - began


def device_name(backend: str) -> str:
    """Name what the kernel runs on."""
    import torch

    return torch.cuda.get_device_name() if backend == "cuda" else machine.processor_name()


def start_s(*, boxed: bool) -> float:
    """Return the seconds that an empty Python takes from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        box = sandbox.Sandbox(user_id=sandbox.CONTESTANT_ID, files=Path(folder), gpu=True)
        began = time.perf_counter()
        child = processes.start(
            [sys.executable, "-I", "-S", "-c", "pass"],
            cwd=Path(folder),
            environment={"PATH": os.environ["PATH"]},
            keep_output=1000,
            cap_output=1000,
            box=box if boxed else None,
        )
        # Without a timeout: with one, Python looks in steps of up to 50 ms.
        code = child.process.wait()
        elapsed = time.perf_counter() - began
        assert child.stderr is not None
        assert code == 0, child.stderr.finish().text
        return elapsed


def job(backend: Backend, *, boxed: bool) -> tuple[float, float]:
    """Return the seconds of a whole job and the nanoseconds of its kernel."""
    spec = JobSpec(
        job_id="cost",
        mode=Mode.BENCHMARK,
        backend=backend,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE},
        submission=SUBMISSION,
        benchmarks=[{"size": 2048 if backend is Backend.CUDA else 64}],
        rules=MeasureRules(min_samples=60, max_samples=60, warmups=10),
        sandbox=SandboxPolicy.REQUIRED if boxed else SandboxPolicy.NONE,
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "kernelcup_harness", "-"],
        input=dumps(spec),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=240,
        check=True,
    )
    elapsed = time.perf_counter() - began
    report = from_json(RunReport, json.loads(done.stdout.splitlines()[-1])["report"])
    timing = report.stages[-1].cases[0].timing
    assert timing is not None, report.message
    return elapsed, timing.score_ns


if __name__ == "__main__":
    sys.exit(main())
