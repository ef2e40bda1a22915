"""Calls that hang on a real GPU, one that tunes itself, and the empty call on a machine that is idle."""

from __future__ import annotations

import statistics
from typing import Any

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
from kernelcup_harness.run import empty_call
from kernelcup_harness.run.runner import run_job

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

REFERENCE = """\
import torch


def generate_input(size, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(size, device="cuda", generator=generator)


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""
LATER = """\
import torch

calls = []


def custom_kernel(data):
    calls.append(1)
    if len(calls) == {at}:
        torch.cuda._sleep({cycles})
    return data * 2
"""
IN_THE_TIMER = """\
import torch
import triton
import triton.language as tl


@triton.jit
def double(data, out, count, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    done = tl.atomic_add(count, 1)
    while done >= {most}:
        done = tl.load(count, volatile=True)
    tl.store(out + at, tl.load(data + at, mask=at < n) * 2, mask=at < n)


COUNT = None


def custom_kernel(data):
    global COUNT
    if COUNT is None:
        COUNT = torch.zeros(1, dtype=torch.int32, device="cuda")
    out = torch.empty_like(data)
    double[(1,)](data, out, COUNT, data.numel(), BLOCK=1024)
    return out
"""
CYCLES_A_SECOND = 2_000_000_000


def judged(source: str, mode: Mode, **rules: Any) -> tuple[RunReport, float]:
    """Judge a source; return the report, and the seconds of its last stage."""
    spec = JobSpec(
        job_id="late",
        mode=mode,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE},
        private_files=["reference.py"],
        submission=SourceTree.of(source),
        tests=[{"size": 1024, "seed": 1}],
        benchmarks=[{"size": 1024, "seed": 2}],
        rules=MeasureRules(**rules),
    )
    report = run_job(spec, lambda _event: None)
    return report, report.stages[-1].duration_s


def test_a_kernel_that_hangs_ends_long_before_its_stage() -> None:
    source = LATER.format(at=5, cycles=1000 * CYCLES_A_SECOND)
    report, took_s = judged(source, Mode.TEST, checks=6)
    assert (report.verdict, report.reason) == (Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME), report.message
    # A hundred times the first call of the reference, which loads its kernel, may be more than 10 s.
    assert 9 < took_s < 90, report.message


def test_a_first_call_that_takes_its_time_is_accepted() -> None:
    report, took_s = judged(LATER.format(at=1, cycles=15 * CYCLES_A_SECOND), Mode.TEST)
    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert took_s > 8


@pytest.mark.parametrize("most", [20, 1_000_000_000])
def test_a_kernel_that_hangs_in_the_timer_is_the_submissions_fault(most: int) -> None:
    report, took_s = judged(IN_THE_TIMER.format(most=most), Mode.LEADERBOARD)
    if most > 1000:
        assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
        return
    assert (report.verdict, report.reason) == (Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME), report.message
    assert report.message.startswith("a replayed call did not end within "), report.message
    assert took_s < 120


def test_an_idle_machine_is_not_busy() -> None:
    for _ in range(5):
        times_ns = empty_call.calls_ns()
        ratio = statistics.fmean(times_ns) / statistics.quantiles(times_ns, n=10)[0]
        assert ratio < 2, len(times_ns)
