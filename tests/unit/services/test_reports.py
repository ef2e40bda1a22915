from __future__ import annotations

import dataclasses

from builders import make_case, make_report, make_stage
from kernelcup.services.reports import WITHHELD, redact
from kernelcup_harness.protocol import CapturedOutput, Mismatch, StageName, Timing, Verdict, dumps

SECRET = "31337"

HIDDEN = make_case(
    index=1,
    hidden=True,
    verdict=Verdict.WRONG_ANSWER,
    parameters={"size": int(SECRET)},
    message=f"size {SECRET}",
    mismatch=Mismatch(where=SECRET, wrong=1, total=2, largest_error=1.0, first=[], rule=SECRET),
    timing=Timing(samples_ns=[float(SECRET)]),
    profile=SECRET,
    trace_gz64=SECRET,
)

REPORT = make_report(
    verdict=Verdict.WRONG_ANSWER,
    stage=StageName.RANKED,
    message=f"case 1 (size {SECRET}) is wrong",
    stages=[
        make_stage([make_case(message="public")], name=StageName.TEST, message="tests"),
        make_stage([make_case(), HIDDEN], verdict=Verdict.WRONG_ANSWER, message=f"size {SECRET}"),
    ],
    stdout=CapturedOutput(text=f"size is {SECRET}", total_bytes=13),
    extra={"benchmark.1.spec": SECRET},
    secret_seed="ab" * 32,
)


def test_nothing_of_a_hidden_case_but_place_and_verdict_is_shown() -> None:
    shown = redact(REPORT, viewer_is_creator=False)
    assert SECRET not in dumps(shown)
    case = shown.stages[1].cases[1]
    assert (case.index, case.hidden, case.verdict) == (1, True, Verdict.WRONG_ANSWER)
    assert shown.message == shown.stages[1].message == shown.stdout.text == WITHHELD


def test_public_cases_and_the_seed_stay() -> None:
    shown = redact(REPORT, viewer_is_creator=False)
    assert shown.stages[0] == REPORT.stages[0]
    assert shown.stages[1].cases[0] == REPORT.stages[1].cases[0]
    assert shown.secret_seed == REPORT.secret_seed


def test_the_creator_sees_everything() -> None:
    assert redact(REPORT, viewer_is_creator=True) is REPORT


def test_a_report_without_hidden_cases_is_shown_whole() -> None:
    report = make_report(stdout=CapturedOutput(text="hello"), message="fine", extra={"a": "b"})
    assert redact(report, viewer_is_creator=False) is report


def test_a_message_about_a_public_case_stays() -> None:
    failed = make_case(verdict=Verdict.WRONG_ANSWER, message="off by one")
    passed = dataclasses.replace(HIDDEN, verdict=Verdict.ACCEPTED)
    stage = make_stage([failed, passed], verdict=Verdict.WRONG_ANSWER, message="case 0 is wrong")
    report = make_report(
        verdict=Verdict.WRONG_ANSWER, stage=StageName.RANKED, message="case 0 is wrong", stages=[stage]
    )
    shown = redact(report, viewer_is_creator=False)
    assert shown.message == shown.stages[0].message == "case 0 is wrong"
    assert SECRET not in dumps(shown)


def test_a_message_of_a_stage_that_was_cut_off_may_be_about_a_hidden_case() -> None:
    passed = dataclasses.replace(HIDDEN, verdict=Verdict.ACCEPTED)
    stage = make_stage(
        [make_case(), passed],
        verdict=Verdict.RUNTIME_ERROR,
        message=f"in case 2: {SECRET}",
        planned_cases=3,
    )
    report = make_report(
        verdict=Verdict.RUNTIME_ERROR, stage=StageName.RANKED, message=SECRET, stages=[stage]
    )
    assert SECRET not in dumps(redact(report, viewer_is_creator=False))
