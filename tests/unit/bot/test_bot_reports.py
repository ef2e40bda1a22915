"""Reports and live messages in words."""

from __future__ import annotations

import base64
import gzip
from typing import Any

from builders import make_audit, make_case, make_report, make_stage
from kernelcup.bot.api import Happening
from kernelcup.bot.delivery.progress_message import JobLine, Live, render
from kernelcup.bot.messages import reports, texts
from kernelcup_harness.protocol import (
    CapturedOutput,
    Difference,
    Finding,
    Mismatch,
    Mode,
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
        "attempt": 1,
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


def test_a_ranked_report_is_a_few_lines_and_a_listing_of_its_cases() -> None:
    why = Finding(code="not_replayed", text="its calls are not replayed: it waits for the device")
    audit = make_audit(1_000.0, captured=False, level=TrustLevel.WALL_CLOCK, findings=[why])
    timing = Timing(samples_ns=[float(value) for value in range(990, 1011)], audit=audit)
    cases = [make_case(timing=timing, index=index) for index in range(3)]
    report = make_report(stages=[make_stage(cases)], environment={"device": "H100"})
    text = told(report, score_s=1e-6, low_s=0.995e-6, high_s=1.004e-6, raw_s=1.2e-6)
    assert text.startswith(
        "## ✅ H100: accepted\nRunning on:\n- Device: H100\n### ranked: 3 of 3 cases passed"
    )
    assert "⏱ 1 µs" in text
    assert "⚡ 990 ns 🐌 1.01 µs  (21 calls)" in text
    assert "> cases 0, 1, 2: its calls are not replayed: it waits for the device" in text
    assert "score 1 µs, 95 % interval 0.995 to 1.004" in text


def test_a_wrong_answer_has_a_table_and_what_to_do_next() -> None:
    first = [Difference(position=[1], expected="1.5", actual="```")]
    wrong = Mismatch(where="output", wrong=1, total=9, largest_error=0.5, first=first, rule="any")
    case = make_case(None, verdict=Verdict.WRONG_ANSWER, mismatch=wrong)
    stage = make_stage([case], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER)
    text = told(make_report(verdict=Verdict.WRONG_ANSWER, stage=StageName.TEST, stages=[stage]))
    assert "## ❌ H100: wrong answer in the test stage" in text
    assert "1 of 9 elements are wrong, off by 0.5 at most" in text
    assert "position  expected  actual\n     [1]       1.5" in text
    assert "-# Run this case on your own machine" in text


def test_profiles_are_attached() -> None:
    trace = base64.b64encode(gzip.compress(b"{}")).decode()
    case = make_case(None, profile="kernel  1 ms\n" * 40, trace_gz64=trace)
    report = make_report(mode=Mode.PROFILE, stages=[make_stage([case], name=StageName.PROFILE)])
    files = [each.name for message in reports.private_report(job(report), URL) for each in message.files]
    assert files == ["profile-0.txt", "profile-0.json.gz"]


def test_a_failed_build_shows_its_message_and_output() -> None:
    report = make_report(
        verdict=Verdict.COMPILE_ERROR,
        stage=StageName.IMPORT,
        message="error: ``` expected ';'",
        stages=[make_stage([], name=StageName.IMPORT, verdict=Verdict.COMPILE_ERROR)],
        stderr=CapturedOutput(text="nvcc: no", total_bytes=8),
    )
    text = told(report)
    assert "❌ H100: compile error in the import stage" in text
    assert "nvcc: no" in text
    assert text.count("```") % 2 == 0


def test_a_report_of_a_later_version_is_on_the_web() -> None:
    assert URL in told(None, verdict="accepted")
    assert URL in told(None, verdict="accepted", report={"version": 99})


def live() -> Live:
    waiting = {"position": 3, "starts_in_s": 40.0, "runs_s": 9.0, "reason": "2 jobs are *ahead*"}
    return Live.of({"jobs": [job(None, state="queued", waiting=waiting)]}, {})


def test_a_submission_is_told_of_as_it_moves() -> None:
    each = live()
    line = each.jobs[1]
    assert (
        line.text() == "⏳ **H100**: number 3 in the queue, starts in about 40 s \\(2 jobs are \\*ahead\\*\\)"
    )
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
        "⏳ **H100**: number 1 in the queue",
        "🏃 **H100**: starting",
        "🏃 **H100**: testing, 3 of 12 cases",
        "⏳ **H100**: waits \\(the machine was lost\\)",
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
