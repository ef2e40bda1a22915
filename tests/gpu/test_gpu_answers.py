"""Answers of odd kinds, in captured and replayed calls on a real GPU."""

from __future__ import annotations

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
from kernelcup_harness.run.runner import run_job

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
SIZE = 1 << 20
REFERENCE = """\
import torch


def generate_input(size, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(size // 64, 64, device="cuda", generator=generator)
    return {data}


def ref_kernel(data):
    {reference}


def check_implementation(data, output):
    right = ref_kernel(data)
    right = data if right is None else right
    pairs = zip(right, output) if isinstance(right, tuple) else [(right, output)]
    return all(torch.allclose(r.double(), g.double(), rtol=0.01, atol=0.01) for r, g in pairs)
"""
TASKS = {
    "twice": ("x", "return data * 2"),
    "copy": ("x", "return data.clone()"),
    "pair": ("x", "return data * 2, data.argmax(1)"),
    "out": ("(x, torch.empty_like(x))", "torch.mul(data[0], 2, out=data[1])"),
    "given": ("(x, torch.empty_like(x))", "return torch.mul(data[0], 2, out=data[1])"),
}


def judged(task: str, body: str, mode: Mode, **changes: Any) -> RunReport:
    """Judge a submission of one line."""
    data, reference = TASKS[task]
    spec = JobSpec(
        job_id="answers",
        mode=mode,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE.format(data=data, reference=reference)},
        private_files=["reference.py"],
        submission=SourceTree.of(f"import torch\n\n\ndef custom_kernel(data):\n    {body}\n"),
        tests=[{"size": 4096, "seed": 11}],
        benchmarks=[{"size": SIZE, "seed": 12}],
        rules=MeasureRules(min_samples=8, max_samples=16, stage_budget_s=3.0),
        **changes,
    )
    return run_job(spec, lambda _event: None)


def said(report: RunReport) -> str:
    """Return all that a report says of a failure."""
    texts = [report.message, report.stderr.text]
    return "\n".join([*texts, *(case.message for stage in report.stages for case in stage.cases)])


@pytest.mark.parametrize(
    ("task", "body"),
    [
        ("out", "torch.mul(data[0], 2, out=data[1])"),
        ("out", "return torch.mul(data[0], 2, out=data[1])"),
        ("out", "torch.mul(data[0], 2, out=data[1]); return data[0]"),
        ("given", "data[1].copy_(data[0] * 2); return data[1]"),
        ("given", "return data[0] * 2"),
        ("twice", "return (data.t() * 2).t()"),
        ("twice", "return torch.cat([data * 2, data])[: len(data)]"),
        ("twice", "return torch._neg_view(data * -2)"),
        ("twice", "return (data * 2).half()"),
        ("twice", "return (data * 2).double()"),
        ("pair", "return [data * 2, torch.max(data, 1).indices]"),
        ("copy", "return data + 0"),
    ],
)
def test_an_honest_answer_of_an_odd_kind_is_replayed(task: str, body: str) -> None:
    report = judged(task, body, Mode.LEADERBOARD)

    assert report.verdict is Verdict.ACCEPTED, said(report)
    told = report.environment.get("clean_room", {})
    assert told["replayed"], told


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK])
@pytest.mark.parametrize(
    ("task", "body", "reason", "text"),
    [
        ("copy", "return data", Reason.ALIASED, "shares memory with"),
        ("copy", "return data.view(-1).view(data.shape)", Reason.ALIASED, "shares memory with"),
        ("twice", "return (data * 2).long()", Reason.FORM, "output has dtype torch.int64"),
        ("twice", "return (data * 2).to(torch.float8_e4m3fn)", Reason.FORM, "dtype torch.float8_e4m3fn"),
        ("pair", "return data * 2, data.argmax(1).int()", Reason.FORM, "output[1] has dtype torch.int32"),
        ("out", "return data[0] * 2", Reason.DIFFERS, "this task works in place"),
        ("out", "data[0].mul_(2); data[1].copy_(data[0])", Reason.WRITES_INPUT, "tensor 0 of"),
    ],
)
def test_an_answer_of_a_wrong_kind_is_refused_called_or_replayed(
    mode: Mode, task: str, body: str, reason: Reason, text: str
) -> None:
    report = judged(task, body, mode)

    assert report.verdict is Verdict.WRONG_ANSWER, said(report)
    assert report.stages[-1].cases[0].reason is reason, said(report)
    assert text in said(report)


def test_a_dtype_that_the_task_names_is_left_to_its_checker() -> None:
    report = judged("twice", "return (data * 2).to(torch.float8_e5m2)", Mode.TEST, dtypes=["float8_e5m2"])

    # Two bits of fractions are too few for this checker.
    assert report.stages[-1].cases[0].reason is Reason.DIFFERS, said(report)
