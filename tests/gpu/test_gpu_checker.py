"""Answers that break a checker on a real GPU: they are wrong, and neither task nor machine is to blame."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    Reason,
    RunReport,
    SourceTree,
    Verdict,
)
from kernelcup_harness.run.runner import run_job

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CANNOT = "the checker cannot work with this output: "

ORDER = """\
import ctypes
import torch

def generate_input(size, seed):
    return torch.randperm(size, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))

def ref_kernel(data):
    return data.argsort()

def check_implementation(data, output):
    {use}
    return torch.equal(ref_kernel(data), output)
"""
USES = {
    "index on the device": "data[output]",
    "scatter on the device": "torch.zeros_like(data).scatter_(0, output, data)",
    "memory of the device": "torch.empty(int(output.max()) + 1, 8, device='cuda')",
    "memory of the host": "torch.empty(int(output.max()) + 1, 1 << 20)",
    "address": "ctypes.string_at(ctypes.addressof(ctypes.c_ubyte()) + int(output.max()), 1)",
}
HONEST = "def custom_kernel(data):\n    return data.argsort()\n"
HOSTILE = "def custom_kernel(data):\n    return data.argsort() + (1 << 40)\n"
SAME = "def custom_kernel(data):\n    return data.clone()\n"


def judged(use: str, submission: str, mode: Mode = Mode.TEST) -> RunReport:
    """Judge a submission by a checker that uses the answer so."""
    cases = [{"size": size, "seed": size} for size in (1 << 10, 1 << 20)]
    spec = JobSpec(
        job_id="checker",
        mode=mode,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": ORDER.format(use=use)},
        private_files=["reference.py"],
        reference_module="reference",
        submission=SourceTree.of(submission),
        tests=cases,
        benchmarks=cases[:1],
        wide_answers=True,
        rules=MeasureRules(min_samples=8, max_samples=16, stage_budget_s=3.0),
    )
    return run_job(spec, lambda _event: None)


@pytest.mark.parametrize("use", USES)
def test_an_answer_that_breaks_the_checker_is_wrong_and_the_right_one_is_accepted(use: str) -> None:
    hostile, honest = (judged(USES[use], each) for each in (HOSTILE, HONEST))
    assert (hostile.verdict, hostile.reason) == (Verdict.WRONG_ANSWER, Reason.DIFFERS), hostile.message
    assert hostile.message.startswith(CANNOT)
    assert [case.verdict for case in hostile.stages[-1].cases] == [Verdict.WRONG_ANSWER] * 2
    assert (honest.verdict, honest.message) == (Verdict.ACCEPTED, "")


def test_a_wrong_answer_that_breaks_nothing_is_described() -> None:
    report = judged("pass", SAME)
    assert (report.verdict, report.reason) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    mismatch = report.stages[-1].cases[0].mismatch
    assert mismatch is not None
    assert mismatch.wrong > 1000


@pytest.mark.parametrize("submission", [HONEST, HOSTILE])
def test_a_checker_that_breaks_its_device_on_the_references_answer_too_is_the_tasks_fault(
    submission: str,
) -> None:
    report = judged("data[output + (1 << 40)]", submission)
    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.TASK), report.message


@pytest.mark.parametrize("use", ["index on the device", "memory of the device"])
def test_a_ranked_run_is_judged_in_the_same_way(use: str) -> None:
    ranked = judged(USES[use], HONEST, Mode.LEADERBOARD)
    assert (ranked.verdict, ranked.message) == (Verdict.ACCEPTED, "")
    late = "calls = []\ndef custom_kernel(data):\n    calls.append(1)\n"
    late += "    return data.argsort() + (1 << 40) * (len(calls) > 2)\n"
    broken = judged(USES[use], late, Mode.LEADERBOARD)
    assert broken.verdict is Verdict.WRONG_ANSWER, broken.message


def test_device_memory_is_lent_to_the_checker_and_large_answers_are_checked_quickly() -> None:
    command = [sys.executable, str(BENCHMARKS / "checker_price.py"), "--backend", "cuda", "--checks"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=500).stdout)
    assert found["lent lends"], found
    assert found["lent 1.07e+03 MB ms"] < found["copied 1.07e+03 MB ms"] / 4
    assert found["lent 0.00102 MB ms"] < 5
