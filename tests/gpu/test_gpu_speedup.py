"""A submission that is the baseline is not faster than it, whichever clock its time is of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelcup_harness.clocks.replay.graph_timer import GraphTimer
from kernelcup_harness.device.nvidia.call_graphs import captured
from kernelcup_harness.doubt.doubts import CudaClock
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    RankingBy,
    SourceTree,
    StageName,
    Verdict,
)
from kernelcup_harness.protocol.results import trimmed_mean
from kernelcup_harness.run.runner import run_job

EXAMPLES = Path(__file__).resolve().parents[2] / "src/kernelcup/tasks"
CASES = {
    "causal_attention": {"batch": 1, "heads": 8, "length": 512, "dim": 64, "seed": 1},
    "vectoradd": {"size": 2048, "seed": 1},
    "rmsnorm_residual": {"rows": 2048, "hidden": 4096, "seed": 1},
}
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


def judged(task: str, baseline: str, submission: str) -> CaseResult:
    """Return the ranked case of a submission."""
    folder = EXAMPLES / "examples" / task
    sources = {name: (folder / name).read_text("utf-8") for name in ("reference.py", "task.py")}
    spec = JobSpec(
        job_id=f"speedup-{task}",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={
            **sources,
            "utils.py": (EXAMPLES / "shared/utils.py").read_text("utf-8"),
            "baseline.py": baseline,
        },
        private_files=["reference.py", "baseline.py"],
        submission=SourceTree.of(submission),
        tests=[],
        benchmarks=[CASES[task]],
        baseline="baseline",
        ranking_by=RankingBy.SPEEDUP,
        rules=MeasureRules(min_samples=16, max_samples=24, stage_budget_s=4.0),
    )
    report = run_job(spec, lambda _event: None)
    assert report.verdict is Verdict.ACCEPTED, (report.message, report.stderr.text)
    (case,) = [each for stage in report.stages if stage.name is StageName.RANKED for each in stage.cases]
    return case


def speedup(case: CaseResult) -> float:
    """Return how many times faster the submission was."""
    assert case.timing is not None
    assert case.timing.audit is not None
    return trimmed_mean(case.baseline_ns) / case.timing.audit.score_ns


@pytest.mark.parametrize("task", list(CASES))
def test_a_submission_that_is_the_baseline_has_a_speedup_of_one(
    task: str, record_property: Callable[[str, float], None]
) -> None:
    code = (EXAMPLES / "examples" / task / "template.py").read_text("utf-8")
    case = judged(task, code, code)
    record_property("speedup", round(speedup(case), 4))
    assert case.timing is not None
    assert case.timing.audit is not None
    # A short filling of memory, as attention has, is a kernel of ours in the timer, and none in the baseline's graph.
    longer_ns = 1_000 if task == "causal_attention" else 300
    assert case.timing.audit.score_ns == pytest.approx(
        trimmed_mean(case.baseline_ns), rel=0.06, abs=longer_ns
    )


def test_where_there_are_no_counters_events_come_close(
    record_property: Callable[[str, str], None],
) -> None:
    code = (EXAMPLES / "examples/vectoradd/template.py").read_text("utf-8")
    case = judged("vectoradd", code, code)
    assert case.timing is not None
    assert case.timing.audit is not None
    shape = (case.parameters["size"],) * 2
    makes = itertools.repeat(lambda: [torch.rand(shape, device="cuda").half() for _ in range(2)], 16)
    found = GraphTimer(None, CudaClock(clean=True).time_ns, captured).times_ns(
        lambda data: data[0] + data[1], makes, 1e4
    )
    events_ns = trimmed_mean([*next(found), *next(found)])
    record_property("us", f"events {events_ns / 1e3:.2f}, replayed {case.timing.audit.score_ns / 1e3:.2f}")
    assert events_ns == pytest.approx(case.timing.audit.score_ns, abs=2_500)


def test_a_baseline_that_waits_for_the_device_is_called(
    record_property: Callable[[str, float], None],
) -> None:
    code = (EXAMPLES / "examples/vectoradd/template.py").read_text("utf-8")
    waits = code.replace("    a, b = data\n", "    a, b = data\n    torch.cuda.synchronize()\n").replace(
        "from task", "import torch\nfrom task", 1
    )
    assert "torch.cuda.synchronize()" in waits
    case = judged("vectoradd", waits, code)
    record_property("speedup", round(speedup(case), 4))
    assert case.baseline_ns
