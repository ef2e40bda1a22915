"""What a job pays for the process that checks its answers. Needs the harness and torch only.

    PYTHONPATH=src python benchmarks/checker_price.py [--backend cpu] [--repeats 10] [--idle-s 20]

Jobs whose processes wait for them, with all that they import ahead, take turns between the harness as it is and a copy
of it that checks answers in the judge's own process. The clock runs from the job to its report. ``--checks`` measures
single checks of several sizes instead, with device memory lent to the checker and copied through the host.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from results import machine_facts, publish

import kernelcup_harness
from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode, SourceTree, dumps

PACKAGE = Path(kernelcup_harness.__file__).parent
FORKS = "        before_device=lambda: servers.append(ForkServer(check_answers)),\n"
"""The line of the judge's process that a harness without the checker's process lacks."""
CASES = [{"size": size, "seed": 1000 + size} for size in (16, 32, 64, 128, 256)]
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
SUBMISSION = "def custom_kernel(data):\n    return data + data\n"


def main() -> int:
    """Measure and write the result. Return 1 where a run was not accepted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="cpu", choices=[*Backend])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--idle-s", type=float, default=20.0)
    parser.add_argument("--checks", action="store_true")
    options = parser.parse_args()
    backend = Backend(options.backend)
    if options.checks:
        print(json.dumps(checks(backend)))
        return 0
    found = {mode.value: price(backend, mode, options.repeats, options.idle_s) for mode in (Mode.TEST,)}
    result = {**machine_facts(), "backend": backend.value, "repeats": options.repeats, **found}
    publish(f"checker-price-{backend.value}.json", result)
    return 0 if all(each["accepted"] for each in found.values()) else 1


def price(backend: Backend, mode: Mode, repeats: int, idle_s: float) -> dict[str, Any]:
    """Return the median seconds of a job with the process and without it, and of the differences in turns."""
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    accepted = True
    with tempfile.TemporaryDirectory() as folder:
        sources = {"with": PACKAGE.parent, "without": without(Path(folder))}
        for number in range(repeats):
            for name in sorted(sources, reverse=number % 2 == 0):
                took_s, verdict = one(sources[name], job(backend, mode), idle_s)
                seconds[name].append(took_s)
                accepted &= verdict == "accepted"
    pairs = zip(seconds["with"], seconds["without"], strict=True)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {**medians, "difference": statistics.median(a - b for a, b in pairs), "accepted": accepted}


def without(folder: Path) -> Path:
    """Return the folder of a harness that checks answers in the judge's process."""
    copied = folder / "source" / PACKAGE.name
    shutil.copytree(PACKAGE, copied)
    process = copied / "judge_process.py"
    text = process.read_text()
    assert FORKS in text
    process.write_text(text.replace(FORKS, ""))
    return copied.parent


def job(backend: Backend, mode: Mode) -> JobSpec:
    """Return a job with five small cases."""
    return JobSpec(
        job_id=mode.value,
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


def one(source: Path, spec: JobSpec, idle_s: float) -> tuple[float, str]:
    """Return the seconds of one job that was waited for, and its verdict."""
    command = [sys.executable, "-P", "-m", "kernelcup_harness", "--ahead", spec.backend.value, "-"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        # It goes on with imports that need no job.
        time.sleep(idle_s)
        began = time.monotonic()
        process.stdin.write(dumps(spec))
        process.stdin.close()
        report = json.loads(process.stdout.readline())["report"]
        return time.monotonic() - began, report["verdict"]


def checks(backend: Backend) -> dict[str, Any]:
    """Return whether memory is lent, and the median milliseconds of a check by megabytes of the answer and by way."""
    os.environ["KERNELCUP_BACKEND"] = backend.value
    # Imported here, as in the judge: the server is forked before the device is touched.
    from kernelcup_harness.judge import checker
    from kernelcup_harness.judge.fork_server import ForkServer

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("reference.py").write_text(REFERENCE)
        server = ForkServer(checker.serve)
        import torch

        for way, lends in (("lent", True), ("copied", False)):
            began = time.monotonic()
            process = checker.CheckerProcess(server, lambda: 600.0, lends=lends and backend is Backend.CUDA)
            process.load(job(backend, Mode.TEST))
            process.wait()
            found[f"{way} start_s"] = time.monotonic() - began
            for side in (16, 512, 4096, 16384) if backend is Backend.CUDA else (16, 512, 2048):
                data = torch.randn(side, side, device="cuda" if backend is Backend.CUDA else "cpu")
                times_ms = []
                for _ in range(10 if side > 1000 else 100):
                    began = time.monotonic()
                    assert process.check(data, data + data, seed=1, limit_s=600.0) == ""
                    times_ms.append(1e3 * (time.monotonic() - began))
                found[f"{way} {data.nbytes / 1e6:.3g} MB ms"] = statistics.median(times_ms)
            found[f"{way} lends"] = process._lends
            process.end()
    return found


if __name__ == "__main__":
    raise SystemExit(main())
