"""A report in words: what a terminal, a page and a message say alike."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from builders import make_audit, make_case, make_report, make_stage
from kernelcup.app.submissions.redaction import outline
from kernelcup.domain import RankingBy, Score
from kernelcup.reporting import report as view
from kernelcup.reporting import words
from kernelcup.reporting.insights import Best
from kernelcup.reporting.report import Cases, Headline, Line, Listing, Log, Table, Tone
from kernelcup_harness.protocol import (
    Backend,
    BinaryUse,
    Difference,
    DuelResult,
    Finding,
    Mismatch,
    Mode,
    Reason,
    RunReport,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
)

MISMATCH = Mismatch(
    where="output['red']",
    wrong=2,
    total=9,
    largest_error=0.5,
    first=[Difference(position=[0, 1], expected="1.5", actual="0")],
    rule="|actual - expected| > 1e-05",
)
BEST = Best(submission=7, score_s=8e-6)


def failed(verdict: Verdict = Verdict.WRONG_ANSWER, **overrides: Any) -> RunReport:
    """Return a run that ended in its test stage."""
    values: dict[str, Any] = {
        "verdict": verdict,
        "stage": StageName.TEST,
        "message": "all is lost",
        "stages": [],
    }
    return make_report(**(values | overrides))


def failed_cases(*cases: dict[str, Any]) -> RunReport:
    """Return a run whose test stage has these cases, each of them wrong."""
    found = [
        make_case(None, index=index, **({"verdict": Verdict.WRONG_ANSWER} | case))
        for index, case in enumerate(cases)
    ]
    return failed(stages=[make_stage(found, name=StageName.TEST, verdict=Verdict.WRONG_ANSWER)])


def lines(report: RunReport, **known: Any) -> list[str]:
    return [block.text for block in view.blocks(report, **known) if isinstance(block, Line)]


@pytest.mark.parametrize("verdict", sorted(set(Verdict) - {Verdict.ACCEPTED}))
def test_a_failure_says_what_it_is_why_and_what_to_do_next(verdict: Verdict) -> None:
    report = failed(verdict, duration_s=1.25, environment={"device": "H100"})
    head, log, step = view.blocks(report, about="kernelcup task show double")
    assert head == Headline(
        verdict=verdict, text=f"{verdict.value.replace('_', ' ')} in the test stage", about="1.2 s, H100"
    )
    assert isinstance(log, Log)
    assert log.text == "all is lost"
    assert isinstance(step, Line)
    assert step.text.startswith(words.next_step(report))
    assert "{about}" not in step.text


def test_of_an_outline_only_the_outcome_is_shown_without_advice() -> None:
    head, line = view.blocks(outline(failed(duration_s=1.25)), about="kernelcup task show double")
    assert head == Headline(verdict=Verdict.WRONG_ANSWER, text="wrong answer", about="")
    assert line == Line(text=view.OUTLINE, tone=Tone.SOFT)


def test_every_reason_and_every_mode_has_words() -> None:
    assert set(words.REASONS) == {*Reason}
    assert set(words.TRUST) == {*TrustLevel}
    assert all(words.next_step(make_report(mode=mode)) for mode in Mode)
    emulated = make_report(mode=Mode.BENCHMARK, backend=Backend.EMULATED)
    assert "only a GPU shows how fast" in words.next_step(emulated)


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: Found no NVIDIA driver on your system.",
        "RuntimeError: Cannot get CUDA generator without ATen_cuda library. PyTorch splits its backend",
    ],
)
def test_who_wants_a_gpu_on_the_processor_is_told_of_the_emulated_one(message: str) -> None:
    report = failed(Verdict.INTERNAL_ERROR, message=message, backend=Backend.CPU)
    assert "--device emulated" in words.next_step(report)
    assert "--device emulated" not in words.next_step(dataclasses.replace(report, backend=Backend.CUDA))


def test_a_score_is_shown_beside_the_best_with_how_it_was_made() -> None:
    audit = make_audit(10_000.0)
    timing = Timing(samples_ns=[12_400.0] * 10, offset_ns=2_400.0, audit=audit)
    report = make_report(stages=[make_stage([make_case(timing=timing)])])
    assert lines(report, ranking_by=RankingBy.LAST, best=BEST) == [
        "score 10 µs, 95 % interval 9.826 to 10.18 (last of the benchmarks, raw 12.4 µs, witnessed)",
        "It is 25 % slower than the best, #7.",
    ]


def test_a_stored_score_is_shown_as_it_was_stored() -> None:
    """A report that hides some cases, or a rule that has changed, would make another."""
    stored = Score(score_s=1.414e-6, low_s=1.4e-6, high_s=1.43e-6, raw_s=None)
    found = lines(make_report([1000.0]), ranking_by=RankingBy.LAST, score=stored)
    assert found == ["score 1.414 µs, 95 % interval 1.4 to 1.43 (witnessed)"]
    assert lines(make_report([1000.0])) == []


def test_a_duel_its_binaries_and_what_was_found_are_told() -> None:
    duel = DuelResult(ratio=0.5, low=0.49, high=0.51, verdict="faster", blocks=9)
    found = [Finding(code="below_floor", text="It is faster than the device.", quarantines=True)]
    report = make_report(duel=duel, quarantine=found, binaries=[BinaryUse(side="rival", run=3)])
    sentences = lines(report, held=view.LOOKED_AT)
    assert sentences[0].startswith("This submission is 100.0 % faster than its rival")
    assert sentences[1:] == [
        "Of its rival, the binary of run 3 was replayed.",
        "was reviewed by a person: It is faster than the device.",
    ]


def test_times_that_mean_nothing_are_said_to_and_compared_with_nothing() -> None:
    emulated = lines(make_report([1234567.0], comparable=False), ranking_by=RankingBy.LAST, best=BEST)
    assert emulated[1:] == [words.EMULATED]
    assert words.EMULATED not in lines(make_report())
    assert words.EMULATED not in lines(failed(comparable=False))


def test_a_mismatch_shows_where_what_and_how_much() -> None:
    message = "output['red']: 2 of 9 elements are wrong (22 %)"
    report = failed_cases({"mismatch": MISMATCH, "message": message, "judge": "", "reason": Reason.DIFFERS})
    why, log, table = view.failure(report)
    assert why == Line(text="The checker found the answer wrong.")
    assert isinstance(log, Log)
    assert log.text == "case 0 (size=1024, seed=2): "
    assert table == Table(
        name="wrong.txt",
        title="2 of 9 elements of output['red'] are wrong, off by 0.5 at most",
        columns=("position", "expected", "actual"),
        rows=(("[0, 1]", "1.5", "0"),),
        caption="an element counts as wrong where |actual - expected| > 1e-05",
    )


@pytest.mark.parametrize(
    ("judge", "shown"),
    [
        ("on an input\nthat differs: ", "on an input\nthat differs"),
        (None, "on an input that differs: output: 2 of 9 elements are wrong"),  # a report of 0.1.0
    ],
)
def test_table_replaces_the_checkers_lines_and_no_words_of_the_judge(judge: str | None, shown: str) -> None:
    message = "on an input that differs: output: 2 of 9 elements are wrong\n  [0, 1]: expected 1.5, got 0"
    case = {"mismatch": MISMATCH, "message": message, "reason": Reason.NEAR_TWIN}
    report = failed_cases(case if judge is None else case | {"judge": judge})
    why, log, _ = view.failure(report)
    assert why == Line(text="It was wrong on an input that differs in one element from an earlier one.")
    assert log == Log(
        name="message.txt", title="", text=f"case 0 (size=1024, seed=2): {shown}", first=10, last=30
    )


RANKS = {
    "count": 4,
    "communication": "nccl 2.28.9",
    "topology": "NV18",
    "cases": [
        {"stage": "ranked", "case": 0, "rank_us": [10.0, 12.5], "skew_us": 2.5},
        {"stage": "ranked", "case": 1, "rank_us": [1000.0, 1001.0, 1002.0, 1003.0], "skew_us": 3.25},
    ],
}


def test_gpu_ranks_are_rows_with_their_times_and_the_skew_below() -> None:
    (table,) = view.rank_tables(make_report(environment={"ranks": RANKS}))
    assert table.columns == ("GPU rank", "case 0", "case 1")
    assert table.rows == (
        ("0", "10 µs", "1 ms"),
        ("1", "12.5 µs", "1.001 ms"),
        ("2", "", "1.002 ms"),
        ("3", "", "1.003 ms"),
    )
    assert table.caption.endswith("case 0 2.5 µs, case 1 3.25 µs")


def test_the_first_wrong_tensor_and_the_first_exception_are_looked_at_first() -> None:
    scalar = dataclasses.replace(MISMATCH, wrong=1, total=1)
    raised = {"reason": Reason.EXCEPTION, "message": "boom"}
    report = failed_cases({"mismatch": scalar}, {"mismatch": MISMATCH}, raised, raised)
    assert [each.is_open for each in view.failures_of(report)] == [False, True, True, False]
    many = failed_cases(*[{"message": "no"}] * 20, raised)
    assert len(view.failures_of(many)) == view.MOST_FAILURES + 1


def test_a_profile_takes_the_place_of_its_case() -> None:
    stage = make_stage([make_case(None, profile="aten::add", trace_gz64="H4sI")], name=StageName.PROFILE)
    _, listing = view.blocks(make_report(stages=[stage]))
    assert listing == Listing(
        name="profile-0.txt",
        title="profile of case 0 (size=1024, seed=2)",
        text="aten::add",
        trace_gz64="H4sI",
    )
    wrong = dataclasses.replace(stage, cases=[make_case(None, verdict=Verdict.WRONG_ANSWER)])
    assert any(isinstance(each, Cases) for each in view.blocks(make_report(stages=[wrong])))
