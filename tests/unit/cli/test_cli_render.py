"""Reports, standings and progress as people see them."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
from rich.console import Console

import ranking_model
from builders import (
    NOT_REPLAYED,
    NOW,
    make_audit,
    make_case,
    make_entry,
    make_report,
    make_stage,
    make_wall_report,
)
from kernelcup import scoring
from kernelcup.cli.show import ranking, render
from kernelcup.domain import DuelOutcome, Leaderboard, RankingBy, Score
from kernelcup.reporting.insights import Best
from kernelcup_harness.protocol import (
    Backend,
    BinaryUse,
    CapturedOutput,
    CaseResult,
    Difference,
    DuelResult,
    Finding,
    HarnessKind,
    Mismatch,
    Reason,
    RunReport,
    StageName,
    Timing,
    Verdict,
    Work,
)

MISMATCH = Mismatch(
    where="output['[red]']",
    wrong=2,
    total=9,
    largest_error=0.5,
    first=[Difference(position=[0, 1], expected="1.5", actual="[/]")],
    rule="|actual - expected| > 1e-05",
)


def console(*, width: int = 120) -> Console:
    return Console(file=io.StringIO(), width=width, highlight=False, soft_wrap=True)


def shown(report: RunReport, ranking_by: RankingBy | None = None, *, width: int = 120) -> str:
    """Return what is printed of a report."""
    out = console(width=width)
    render.report(out, report, ranking_by, about="kernelcup task show double")
    assert isinstance(out.file, io.StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())


def failed(verdict: Verdict = Verdict.WRONG_ANSWER, **overrides: Any) -> RunReport:
    """Return a run that ended in its test stage."""
    values: dict[str, Any] = {
        "verdict": verdict,
        "stage": StageName.TEST,
        "message": "all is lost",
        "stages": [],
    }
    return make_report(**(values | overrides))


def failed_case(**overrides: Any) -> RunReport:
    """Return a run of which the second case failed."""
    bad = make_case(None, index=1, **({"verdict": Verdict.WRONG_ANSWER} | overrides))
    stage = make_stage(
        [make_case(None, index=0), bad], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER, duration_s=2.0
    )
    return failed(stages=[stage])


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_is_named_first(verdict: Verdict) -> None:
    text = shown(failed(verdict, duration_s=1.25, environment={"device": "H100"}))
    mark = render.MARKS.get(verdict, "✗")
    assert text.startswith(f"{mark} {verdict.value.replace('_', ' ')} in the test stage   1.2 s, H100")


@pytest.mark.parametrize("verdict", sorted(set(Verdict) - {Verdict.ACCEPTED}))
def test_every_failure_comes_with_its_message_and_a_hint(verdict: Verdict) -> None:
    lines = shown(failed(verdict)).splitlines()
    assert lines[1] == "all is lost"
    assert "{about}" not in lines[-1]
    assert lines[-1].startswith(render.HINTS[verdict].partition("{about}")[0].rstrip())


def test_who_is_rejected_reads_that_the_times_may_be_the_cause() -> None:
    assert "or its times cannot be right" in shown(failed(Verdict.REJECTED, reason=Reason.FORGED_TIME))


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
    assert "--device emulated" in shown(report).splitlines()[-1]
    elsewhere = dataclasses.replace(report, backend=Backend.CUDA)
    assert "--device emulated" not in shown(elsewhere)


def test_a_ranked_run_shows_its_times_and_its_score() -> None:
    lines = shown(make_report([1234567.0, 5.0]), RankingBy.LAST).splitlines()
    assert "ranked: 2 of 2 cases passed" in lines[1]
    assert lines[2].split(maxsplit=3)[-1] == "time per call (95 %)  calls"
    assert lines[3].endswith("1.235 ms (1.235 to 1.235)     10")
    assert lines[-1] == "score 5 ns, 95 % interval 5 to 5 (last of the benchmarks, witnessed)"


def test_a_report_teaches_what_is_left_to_gain() -> None:
    finding = Finding(code="near_floor", text="Case 0 is within 10 % of what the device can do.")
    audit = make_audit(10_000.0, findings=[finding])
    timing = Timing(samples_ns=[12_400.0] * 10, offset_ns=2_400.0, discarded_ns=[3e4], audit=audit)
    case = make_case(timing=timing, work=Work(bytes=2e7), floor_ns=9_500.0, reference_ns=25_000.0)
    out = console(width=200)
    best = Best(submission=7, score_s=8e-6, cases_ns={0: 8_000.0})
    render.report(out, make_report(stages=[make_stage([case])]), RankingBy.LAST, best=best)
    assert isinstance(out.file, io.StringIO)
    text = " ".join(out.file.getvalue().split())
    assert "time per call (95 %) raw calls of attainable reference best clock" in text
    assert "10 µs (9.825 to 10.18) 12.4 µs 10 (+1 discarded) 95 % (2 TB/s) 2.5x 0.8x witnessed" in text
    assert finding.text in text
    assert (
        "score 10 µs, 95 % interval 9.826 to 10.18 (last of the benchmarks, raw 12.4 µs, witnessed)" in text
    )
    assert "25 % slower than the best, #7" in text


def test_a_stored_score_is_shown_as_it_was_stored() -> None:
    """A report that hides some cases, or a rule that has changed, would make another."""
    stored = Score(score_s=1.414e-6, low_s=1.4e-6, high_s=1.43e-6, raw_s=None)
    out = console(width=200)
    render.report(
        out, make_report([1000.0]), RankingBy.LAST, best=Best(submission=7, score_s=1e-6), stored=stored
    )
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    assert "score 1.414 µs, 95 % interval 1.4 to 1.43 (witnessed)" in text
    assert "41 % slower than the best, #7" in text


def test_what_earns_no_score_is_shown_with_none() -> None:
    assert "score" not in shown(make_report([1000.0]))


def test_a_duel_and_a_quarantine_are_told() -> None:
    duel = DuelResult(ratio=0.5, low=0.49, high=0.51, verdict="faster", blocks=9)
    found = [Finding(code="below_floor", text="It is faster than the device.", quarantines=True)]
    uses = [BinaryUse(side="rival", run=3)]
    text = shown(make_report(duel=duel, quarantine=found, binaries=uses), RankingBy.LAST)
    assert "Of its rival, the binary of run 3 was replayed." in text
    assert "The submission is 100.0 % faster than its rival" in text
    assert "waits for a person: It is faster than the device." in text
    out = console(width=200)
    render.report(out, make_report(quarantine=found), held=render.LOOKED_AT)
    assert isinstance(out.file, io.StringIO)
    assert "was reviewed by a person: It is faster than the device." in out.file.getvalue()
    out = console(width=200)
    render.report(out, make_report(quarantine=found), held=render.UNRANKED)
    assert isinstance(out.file, io.StringIO)
    assert "would not rank: It is faster than the device." in out.file.getvalue()


def test_times_that_mean_nothing_are_said_to() -> None:
    assert "cannot be compared" in shown(make_report(comparable=False))
    assert "cannot be compared" not in shown(make_report())
    assert "cannot be compared" not in shown(failed(comparable=False))


def test_times_of_a_tasks_own_harness_are_shown_as_reported() -> None:
    timing = Timing(samples_ns=[], reported_ns=1500.0, reported={"err": 20.0, "runs": 7.0})
    report = make_report(
        stages=[make_stage([make_case(timing=timing)])], harness=HarnessKind.OWN, environment={}
    )
    assert "1.5 µs (1.461 to 1.539)      7" in shown(report)


def test_a_mismatch_shows_where_what_and_how_much() -> None:
    text = shown(failed_case(mismatch=MISMATCH, message="output['[red]']: 2 of 9 elements are wrong (22 %)"))
    assert (
        "case 1 (size=1024, seed=2):\noutput['[red]']: 2 of 9 elements are wrong, largest error 0.5\n" in text
    )
    assert "  [0, 1]       1.5     [/]" in text
    assert "an element counts as wrong where |actual - expected| > 1e-05" in text
    assert "22 %" not in text


def test_a_mismatch_counts_what_is_not_finite() -> None:
    found = dataclasses.replace(MISMATCH, wrong=3, total=4, nan=2, infinite=1, largest_error=None)
    assert "]']: 3 of 4 elements are wrong, 2 NaN, 1 infinite\n" in shown(failed_case(mismatch=found))


def test_a_checkers_own_words_stand_above_the_mismatch() -> None:
    text = shown(failed_case(mismatch=MISMATCH, message="not the double\n0 1 2"))
    assert "case 1 (size=1024, seed=2): not the double\noutput" in text
    assert "0 1 2" not in text


def test_markup_and_escapes_in_a_message_are_only_text() -> None:
    assert "case 1 (size=1024, seed=2): [/] [red]x[/red] \\x1b[0m" in shown(
        failed_case(message="[/] [red]x[/red] \x1b[0m")
    )


def test_a_long_message_keeps_both_ends() -> None:
    lines = shown(failed(message="\n".join(f"line {number}" for number in range(500)))).splitlines()
    assert len(lines) < 50
    assert "line 0" in lines
    assert "line 499" in lines
    assert "[460 lines left out; --json has all that is stored]" in lines


def test_of_a_hidden_case_only_the_verdict_is_seen() -> None:
    hidden = CaseResult(index=0, parameters={}, hidden=True, verdict=Verdict.WRONG_ANSWER)
    stage = make_stage([hidden], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER)
    assert "0  ✗ wrong answer  hidden" in shown(failed(stages=[stage]))


def test_of_many_cases_the_failed_ones_are_shown() -> None:
    cases = [
        make_case(None, index=index, verdict=Verdict.WRONG_ANSWER if index == 77 else Verdict.ACCEPTED)
        for index in range(80)
    ]
    text = shown(failed(stages=[make_stage(cases, name=StageName.TEST, planned_cases=80)]))
    assert "test: 79 of 80 cases passed" in text
    assert "  77  ✗ wrong answer" in text
    assert f"{80 - render.SHOWN_CASES} more; --json has all" in text


def test_output_is_shown_with_its_last_lines() -> None:
    printed = CapturedOutput(text="\n".join(map(str, range(100))), total_bytes=99999, truncated=True)
    lines = shown(
        make_report(stdout=printed, stderr=CapturedOutput(text="[red]é\n", total_bytes=8))
    ).splitlines()
    start = lines.index("stdout (99999 bytes, shown to where the kept part ends):")
    assert lines[start + 1] == "  [80 lines left out; --json has all that is stored]"
    assert lines[start + 2] == "  80"
    assert lines[-2:] == ["stderr (8 bytes):", "  [red]é"]


def test_output_without_text_has_no_empty_listing() -> None:
    text = shown(make_report(stderr=CapturedOutput(text="\n \n", total_bytes=789)))
    assert text.splitlines()[-1] == "stderr: 789 bytes, no text"


def test_earlier_results_are_mentioned_only_where_there_are_some() -> None:
    before = "Results from before the limit are above"
    assert before in shown(dataclasses.replace(failed_case(), verdict=Verdict.TIME_LIMIT_EXCEEDED))
    assert before not in shown(failed(Verdict.TIME_LIMIT_EXCEEDED))


def test_a_profile_is_shown_under_its_case() -> None:
    case = make_case(None, profile="Name   # of Calls\naten::add  [1]\n")
    text = shown(make_report(stages=[make_stage([case], name=StageName.PROFILE)]), width=10)
    assert "profile of case 0 (size=1024, seed=2)\nName   # of Calls\naten::add  [1]\n" in text
    assert "verdict" not in text


def test_nothing_is_cut_on_a_narrow_terminal() -> None:
    audit = make_audit(13_234.0)
    timing = Timing(samples_ns=[16_400.0] * 100, offset_ns=2_400.0, audit=audit)
    case = make_case(timing=timing, work=Work(bytes=2e7), floor_ns=9_500.0, reference_ns=25_000.0)
    out = console(width=80)
    best = Best(submission=7, score_s=8e-6, cases_ns={0: 13_120.0})
    render.report(out, make_report(stages=[make_stage([case])]), RankingBy.LAST, best=best)
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().splitlines()
    assert lines[2].split() == ["case", "verdict", "parameters", "time", "per", "call", "(95", "%)"]
    assert lines[3].split()[:3] == ["0", "✓", "accepted"]
    assert lines[3].rstrip().endswith("13.23 µs (13.05 to 13.42)")
    assert lines[4] == (
        "case 0: raw 16.4 µs, 72 % (1.51 TB/s) of what the device attains, 1.89x the reference, 0.991x the best, "
        "witnessed"
    )


def test_a_time_by_the_wall_clock_says_why_and_what_of_it_is_overhead() -> None:
    text = shown(make_wall_report(), RankingBy.LAST, width=160)
    assert "overhead own clock calls clock" in " ".join(text.split())
    assert "80 µs (17.11 to 374) 55 µs 21 µs 5 by the wall clock" in " ".join(text.split())
    assert f"case 0: {NOT_REPLAYED}" in text
    assert "(last of the benchmarks, own clock 21 µs, by the wall clock)" in text


@pytest.mark.parametrize("width", [72, 76, 80, 84])
def test_no_word_is_broken_where_there_is_a_column_for_the_best(width: int) -> None:
    timing = Timing(samples_ns=[13_234.0] * 10)
    case = make_case(timing=timing, parameters={"size": 1024, "seed": 31232})
    best = Best(submission=7, score_s=8e-6, cases_ns={0: 49.0})
    out = console(width=width)
    render.report(out, make_report(stages=[make_stage([case])]), RankingBy.LAST, best=best)
    assert isinstance(out.file, io.StringIO)
    words = out.file.getvalue().split()
    assert {"parameters", "size=1024,", "seed=31232", "accepted"} <= set(words)
    assert "270 times slower" in out.file.getvalue()


def test_a_time_of_an_emulated_device_is_not_compared_with_the_best() -> None:
    out = console(width=100)
    best = Best(submission=7, score_s=1e-9, cases_ns={0: 1.0})
    render.report(out, make_report([1234567.0], comparable=False), RankingBy.LAST, best=best)
    assert isinstance(out.file, io.StringIO)
    assert "slower" not in out.file.getvalue()
    assert "cannot be compared" in out.file.getvalue()


def test_tables_fit_a_narrow_terminal() -> None:
    table = shown(make_report([1234567.0]), RankingBy.GEOM, width=60).splitlines()[1:5]
    assert all(len(line) <= 60 for line in table)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0.0, "0 ns"), (999.96, "1000 ns"), (13420.0, "13.42 µs"), (2.5e6, "2.5 ms"), (123456e9, "123456 s")],
)
def test_a_duration_has_a_unit_and_four_digits(ns: float, text: str) -> None:
    assert render.duration(ns) == text


BOARD = Leaderboard(
    id=1,
    name="double",
    task_hash="0" * 64,
    devices=("H100",),
    harness=HarnessKind.STANDARD,
    opens_at=None,
    creator="grace",
    creator_id=1,
    created_at=NOW,
)


def test_standings_show_ranks_and_their_worth() -> None:
    entry = scoring.Entry(
        user="[red]ada",
        score=Score(score_s=1e-6, low_s=0.99e-6, high_s=1.01e-6),
        submission_id=3,
        submitted_at=NOW,
        file_name="a\x1b.py",
        trust="self-measured",
        comparable=False,
        duel=DuelOutcome.TIED,
    )
    out = console(width=160)
    bob = dataclasses.replace(entry, user="bob", submission_id=4)
    ranking.standings(out, BOARD, "H100", ranking_model.standings([entry, bob]))
    ranking.standings(out, BOARD, "L4", [])
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    assert "1= [red]ada 1 µs 0.99 to 1.01 a\\x1b.py Python #3" in " ".join(text.split())
    assert "self-measured, duel tied" in text
    assert ranking.TIED in text
    assert ranking.EMULATED_TIMES in text
    assert "double on L4: no one is ranked yet" in text


def test_without_a_terminal_each_stage_leaves_one_line() -> None:
    out = console()
    with render.StageLines(out=out, label="[red]") as lines:
        lines.take({"event": "stage", "stage": "test", "limit_s": 60.0, "cases": 2})
        lines.take({"event": "sample", "stage": "test", "case": 0, "samples": 3})
        lines.take({"event": "case", "stage": "test", "case": 0})
        lines.take({"event": "something new"})
        lines.take({"event": "stage_end", "stage": "test", "verdict": "wrong_answer", "message": ""})
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == "[red]: ✗ wrong answer  test\n"


def test_on_a_terminal_the_live_line_says_where_the_run_is() -> None:
    out = Console(file=io.StringIO(), width=60, force_terminal=True, highlight=False)
    with render.StageLines(out=out) as lines:
        lines.relabel("#1 [red].py")
        lines.take({"event": "stage", "stage": "ranked", "limit_s": 60.0, "cases": 2})
        lines.take({"event": "sample", "stage": "ranked", "case": 0, "samples": 3})
        with lines.paused():
            out.print("between")
    assert isinstance(out.file, io.StringIO)
    assert "between" in out.file.getvalue()


def test_nothing_is_shown_of_a_quiet_run() -> None:
    out = console()
    with render.StageLines(out=out, quiet=True) as lines:
        lines.take({"event": "stage_end", "stage": "test", "verdict": "accepted", "message": ""})
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == ""


def test_a_list_with_a_wide_interval_says_by_what_it_ranks() -> None:
    def shown(reach: float) -> str:
        out, place = console(width=160), make_entry(low_s=1e-6 / (1 + reach), high_s=1e-6 * (1 + reach))
        ranking.standings(out, BOARD, "H100", ranking_model.standings([place]))
        assert isinstance(out.file, io.StringIO)
        return out.file.getvalue()

    told = "an interval that extends more than 5 % from its score is ranked by its upper end"
    assert told in shown(0.2)
    assert "witnessed, ranked by its upper end" in shown(0.2)
    assert told not in shown(0.01)
