"""The baseline of a speedup, and cases that fail by themselves, in whole runs."""

from __future__ import annotations

from typing import Any

import pytest
from harness_runs import HONEST, RANKED, REFERENCE
from harness_runs import ranked as ranked_spec

from kernelcup_harness.protocol import CaseResult, RankingBy, Reason, RunReport, StageName, Verdict
from kernelcup_harness.protocol.results import trimmed_mean
from warm_harness import Run

SLOW = "import time\n\n\ndef custom_kernel(data):\n    time.sleep(0.02)\n    return data * 2\n"
HALF = "def custom_kernel(data):\n    return data * (2 if len(data) < 100 else 3)\n"
RAISES = "def custom_kernel(data):\n    assert len(data) < 100, 'not this size'\n    return data * 2\n"
SIZES = [{"size": 16, "seed": 1}, {"size": 200, "seed": 1}, {"size": 32, "seed": 1}]


def judged(warm: Run, submission: str, **overrides: Any) -> RunReport:
    values: dict[str, Any] = {
        "ranking_by": RankingBy.SPEEDUP,
        "tests": [{"size": 8, "seed": 1}],
        "benchmarks": SIZES,
    }
    return warm(ranked_spec(submission, **(values | overrides)))


def ranked(report: RunReport) -> list[CaseResult]:
    stage = report.stage_report(StageName.RANKED)
    return stage.cases


def test_a_baseline_is_timed_in_the_job_for_each_case(warm: Run) -> None:
    files = {"reference.py": REFERENCE, "solutions/baseline.py": SLOW}
    report = judged(warm, HONEST, sources=files, private_files=list(files), baseline="solutions.baseline")
    assert report.verdict is Verdict.ACCEPTED
    for case in ranked(report):
        assert len(case.baseline_ns) >= RANKED.min_samples
        assert trimmed_mean(case.baseline_ns) >= 2e7


@pytest.mark.jobs
def test_without_a_file_the_reference_is_the_baseline_and_weights_are_reported(warm: Run) -> None:
    report = judged(warm, HONEST, weights=[1.0, 2.0, 3.0])
    assert [case.weight for case in ranked(report)] == [1.0, 2.0, 3.0]
    assert all(0 < trimmed_mean(case.baseline_ns) < 2e7 for case in ranked(report))


@pytest.mark.jobs
def test_a_submission_that_slows_its_process_down_does_not_slow_the_baseline(warm: Run) -> None:
    busy = (
        "import threading\n\n\ndef burn():\n    while True:\n        pass\n\n\n"
        "for _ in range(4):\n    threading.Thread(target=burn, daemon=True).start()\n" + HONEST
    )
    report = judged(warm, busy)
    phases = list(report.phases)
    assert phases.index("baseline") < phases.index("load")


@pytest.mark.jobs
def test_other_rules_measure_no_baseline(warm: Run) -> None:
    report = judged(warm, HONEST, ranking_by=RankingBy.GEOM)
    assert not any(case.baseline_ns for case in ranked(report))
    assert "baseline" not in report.phases


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def custom_kernel(data):\n    return data\n", "the baseline's answer is wrong: not the double"),
        pytest.param(
            "def custom_kernel(data):\n    raise ValueError('no')\n",
            "the baseline failed: ValueError: no",
            marks=pytest.mark.jobs,
        ),
        pytest.param("X = 1\n", "defines no function custom_kernel", marks=pytest.mark.jobs),
    ],
)
def test_a_baseline_that_fails_is_the_tasks_fault(warm: Run, text: str, told: str) -> None:
    files = {"reference.py": REFERENCE, "baseline.py": text}
    report = judged(warm, HONEST, sources=files, private_files=list(files), baseline="baseline")
    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.TASK)
    assert told in report.message


@pytest.mark.parametrize("submission", [HALF, pytest.param(RAISES, marks=pytest.mark.jobs)])
def test_with_points_for_each_case_the_others_go_on(warm: Run, submission: str) -> None:
    report = judged(warm, submission, partial=True)
    assert report.verdict is Verdict.ACCEPTED
    first, failed, last = ranked(report)
    assert (first.verdict, last.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert failed.verdict in (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR)
    assert failed.timing is None or not failed.baseline_ns


ENDS = "import os\n\n\ndef custom_kernel(data):\n    return data * 2 if len(data) < 100 else os._exit(3)\n"


@pytest.mark.jobs
@pytest.mark.parametrize(
    ("submission", "changes", "verdict"),
    [
        pytest.param(HALF, {}, Verdict.WRONG_ANSWER, id="without points for each case"),
        pytest.param(
            HALF, {"partial": True, "benchmarks": SIZES[1:2]}, Verdict.WRONG_ANSWER, id="no case is right"
        ),
        pytest.param(HALF, {"partial": True, "tests": SIZES[1:2]}, Verdict.WRONG_ANSWER, id="a test fails"),
        pytest.param(ENDS, {"partial": True}, Verdict.RUNTIME_ERROR, id="the process ends"),
    ],
)
def test_a_case_costs_the_whole(warm: Run, submission: str, changes: Any, verdict: Verdict) -> None:
    assert judged(warm, submission, **changes).verdict is verdict
