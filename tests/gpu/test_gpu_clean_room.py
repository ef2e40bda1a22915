"""Whole jobs in the clean room, on a real GPU: one of each way that a job can go."""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelcup.scoring import Entry, score
from kernelcup_harness.isolation import sandbox
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    JobSpec,
    MeasureRules,
    Mode,
    RankingBy,
    Reason,
    RunReport,
    SourceTree,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.run import own_job
from kernelcup_harness.run.runner import run_job
from ranking_model import standings

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from clean_room_jobs import spec_of  # noqa: E402 - lies beside the measurements

WRITES = """\
def custom_kernel(data):
    return data[0].mul_(data[1]).add_(data[2]).clone()
"""


def judged(name: str, mode: Mode = Mode.LEADERBOARD, **changes: Any) -> tuple[RunReport, dict[str, Any]]:
    """Judge a kind of calls; return the report and what it says of the clean room."""
    spec: JobSpec = spec_of(name, mode, Backend.CUDA)
    rules = MeasureRules(min_samples=8, max_samples=16, stage_budget_s=3.0)
    report = run_job(replace(spec, rules=rules, **changes), lambda _event: None)
    return report, report.environment.get("clean_room", {})


def timed(report: RunReport, stage: int = -1) -> CaseResult:
    """Return the only timed case."""
    (case,) = report.stages[stage].cases
    return case


def test_a_chain_of_kernels_is_replayed() -> None:
    report, told = judged("aten")

    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert told["replayed"], told
    assert report.trust == ("witnessed" if told["witnessed"] else "replayed")
    found = timed(report).timing
    assert found is not None
    assert 10_000 < found.score_ns < 1_000_000
    assert found.gun_ns or 1_000 < found.offset_ns < 20_000


def test_an_answer_in_the_given_output_is_replayed() -> None:
    report, told = judged("vectoradd")

    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert told["replayed"], told


def test_a_benchmark_is_replayed() -> None:
    report, told = judged("matmul", Mode.BENCHMARK)

    assert told["replayed"], told
    assert timed(report).timing is not None


@pytest.mark.parametrize(("name", "reason"), [("item", "waits"), ("noise", "random")])
def test_what_cannot_be_captured_is_called(name: str, reason: str) -> None:
    report, told = judged(name)

    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert told["reason"] == reason


def test_a_graph_of_its_own_is_replayed() -> None:
    _, told = judged("own_graph")

    assert told["replayed"], told


def test_who_writes_an_input_is_named() -> None:
    report, _ = judged("triton", submission=SourceTree.of(WRITES))

    assert (report.verdict, report.reason) == (Verdict.WRONG_ANSWER, Reason.WRITES_INPUT)


def test_two_jobs_in_a_row_have_times_that_agree() -> None:
    first, second = (timed(judged("matmul")[0]).timing for _ in range(2))

    assert first is not None
    assert second is not None
    assert first.score_ns == pytest.approx(second.score_ns, rel=0.05)


@pytest.mark.parametrize("name", ["item", "wall_aten"])
def test_copies_by_the_wall_clock_share_the_first_place(name: str, record_property: Any) -> None:
    entries = []
    for number in range(5):
        report, _ = judged(name)
        found = score(report, RankingBy.LAST)
        assert found is not None, report.message
        assert report.trust is TrustLevel.WALL_CLOCK
        moment = datetime(2026, 6, 1, 12, number, tzinfo=UTC)
        entry = Entry(
            user=f"user-{number}",
            score=found,
            submission_id=number,
            submitted_at=moment,
            file_name="submission.py",
            trust=report.trust.value,
            comparable=report.comparable,
        )
        entries.append(entry)
    times = [each.score_s * 1e6 for each in entries]
    record_property("times_us", sorted(times))
    record_property("standard_deviation_us", statistics.stdev(times))
    assert [each.rank for each in standings(entries)] == [1] * 5, sorted(times)


@pytest.mark.parametrize(
    ("mine", "rival", "verdict"), [("spin_0", "spin_1", "faster"), ("spin_1", "spin_0", "slower")]
)
def test_a_percent_is_told_apart_by_two_timers(mine: str, rival: str, verdict: str) -> None:
    report, told = judged(mine, rival=spec_of(rival, Mode.LEADERBOARD, Backend.CUDA).submission)

    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert report.duel is not None
    assert (report.duel.verdict, report.duel.rival_message) == (verdict, "")
    assert told["replayed"], told
    assert not report.quarantine


def test_our_own_submission_meets_no_trouble(tmp_path: Path) -> None:
    _, told = judged("aten")
    spec = spec_of("aten", Mode.LEADERBOARD, Backend.CUDA)

    assert own_job.trouble(spec, tmp_path, witnessed=told["witnessed"], boxed=sandbox.is_there()) == ""
