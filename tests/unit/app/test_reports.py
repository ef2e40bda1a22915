from __future__ import annotations

import dataclasses

import pytest

from builders import make_case, make_report, make_stage
from kernelcup.app.submissions.redaction import WITHHELD, WITHHELD_RANKED, evidence, outline, redact
from kernelcup_harness.protocol import (
    Audit,
    CapturedOutput,
    DuelResult,
    Finding,
    HarnessKind,
    Mismatch,
    Mode,
    Reason,
    StageName,
    StageReport,
    Timing,
    TrustLevel,
    Verdict,
    dumps,
)

SECRET = "31337"

HIDDEN = make_case(
    index=1,
    hidden=True,
    met_hidden=True,
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
        make_stage(
            [make_case(), HIDDEN], verdict=Verdict.WRONG_ANSWER, message=f"size {SECRET}", met_hidden=True
        ),
    ],
    extra={"benchmark.1.spec": SECRET},
    secret_seed="ab" * 32,
)


def test_nothing_of_a_hidden_case_but_place_verdict_and_reason_is_shown() -> None:
    shown = redact(REPORT, sees_all=False)
    assert SECRET not in dumps(shown)
    case = shown.stages[1].cases[1]
    assert (case.index, case.hidden, case.verdict) == (1, True, Verdict.WRONG_ANSWER)
    assert shown.message == shown.stages[1].message == WITHHELD


def test_times_of_gpu_ranks_are_left_out_where_hidden_cases_were_met() -> None:
    ranks = {"count": 2, "cases": [{"stage": "ranked", "case": 0, "rank_us": [31337.0], "skew_us": 0.0}]}
    report = dataclasses.replace(REPORT, environment={"torch": "2", "ranks": ranks})
    assert redact(report, sees_all=False).environment == {"torch": "2", "ranks": {"count": 2}}
    assert redact(report, sees_all=True).environment["ranks"] == ranks


def test_a_hidden_case_that_raised_shows_no_line() -> None:
    failed = dataclasses.replace(HIDDEN, line=12, reason=Reason.EXCEPTION)
    stage = make_stage([failed], verdict=Verdict.RUNTIME_ERROR, met_hidden=True)
    (case,) = redact(make_report(stages=[stage]), sees_all=False).stages[0].cases
    assert (case.reason, case.line) == (Reason.EXCEPTION, None)
    assert case.message == ""


def test_a_public_case_of_a_process_that_has_met_hidden_ones_shows_rounded_times_only() -> None:
    audit = Audit(score_ns=31337.42, level=TrustLevel.REPLAYED, findings=[Finding(code="x", text=SECRET)])
    timing = Timing(samples_ns=[31337.42, 7.0], own_ns=[31337.42], discarded_ns=[31337.42], audit=audit)
    met = make_case(timing=timing, met_hidden=True, message=SECRET, mismatch=HIDDEN.mismatch, checks=31337)
    duel = DuelResult(ratios=[1.31337], cases=[[1.31337]], pairs=[31337], ratio=1.3133742, low=1.0, high=2.0)
    report = make_report(stages=[make_stage([met])], duel=duel, duration_s=3.1337, phases={"test": 0.31337})
    shown = redact(report, sees_all=False)
    assert SECRET not in dumps(shown)
    (case,) = shown.stages[0].cases
    assert case.parameters == met.parameters
    assert case.timing is not None
    assert (case.timing.score_ns, case.timing.samples_ns, case.timing.own_ns) == (31340.0, [31340.0], [])
    assert shown.duel is not None
    assert (shown.duel.ratio, shown.duel.ratios, shown.duration_s) == (1.313, [], 3.0)


@pytest.mark.parametrize("harness", [HarnessKind.STANDARD, HarnessKind.OWN])
def test_what_the_process_of_public_cases_has_printed_before_the_ranked_stage_is_shown(
    harness: HarnessKind,
) -> None:
    stage = make_stage([HIDDEN], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER, met_hidden=True)
    printed = CapturedOutput(text="printed", total_bytes=7)
    report = make_report(harness=harness, stages=[stage], stage=StageName.TEST, stdout=printed)
    assert redact(report, sees_all=False).stdout.text == "printed"


def test_a_report_of_an_own_harness_whose_one_process_met_all_cases_shows_no_figures_and_texts() -> None:
    """As 0.1.0 stored it: what it says of public cases may be of hidden ones."""
    timing = Timing(samples_ns=[], reported_ns=31337.0, reported={"std": float(SECRET)})
    cases = [make_case(timing=timing, message=SECRET), dataclasses.replace(HIDDEN, met_hidden=False)]
    stage = make_stage(cases, name=StageName.TEST, verdict=Verdict.WRONG_ANSWER, message=SECRET)
    own, printed = HarnessKind.OWN, CapturedOutput(text=SECRET)
    report = make_report(
        harness=own, stages=[stage], stage=StageName.TEST, message=SECRET, stdout=printed, stderr=printed
    )
    shown = redact(report, sees_all=False)
    assert SECRET not in dumps(shown)
    assert shown.stages[0].message == shown.stdout.text == WITHHELD


def test_public_cases_and_the_seed_stay() -> None:
    shown = redact(REPORT, sees_all=False)
    assert shown.stages[0] == REPORT.stages[0]
    assert shown.stages[1].cases[0] == REPORT.stages[1].cases[0]
    assert shown.secret_seed == REPORT.secret_seed


def test_the_creator_sees_everything() -> None:
    assert redact(REPORT, sees_all=True) is REPORT


PRINTED = {"stdout": CapturedOutput(text=SECRET), "stderr": CapturedOutput(text=SECRET)}


def test_a_practice_report_without_hidden_cases_is_shown_whole() -> None:
    report = make_report(mode=Mode.BENCHMARK, message="fine", extra={"a": "b"}, **PRINTED)
    assert redact(report, sees_all=False) is report


def test_what_is_printed_before_the_ranked_stage_is_shown() -> None:
    tests = make_stage([make_case()], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER)
    report = make_report(stages=[tests], stage=StageName.TEST, message="case 0 is wrong", **PRINTED)
    assert redact(report, sees_all=False) is report


@pytest.mark.parametrize("stages", [[], [make_stage([make_case()])]])
def test_nothing_that_is_printed_once_the_ranked_stage_began_is_shown(stages: list[StageReport]) -> None:
    report = make_report(
        stages=stages, stage=StageName.RANKED, message="case 0 is wrong", extra={"a": SECRET}, **PRINTED
    )
    shown = redact(report, sees_all=False)
    assert SECRET not in dumps(shown)
    assert (shown.stdout.text, shown.message, shown.stages) == (WITHHELD_RANKED, "case 0 is wrong", stages)
    assert redact(report, sees_all=True) is report


def test_the_first_wrong_elements_of_the_ranked_stage_are_shown() -> None:
    mismatch = Mismatch(where="[3]", wrong=1, total=2, largest_error=1.0, first=[], rule="equal")
    case = make_case(verdict=Verdict.WRONG_ANSWER, message="off by one", mismatch=mismatch)
    report = make_report(stages=[make_stage([case], verdict=Verdict.WRONG_ANSWER)], stage=StageName.RANKED)
    assert redact(report, sees_all=False).stages[0].cases == [case]


def test_messages_of_a_tasks_own_harness_may_be_what_was_printed() -> None:
    case = make_case(verdict=Verdict.WRONG_ANSWER, message=SECRET)
    stages = [make_stage([case], message=SECRET), make_stage([], name=StageName.TEST, message="shown")]
    report = make_report(harness=HarnessKind.OWN, stage=StageName.RANKED, message=SECRET, stages=stages)
    shown = redact(report, sees_all=False)
    assert SECRET not in dumps(shown)
    assert shown.stages[1].message == "shown"


def test_the_seed_of_a_job_that_is_not_done_stays_secret() -> None:
    shown = redact(REPORT, sees_all=False, done=False)
    assert (shown.secret_seed, shown.seed_commitment) == ("", REPORT.seed_commitment)


def test_an_outline_tells_the_verdict_and_nothing_of_how_it_came_about() -> None:
    shown = outline(REPORT)
    assert (shown.verdict, shown.stages, shown.secret_seed) == (Verdict.WRONG_ANSWER, [], "")
    assert SECRET not in dumps(shown)


def test_evidence_has_times_and_no_text_that_a_submission_wrote() -> None:
    case = make_case(message=SECRET)
    report = make_report(
        message=SECRET,
        stages=[make_stage([case], message=SECRET)],
        stdout=CapturedOutput(text=SECRET),
        environment={"device": "H100", "host": SECRET, "sandbox": {"kind": "bubblewrap", "why": SECRET}},
        extra={"told": SECRET},
    )
    shown = evidence(report)
    assert SECRET not in dumps(shown)
    assert shown.stages[0].cases[0].timing == case.timing
    assert shown.environment == {"device": "H100", "sandbox": {"kind": "bubblewrap"}}


def test_a_message_about_a_public_case_stays() -> None:
    failed = make_case(verdict=Verdict.WRONG_ANSWER, message="off by one")
    passed = dataclasses.replace(HIDDEN, verdict=Verdict.ACCEPTED)
    stage = make_stage([failed, passed], verdict=Verdict.WRONG_ANSWER, message="case 0 is wrong")
    report = make_report(
        verdict=Verdict.WRONG_ANSWER, stage=StageName.RANKED, message="case 0 is wrong", stages=[stage]
    )
    shown = redact(report, sees_all=False)
    assert shown.message == shown.stages[0].message == "case 0 is wrong"
    assert SECRET not in dumps(shown)


def test_a_message_of_a_stage_that_was_cut_off_may_be_about_a_hidden_case() -> None:
    passed = dataclasses.replace(HIDDEN, verdict=Verdict.ACCEPTED)
    stage = make_stage(
        [make_case(), passed],
        verdict=Verdict.RUNTIME_ERROR,
        message=f"in case 2: {SECRET}",
        planned_cases=3,
        met_hidden=True,
    )
    report = make_report(
        verdict=Verdict.RUNTIME_ERROR, stage=StageName.RANKED, message=SECRET, stages=[stage]
    )
    assert SECRET not in dumps(redact(report, sees_all=False))
