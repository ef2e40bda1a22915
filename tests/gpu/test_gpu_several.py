"""Calls on two GPUs of one host: who times them, and how answers and errors of the ranks are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    Limits,
    MeasureRules,
    Mode,
    Reason,
    RunReport,
    SourceTree,
    StageName,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.run.runner import run_job

BACKEND = Backend.CUDA
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs"),
]
EXAMPLE = Path(__file__).resolve().parents[2] / "src/kernelcup/tasks/examples/all_reduce"
HEAD = "import torch\nimport torch.distributed as dist\n\n\ndef custom_kernel(x):\n"
SUM = "    total = x.clone()\n    dist.all_reduce(total)\n    return total\n"


def judged(submission: str, **overrides: Any) -> RunReport:
    """Judge an all-reduce by two ranks."""
    values: dict[str, Any] = {
        "job_id": "1.1",
        "mode": Mode.TEST,
        "backend": BACKEND,
        "harness": HarnessKind.STANDARD,
        "sources": {name: (EXAMPLE / name).read_text() for name in ("reference.py", "task.py")},
        "private_files": ["reference.py"],
        "submission": SourceTree.of(submission, "submission.py"),
        "multi_gpu": True,
        "tests": [{"size": 1000, "world_size": 2, "seed": 1}],
        "benchmarks": [{"size": 16384, "world_size": 2, "seed": 2}],
        "rules": MeasureRules(case_budget_s=2.0),
    }
    return run_job(JobSpec(**(values | overrides)), lambda _event: None)


def said(report: RunReport) -> tuple[Verdict, Reason]:
    return report.verdict, report.reason


def test_a_call_is_witnessed_on_both_gpus() -> None:
    report = judged(HEAD + SUM, mode=Mode.LEADERBOARD)
    assert said(report) == (Verdict.ACCEPTED, Reason.NONE), report.message
    if report.trust is TrustLevel.WALL_CLOCK:
        pytest.skip("the counters are locked")
    (case,) = next(stage for stage in report.stages if stage.name is StageName.RANKED).cases
    assert case.timing is not None
    # 10 us by the counters of two H200s; launched live, the host's clock reads 140.
    assert 3e3 < case.timing.score_ns < 60e3
    assert report.environment["ranks"]["count"] == 2
    assert report.environment["ranks"]["communication"].startswith("nccl 2.")


def test_an_answer_that_is_wrong_in_one_rank_is_named_with_it() -> None:
    report = judged(HEAD + SUM.replace("return total", "return total + dist.get_rank()"))
    assert said(report) == (Verdict.WRONG_ANSWER, Reason.DIFFERS)
    assert "rank 1" in report.message


def test_an_error_of_the_library_of_collectives_is_the_submissions() -> None:
    report = judged(HEAD + "    dist.all_reduce(x.cpu())\n    return x\n")
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert str(EXAMPLE) not in report.message


def test_a_rank_that_waits_for_one_that_does_not_come_ends_with_the_stage() -> None:
    report = judged(HEAD + "    if dist.get_rank():\n        return x\n" + SUM, limits=Limits(test_s=20.0))
    assert report.verdict is Verdict.TIME_LIMIT_EXCEEDED
    assert "rank 1" in report.message
