"""How long it takes from a job to its verdict, with runners that wait and without, by phase.

    PYTHONPATH=src python benchmarks/start_up.py [--backend cpu] [--repeats 10] [--source FILE]

Warm and cold take turns, so that a machine that becomes faster or slower does so for both. A warm job
begins when its runner waits. The clock starts when the launcher is given the job and stops when it has
the report, clean-up included. The submission is PyTorch only, with five small cases.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from results import machine_facts, publish

from kernelcup.domain import Device
from kernelcup.launchers.bundle import PACKAGE, harness_hash
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode, RunReport, SourceTree, Verdict

READY_S = 300.0
REFERENCE = """\
import torch
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
def generate_input(size, seed):
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    return torch.randn(size, size, device=DEVICE, generator=generator)
def ref_kernel(data):
    return data + data
def check_implementation(data, output):
    return "" if torch.allclose(ref_kernel(data), output) else "not the sum"
"""
SUBMISSION = """\
def custom_kernel(data):
    return data + data
"""
CASES = [{"size": size, "seed": 1000 + size} for size in (16, 32, 64, 128, 256)]


def main() -> int:
    """Measure and write the result. Return 1 where a run was not accepted."""
    options = parse_options()
    backend = Backend(options.backend)
    result = {
        **machine_facts(),
        "harness_hash": harness_hash(),
        "backend": backend.value,
        "repeats": options.repeats,
        **measured(backend, options.repeats),
    }
    publish(f"start-up-{backend.value}.json", result)
    return 0 if result["accepted"] else 1


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="cpu", choices=[*Backend])
    parser.add_argument("--repeats", type=int, default=10)
    return parser.parse_args()


def measured(backend: Backend, repeats: int) -> dict[str, Any]:
    """Return the figures of both ways, in each mode."""
    found: dict[str, Any] = {"accepted": True}
    with tempfile.TemporaryDirectory() as folder:
        warm, cold = launcher(Path(folder), warm=1), launcher(Path(folder), warm=0)
        device = Device(name=backend.value, backend=backend)
        warm.keep_ready([device])
        try:
            warm.wait_until_ready(READY_S)
            found["waiting_runner_bytes"] = waiting_bytes()
            for mode in (Mode.TEST, Mode.LEADERBOARD):
                runs = {"warm": [], "cold": []}
                for number in range(repeats):
                    for name, each in (("warm", warm), ("cold", cold)):
                        runs[name].append(one(each, device, job(backend, mode, number)))
                        warm.wait_until_ready(READY_S)
                found[mode.value] = {name: summary(each) for name, each in runs.items()}
                found["accepted"] &= all(report_ok for each in runs.values() for _, report_ok, _ in each)
        finally:
            warm.close()
    return found


def launcher(folder: Path, *, warm: int) -> LocalLauncher:
    """Return a launcher that runs the harness of this folder."""
    source = str(PACKAGE.parent)
    code = f"import runpy, sys; sys.path.insert(0, {source!r}); "
    code += "runpy.run_module('kernelcup_harness', run_name='__main__', alter_sys=True)"
    command = (sys.executable, "-P", "-c", code, "--die-with-parent", "--events", "-")
    return LocalLauncher(runtime_dir=folder, environ=os.environ, command=command, warm=warm, while_busy=False)


def waiting_bytes() -> dict[str, int]:
    """Return the private and the shared memory of all processes that wait."""
    below = processes.descendants(os.getpid())
    keys = {"private": "RssAnon:", "files": "RssFile:"}
    return {name: sum(processes.status_bytes(pid, key) for pid in below) for name, key in keys.items()} | {
        "processes": len(below)
    }


def job(backend: Backend, mode: Mode, number: int) -> JobSpec:
    """Return a job with five small cases."""
    return JobSpec(
        job_id=f"{mode.value}-{number}",
        mode=mode,
        backend=backend,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE},
        private_files=["reference.py"],
        reference_module="reference",
        submission=SourceTree.of(SUBMISSION),
        tests=CASES,
        benchmarks=CASES,
    )


def one(each: LocalLauncher, device: Device, spec: JobSpec) -> tuple[float, bool, RunReport]:
    """Return the seconds of one run, whether it was accepted, and its report."""
    began = time.monotonic()
    report = each.run(spec, device, on_event=lambda _: None, cancelled=threading.Event()).report
    return time.monotonic() - began, report.verdict is Verdict.ACCEPTED, report


def summary(runs: list[tuple[float, bool, RunReport]]) -> dict[str, Any]:
    """Return medians: of the whole, of what the runner counted, and of each phase."""
    names = dict.fromkeys(name for *_, report in runs for name in report.phases)
    return {
        "seconds": statistics.median(seconds for seconds, *_ in runs),
        "all_seconds": [seconds for seconds, *_ in runs],
        "runner_seconds": statistics.median(report.duration_s for *_, report in runs),
        "phases": {
            name: statistics.median(report.phases.get(name, 0.0) for *_, report in runs) for name in names
        },
    }


if __name__ == "__main__":
    sys.exit(main())
