"""CUDA C++ behind the C interface on a GPU: replayed, timed like the profiler, and refused with a clear sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelcup_harness.protocol import MeasureRules, RunReport, to_json
from kernelcup_harness.run.runner import run_job
from kernelcup_harness.submission.cuda.libraries import find_nvcc

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.skipif(find_nvcc({}) is None, reason="no nvcc"),
]
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import cuda_jobs  # noqa: E402 - lies beside the measurements

RULES = MeasureRules(min_samples=16, max_samples=24, stage_budget_s=3.0)


def judged(name: str) -> tuple[RunReport, dict[str, Any]]:
    """Judge a job of the list; return the report, also as JSON."""
    report = run_job(cuda_jobs.spec_of(name, rules=RULES), lambda _event: None)
    return report, to_json(report)


@pytest.mark.parametrize("name", list(cuda_jobs.JOBS))
def test_a_job_gets_its_verdict(name: str) -> None:
    _, told = judged(name)

    assert cuda_jobs.faults(name, told, {}) == []


@pytest.mark.parametrize("name", ["add", "triton"])
def test_a_replayed_time_is_that_of_the_profiler(name: str) -> None:
    _, told = judged(name)

    assert cuda_jobs.faults(name, told, cuda_jobs.profiled(name)["graphs"]) == []
    assert sorted(cuda_jobs.scores(told)) == sorted(cuda_jobs.SIZES)
