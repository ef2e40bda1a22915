"""Reports and live messages in words."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest

from builders import NOT_REPLAYED, make_audit, make_case, make_report, make_stage, make_wall_report
from kernelcup.bot.api import Happening
from kernelcup.bot.delivery.progress_message import JobLine, Live, duration, ordinal, render
from kernelcup.bot.messages import reports, texts
from kernelcup_harness.protocol import (
    CapturedOutput,
    Finding,
    Mode,
    Reason,
    RunReport,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
    to_json,
)

URL = "https://cup.example.org/s/1"


def job(report: RunReport | None, **changes: Any) -> dict[str, Any]:
    """Return a job as the API shows it."""
    shown: dict[str, Any] = {
        "id": 1,
        "device": "H100",
        "state": "done",
        "reason": "",
        "run": 1,
        "verdict": report.verdict.value if report is not None else None,
        "score_s": None,
        "low_s": None,
        "high_s": None,
        "raw_s": None,
        "remark": "",
        "best": None,
        "report": to_json(report) if report is not None else None,
        "waiting": None,
    }
    return shown | changes


def told(found: RunReport | None, **changes: Any) -> str:
    return "\n".join(each.text for each in reports.private_report(job(found) | changes, URL))


def test_a_score_has_its_interval() -> None:
    timing = Timing(samples_ns=[float(value) for value in range(990, 1011)])
    report = make_report(stages=[make_stage([make_case(timing=timing)])])
    text = told(report, score_s=1e-6, low_s=0.995e-6, high_s=1.004e-6, raw_s=1.2e-6)
    assert "Score: **1 µs** (95 %: 0.995 to 1.004) (raw 1.2 µs, witnessed)" in text
    assert "Ranked benchmarks: 1 of 1 passed" in text
    assert "⚡ 990 ns 🐌 1.01 µs" in text


def test_what_people_should_know_is_said_once_for_all_its_cases() -> None:
    why = Finding(code="not_replayed", text="its calls are not replayed: it waits for the device")
    audit = make_audit(1_000.0, captured=False, level=TrustLevel.WALL_CLOCK, findings=[why])
    timing = Timing(samples_ns=[1_000.0] * 3, audit=audit)
    cases = [make_case(timing=timing, index=index) for index in range(3)]
    text = told(make_report(stages=[make_stage(cases)], trust=TrustLevel.WALL_CLOCK), score_s=1e-6)
    assert text.count("waits for the device") == 1
    assert "> cases 0, 1, 2: its calls are not replayed: it waits for the device" in text


def test_a_time_by_the_wall_clock_says_why_and_what_of_it_is_overhead() -> None:
    text = told(make_wall_report(), score_s=8e-5, raw_s=2.1e-5)
    assert "Score: **80 µs** (own clock 21 µs, by the wall clock)" in text
    assert "overhead 55 µs, own clock 21 µs, by the wall clock" in text
    assert f"> case 0: {NOT_REPLAYED}" in text


def test_profiles_are_attached() -> None:
    trace = base64.b64encode(gzip.compress(b"{}")).decode()
    case = make_case(None, profile="kernel  1 ms\n" * 40, trace_gz64=trace)
    report = make_report(mode=Mode.PROFILE, stages=[make_stage([case], name=StageName.PROFILE)])
    files = [each.name for message in reports.private_report(job(report), URL) for each in message.files]
    assert files == ["profile-0.txt", "profile-0.json.gz"]


def test_times_that_cannot_be_right_are_told_without_blame() -> None:
    message = (
        "its times cannot be right: by the hardware's counters a call takes 14.64 us, by the clock 10.10 us"
    )
    text = told(make_report(verdict=Verdict.REJECTED, reason=Reason.FORGED_TIME, message=message, stages=[]))
    assert message in text
    assert "interfered" not in text


def test_a_failed_build_shows_its_message_and_output() -> None:
    report = make_report(
        verdict=Verdict.COMPILE_ERROR,
        stage=StageName.IMPORT,
        message="error: ``` expected ';'",
        stages=[make_stage([], name=StageName.IMPORT, verdict=Verdict.COMPILE_ERROR)],
        stderr=CapturedOutput(text="nvcc: no", total_bytes=8),
    )
    text = told(report)
    assert "❌ Compilation failed (compile error)" in text
    assert "nvcc: no" in text
    assert text.count("```") % 2 == 0


def test_a_report_of_a_later_version_is_on_the_web() -> None:
    assert URL in told(None, verdict="accepted")
    assert URL in told(None, verdict="accepted", report={"version": 99})


@pytest.mark.parametrize("state", ["cancelled", "quarantined"])
def test_other_ends_are_told(state: str) -> None:
    remark = "A person looks at this result before it counts." if state == "quarantined" else ""
    assert {"cancelled": "cancelled", "quarantined": "A person looks"}[state] in told(
        make_report(), state=state, remark=remark
    )


def live() -> Live:
    waiting = {"position": 3, "starts_in_s": 40.0, "runs_s": 9.0, "reason": "2 jobs are *ahead*"}
    return Live.of({"jobs": [job(None, state="queued", waiting=waiting)]}, {})


def test_a_submission_is_told_of_as_it_moves() -> None:
    each = live()
    line = each.jobs[1]
    assert line.text() == "⏳ **H100**: 3rd in the queue, starts in about 40 s (2 jobs are \\*ahead\\*)"
    said = []
    for kind, data in (
        ("waiting", {"1": {"position": 1, "starts_in_s": None, "reason": ""}}),
        ("started", {"attempt": 1}),
        ("progress", {"stage": "test", "case": 2, "cases": 12}),
        ("queued", {"reason": "the machine was lost"}),
        ("started", {"attempt": 2}),
        ("finished", {"verdict": "wrong_answer", "score_s": None}),
    ):
        job_id = None if kind == "waiting" else 1
        each.apply(Happening(id=1, kind=kind, job=job_id, data=data))
        said.append(line.text())
    assert said == [
        "⏳ **H100**: 1st in the queue",
        "🏃 **H100**: starting",
        "🏃 **H100**: testing, 3 of 12 cases",
        "⏳ **H100**: in the queue (the machine was lost)",
        "🏃 **H100**: starting",
        "❌ **H100**: wrong answer",
    ]
    assert each.ended
    assert each.mark == "❌"


def test_what_was_told_is_taken_up_again() -> None:
    each = live()
    each.apply(Happening(id=2, kind="progress", job=1, data={"stage": "ranked", "case": 0, "cases": 4}))
    again = Live.of({"jobs": [job(None, state="running")]}, each.progress())
    assert again.jobs[1].text() == "🏃 **H100**: measuring for the ranking, 1 of 4 cases"


def test_a_live_message_fits() -> None:
    lines = {number: JobLine(device=f"device-{number}" * 5, reason="why " * 60) for number in range(60)}
    submission = {"id": 1, "mode": "test", "file_name": "k" * 300, "leaderboard": "b" * 300}
    assert len(render(submission, Live(lines), URL)) <= texts.LONGEST_MESSAGE


def test_numbers_are_for_people() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"
    ]  # fmt: skip
    assert [duration(s) for s in (2.5e-9, 1.5e-6, 0.01234, 2)] == ["2.5 ns", "1.5 µs", "12.34 ms", "2 s"]
