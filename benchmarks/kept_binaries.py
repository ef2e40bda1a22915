"""Kept binaries on a GPU: is an autotuned kernel's time the same in each process, and are duels and finals right?

    python3 benchmarks/kept_binaries.py OUT.json [SECONDS]

An autotuned Triton matmul is ranked once, and tuned again against its binary. Then it is judged from its kept binary,
in a final and duels against the second binary, each job in new processes; a damaged binary is judged from the code. Two
kernels that read a table in memory meet: their tables have the same address and other content. At last the code is
tuned again. The result is rewritten after every job. Needs the harness, torch, Triton and one NVIDIA GPU; about 330 s.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

from run_gpu_jobs import machine  # noqa: E402 - the folder of the sources comes first
from time_common import run_cold  # noqa: E402

from kernelcup_harness.protocol import (  # noqa: E402
    Backend,
    HarnessKind,
    JobSpec,
    KeptBinary,
    KeptFile,
    Mode,
    SourceTree,
    device_of,
    from_json,
)

DUELS, TUNED = 10, 5
FINAL_ERROR = 0.02 / 45
"""What a duel of a final of ten may err."""
MATMUL_REFERENCE = """\
import torch


def generate_input(size, seed):
    chance = torch.Generator("cuda").manual_seed(seed)
    return tuple(torch.randn(size, size, generator=chance, device="cuda").half() for _ in range(2))


def ref_kernel(data):
    return data[0] @ data[1]


def check_implementation(data, output):
    error = (output.float() - ref_kernel(data).float()).abs().max().item()
    return "" if error <= 0.5 else f"off by {error:.3g}"
"""
MATMUL = """\
import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": 128, "BN": n, "BK": 64, "GROUP": group}, num_warps=8, num_stages=stages)
    for n in (128, 256)
    for group in (4, 8)
    for stages in (3, 4)
]


@triton.autotune(configs=CONFIGS, key=["size"])
@triton.jit
def product(
    a, b, c, size, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    rows, columns = tl.cdiv(size, BM), tl.cdiv(size, BN)
    number = tl.program_id(0)
    first = number // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    row = first + number % (GROUP * columns) % height
    column = number % (GROUP * columns) // height
    at_m, at_n, at_k = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    left = a + at_m[:, None] * size + at_k[None, :]
    right = b + at_k[:, None] * size + at_n[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, size, BK):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BK
        right += BK * size
    tl.store(c + at_m[:, None] * size + at_n[None, :], total.to(tl.float16))


def custom_kernel(data):
    a, b = data
    size = a.shape[0]
    c = torch.empty_like(a)
    product[lambda meta: (triton.cdiv(size, meta["BM"]) * triton.cdiv(size, meta["BN"]),)](a, b, c, size)
    return c
"""
TABLE_REFERENCE = """\
import torch


def generate_input(size, seed):
    return torch.rand(size, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")


def ref_kernel(data):
    return data * torch.arange(data.numel(), device="cuda")


def check_implementation(data, output):
    return "" if torch.allclose(output, ref_kernel(data)) else "not the product"
"""
TABLE = """\
import torch
import triton
import triton.language as tl

table = None


@triton.jit
def scaled(x, table, y, size, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at, mask=at < size) * tl.load(table + at, mask=at < size) / {factor}
    tl.store(y + at, value, mask=at < size)


def custom_kernel(data):
    global table
    if table is None:
        table = torch.arange(data.numel(), device="cuda").float() * {factor}
    y = torch.empty_like(data)
    scaled[(triton.cdiv(data.numel(), 1024),)](data, table, y, data.numel(), B=1024)
    return y
"""


def job(name: str, reference: str, code: str, size: int, **changes: Any) -> JobSpec:
    """Return a ranked job."""
    return JobSpec(
        job_id=f"kept-{name}",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": reference},
        private_files=["reference.py"],
        submission=SourceTree.of(code),
        tests=[{"size": size, "seed": 1}],
        benchmarks=[{"size": size, "seed": 2}],
        **changes,
    )


class Jobs:
    """Runs jobs one after another, and writes down what came of each.

    Args:
        target: The file of the results.
        seconds: Begin nothing new after so long.
    """

    def __init__(self, target: Path, seconds: float) -> None:
        self._target = target
        self._until = time.monotonic() + seconds
        self.result: dict[str, Any] = {"machine": machine(), "jobs": []}

    @property
    def is_over(self) -> bool:
        """Whether nothing new should begin."""
        return time.monotonic() > self._until

    def run(self, kind: str, spec: JobSpec) -> KeptBinary | None:
        """Run a job; return its kept binary, None if nothing was kept of it, or there is no time."""
        number = len(self.result["jobs"])
        if self.is_over:
            return None
        try:
            seconds, report = run_cold(spec)
        except Exception as error:  # one job must not cost the others their time on the machine
            self.note({"kind": kind, "failed": str(error)[-2000:]})
            return None
        self.note({"kind": kind, "seconds": round(seconds, 2), **found(report)})
        files = [from_json(KeptFile, each) for each in report["files"] if each["name"] != "sass.txt"]
        device = device_of(report["environment"].get("gpu", {}))
        return KeptBinary(run=number, device=device, files=files) if len(files) == 2 else None

    def note(self, line: dict[str, Any]) -> None:
        """Write one line, and the figures so far."""
        self.result["jobs"].append(line)
        self.result["figures"] = figures(self.result["jobs"])
        self._target.write_text(json.dumps(self.result, indent=1))
        print(json.dumps(line), flush=True)


def found(report: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be known of a report."""
    cases = [case for stage in report["stages"] if stage["name"] == "ranked" for case in stage["cases"]]
    audits = [case["timing"]["audit"] for case in cases if case["timing"] and case["timing"]["audit"]]
    duel = report["duel"]
    return {
        "verdict": report["verdict"],
        "message": report["message"][-300:],
        "trust": report["trust"],
        "stages": [stage["name"] for stage in report["stages"]],
        "us": [round(each["score_ns"] / 1e3, 3) for each in audits],
        "findings": [each["code"] for audit in audits for each in audit["findings"]],
        "held": [each["text"] for each in report["quarantine"]],
        "kernels": [[each["image"], each["grid"][0], each["registers"]] for each in report["ran"]],
        "kept": {each["name"]: [each["nbytes"], len(each["gz64"])] for each in report["files"]},
        "not_kept": report["not_kept"],
        "binaries": [[each["side"], each["run"], each["why"]] for each in report["binaries"]],
        "duel": duel
        and {name: duel[name] for name in ("verdict", "ratio", "low", "high", "blocks", "rival_message")},
        "clean_room": report["environment"].get("clean_room"),
        "sandbox": report["environment"].get("sandbox", {}).get("kind"),
        "phases": {name: round(s, 2) for name, s in report["phases"].items() if s >= 0.05},
    }


def figures(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the variation of scores and ratios between processes, by kind of job."""
    kinds = {"kept": ("duel", "final"), "tuned again": ("ranked", "tuned")}
    made: dict[str, Any] = {}
    for name, wanted in kinds.items():
        good = [each for each in jobs if each["kind"] in wanted and each.get("us")]
        times = [each["us"][0] for each in good]
        if len(times) > 1:
            made[name] = {
                "us": times,
                "mean_us": round(statistics.fmean(times), 3),
                "sd_percent": round(100 * statistics.stdev(times) / statistics.fmean(times), 3),
                "range_percent": round(100 * (max(times) / min(times) - 1), 3),
                "forms": len({str(each["kernels"]) for each in good}),
            }
    ratios = [
        each["duel"]["ratio"] for each in jobs if each["kind"] in ("duel", "final") and each.get("duel")
    ]
    if len(ratios) > 1:
        made["ratio"] = {"ratios": ratios, "sd_percent": round(100 * statistics.stdev(ratios), 3)}
    return made


def main(target: Path, seconds: float) -> int:
    """Run all jobs, the most telling first. Return how many did not come out as they should."""
    jobs, wrong = Jobs(target, seconds), 0
    matmul = job("matmul", MATMUL_REFERENCE, MATMUL, 2048)
    tables = [
        job(f"table-{factor}", TABLE_REFERENCE, TABLE.format(factor=factor), 1 << 18) for factor in (2, 4)
    ]
    first = jobs.run("ranked", matmul)
    second = None
    if first is not None:
        against = dataclasses.replace(matmul, rival=matmul.submission, rival_binary=first)
        second = jobs.run("tuned", against)
    if first is not None and second is not None:
        duel = dataclasses.replace(matmul, binary=first, rival=matmul.submission, rival_binary=second)
        jobs.run("final", dataclasses.replace(duel, rival_error=FINAL_ERROR))
        damaged = [dataclasses.replace(each, sha256="0" * 64) for each in first.files]
        broken = dataclasses.replace(matmul, binary=dataclasses.replace(first, files=damaged))
        jobs.run("damaged", broken)
        for _ in range(DUELS):
            jobs.run("duel", duel)
    kept = [jobs.run("table", each) for each in tables]
    if all(kept):
        mine, rival = kept
        fights = {"binary": mine, "rival": tables[1].submission, "rival_binary": rival}
        jobs.run("table duel", dataclasses.replace(tables[0], **fights))
    for _ in range(TUNED - 1):
        if first is not None:
            jobs.run("tuned", against)
    for each in jobs.result["jobs"]:
        uses = [use[2] for use in each.get("binaries", [])]
        is_right = each.get("verdict") == "accepted" and any(uses) is (each["kind"] == "damaged")
        wrong += not is_right
    print(json.dumps(jobs.result.get("figures", {}), indent=1))
    print(f"{len(jobs.result['jobs'])} jobs, {wrong} not as expected")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 280.0) else 0)
