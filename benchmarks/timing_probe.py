"""Run a handful of jobs on this machine's device and keep every raw figure of how they were timed.

    PYTHONPATH=src python benchmarks/timing_probe.py OUTDIR [--backend cuda] [--only NAME ...] [--repeats N]
        [--sandbox auto|required|none]

OUTDIR gets one JSON file a run, with the report as it is, the log and the seconds it took, and
``summary.txt``, a line for each case. Needs torch only; a job that needs Triton fails without it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
LONGEST_RUN_S = 300.0

ADD = """\
import torch


def generate_input(size, seed):
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    a, b = (torch.randn(size, size, device=DEVICE, dtype=DTYPE, generator=generator) for _ in range(2))
    return a, b


def ref_kernel(data):
    a, b = data
    return a + b


def check_implementation(data, output):
    return "" if torch.allclose(ref_kernel(data), output, rtol=1e-2, atol=1e-2) else "not the sum"
"""
MATMUL = ADD.replace("a + b", "a @ b").replace("rtol=1e-2, atol=1e-2", "rtol=3e-2, atol=1.0")

TORCH_ADD = """\
def custom_kernel(data):
    a, b = data
    return a + b
"""
TORCH_MATMUL = TORCH_ADD.replace("a + b", "a @ b")
TRITON_ADD = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < count
    tl.store(out + place, tl.load(a + place, mask=mask) + tl.load(b + place, mask=mask), mask=mask)


def custom_kernel(data):
    a, b = data
    out = torch.empty_like(a)
    count = a.numel()
    add[(triton.cdiv(count, 1024),)](a, b, out, count, BLOCK=1024)
    return out
"""
WITH_ITEM = """\
import torch


def custom_kernel(data):
    a, b = data
    if a.sum().item() == 12345.0:
        return b
    return a + b
"""
SEVERAL = """\
def custom_kernel(data):
    a, b = data
    return ((a * 2 + b * 2) / 2 + 0).clone()
"""
OWN_BUFFER = """\
import torch

kept = {}


def custom_kernel(data):
    a, b = data
    out = kept.setdefault(a.shape, torch.empty_like(a))
    return torch.add(a, b, out=out)
"""
PERSISTING = """\
import ctypes

import torch

# The whole of what may be set aside in the cache; the harness is to take it back before each sample.
driver = ctypes.CDLL("libcuda.so.1")


def custom_kernel(data):
    a, b = data
    driver.cuCtxSetLimit(6, ctypes.c_size_t(1 << 30))
    return a + b
"""
FORGED = """\
import sys

import torch

original = torch.cuda.Event.elapsed_time


def half(self, other):
    return original(self, other) / 2


torch.cuda.Event.elapsed_time = half
from submission_kernel import custom_kernel  # noqa: E402
"""
SKIPS_SWEEP = """\
import gc

import torch

for thing in gc.get_objects():
    if type(thing).__name__ == "CudaClock":
        thing._sweep = thing._sweep[:1]


def custom_kernel(data):
    a, b = data
    return a + b
"""
SIDE_STREAM = """\
import torch

stream = torch.cuda.Stream()


def custom_kernel(data):
    a, b = data
    with torch.cuda.stream(stream):
        return a @ b
"""
ADD_SIZES = (128, 1024, 2048, 4096, 8192)
MATMUL_SIZES = (256, 512, 1024, 2048, 4096)


def forged(kernel: str) -> str:
    """Return a submission whose clock reads half."""
    return FORGED.replace("from submission_kernel import custom_kernel  # noqa: E402\n", kernel)


def jobs(backend: str) -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """Return reference, submission and sizes by name."""
    device = "cpu" if backend == "cpu" else "cuda"
    dtype = "torch.float32" if backend == "cpu" else "torch.float16"

    def on(text: str) -> str:
        return text.replace("DEVICE", repr(device)).replace("DTYPE", dtype)

    add, matmul = on(ADD), on(MATMUL)
    sizes = ADD_SIZES if backend == "cuda" else (64, 128, 256)
    products = MATMUL_SIZES if backend == "cuda" else (64, 128)
    return {
        "add-torch": (add, TORCH_ADD, sizes),
        "matmul-torch": (matmul, TORCH_MATMUL, products),
        "add-triton": (add, TRITON_ADD, sizes),
        "add-item": (add, WITH_ITEM, sizes),
        "add-several": (add, SEVERAL, sizes),
        "add-own-buffer": (add, OWN_BUFFER, sizes),
        "add-persisting": (add, PERSISTING, sizes),
        "attack-forged-add": (add, forged(TORCH_ADD), sizes),
        "attack-forged-matmul": (matmul, forged(TORCH_MATMUL), products),
        "attack-no-sweep": (add, SKIPS_SWEEP, sizes),
        "attack-side-stream": (matmul, SIDE_STREAM, products),
        "duel-same": (add, TORCH_ADD, sizes[:3]),
        "duel-several": (add, TORCH_ADD, sizes[:3]),
    }


RIVALS = {"duel-same": TORCH_ADD, "duel-several": SEVERAL}


def spec(name: str, backend: str, sandbox: str) -> dict[str, Any]:
    """Return one job."""
    reference, submission, sizes = jobs(backend)[name]
    return {
        "job_id": name,
        "mode": "leaderboard",
        "backend": backend,
        "harness": "standard",
        "sources": {"reference.py": reference},
        "private_files": ["reference.py"],
        "submission": submission,
        "tests": [{"size": size, "seed": 1} for size in (32, 64, 96, 128, 256)],
        "benchmarks": [{"size": size, "seed": 1} for size in sizes],
        "sandbox": sandbox,
        "rival": RIVALS.get(name),
        "rival_name": "rival.py",
    }


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run one job in processes of its own; return report, log and seconds."""
    began = time.monotonic()
    finished = subprocess.run(
        [sys.executable, "-P", "-m", "kernelcup_harness", "-"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    lines = finished.stdout.splitlines()
    report = json.loads(lines[-1])["report"] if finished.returncode == 0 and lines else None
    return {"seconds": time.monotonic() - began, "report": report, "log": finished.stderr[-20_000:]}


def lines_of(name: str, result: dict[str, Any]) -> list[str]:
    """Return what to look at first."""
    report = result["report"]
    if report is None:
        return [f"{name}: no report: {result['log'][-500:]}"]
    codes = [finding["code"] for finding in report["quarantine"]]
    phases = {phase: round(spent, 2) for phase, spent in report["phases"].items()}
    head = (
        f"{name}: {report['verdict']} {report['reason']} {report['trust']} {result['seconds']:.1f} s {phases}"
    )
    lines = [f"{head} quarantine={codes} {report['message'][-800:]}"]
    if report["calibration"]:
        shown = {key: value for key, value in report["calibration"].items() if key != "spin_points"}
        lines += [f"  calibration {shown}", f"  spin points {report['calibration']['spin_points']}"]
    if report["duel"]:
        lines.append(
            f"  duel { {key: report['duel'][key] for key in ('verdict', 'ratio', 'low', 'high', 'blocks')} }"
        )
    for stage in report["stages"]:
        lines += [f"  {case_line(case)}" for case in stage["cases"] if case["timing"]]
    return lines


def case_line(case: dict[str, Any]) -> str:
    """Return the figures of one case in microseconds."""
    timing, audit = case["timing"], case["timing"]["audit"]
    samples = sorted(timing["samples_ns"])
    text = (
        f"{case['parameters']} raw median {samples[len(samples) // 2] / 1e3:.2f} min {samples[0] / 1e3:.2f} "
        f"max {samples[-1] / 1e3:.2f} n {len(samples)} offset {timing['offset_ns'] / 1e3:.2f}"
    )
    if audit is None:
        return text
    slope = f"{audit['slope_ns'] / 1e3:.2f}" if audit["slope_ns"] is not None else "-"
    codes = [finding["code"] for finding in audit["findings"]]
    return (
        f"{text} | {'captured' if audit['captured'] else 'eager'} score {audit['score_ns'] / 1e3:.2f} "
        f"handshake {audit['handshake_ns'] / 1e3:.2f} (+-{audit['handshake_slack_ns'] / 1e3:.2f}, "
        f"n {len(timing['handshakes_ns'])}) slope {slope} (+-{audit['slope_slack_ns'] / 1e3:.2f}, "
        f"calls {audit['slope_calls']}) {audit['level']} {codes}"
    )


def main() -> int:
    """Run the jobs that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backend", default="cuda", choices=["cuda", "cpu", "emulated"])
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--sandbox", default="auto", choices=["auto", "required", "none"])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in jobs(options.backend) if options.only is None or name in options.only]
    for number in range(options.repeats):
        for name in names:
            result = run(spec(name, options.backend, options.sandbox))
            (options.folder / f"{name}-{number}.json").write_text(json.dumps(result))
            lines = lines_of(name, result)
            print("\n".join(lines), flush=True)
            with (options.folder / "summary.txt").open("a") as summary:
                summary.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
