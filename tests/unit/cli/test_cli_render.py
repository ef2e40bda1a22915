"""Reports, standings and progress as people see them."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
from rich.console import Console

import ranking_model
from builders import (
    NOW,
    make_audit,
    make_case,
    make_entry,
    make_report,
    make_stage,
)
from kernelcup import scoring
from kernelcup.cli.show import ranking, render
from kernelcup.domain import DuelOutcome, Leaderboard, RankingBy, Score
from kernelcup.reporting import phrases
from kernelcup.reporting.insights import Best
from kernelcup.reporting.report import blocks
from kernelcup_harness.protocol import (
    CapturedOutput,
    Difference,
    Finding,
    HarnessKind,
    Mismatch,
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


def shown(report: RunReport, *, width: int = 120, **known: Any) -> str:
    """Return what is printed of a report."""
    out = console(width=width)
    render.show(out, blocks(report, about="kernelcup task show double", **known))
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


def test_a_ranked_run_shows_its_times_and_its_score() -> None:
    lines = shown(make_report([1234567.0, 5.0]), ranking_by=RankingBy.LAST).splitlines()
    assert "ranked: 2 of 2 cases passed" in lines[1]
    assert lines[2].split(maxsplit=3)[-1] == "time per call (95 %)  calls"
    assert lines[3].endswith("1.235 ms (1.235 to 1.235)     10")
    assert lines[-1] == "score 5 ns, 95 % interval 5 to 5 (last of the benchmarks, witnessed)"


def test_a_report_teaches_what_is_left_to_gain() -> None:
    finding = Finding(code="near_floor", text="Case 0 is within 10 % of what the device can do.")
    audit = make_audit(10_000.0, findings=[finding])
    timing = Timing(samples_ns=[12_400.0] * 10, offset_ns=2_400.0, discarded_ns=[3e4], audit=audit)
    case = make_case(timing=timing, work=Work(bytes=2e7), floor_ns=9_500.0, reference_ns=25_000.0)
    best = Best(submission=7, score_s=8e-6, cases_ns={0: 8_000.0})
    text = " ".join(shown(make_report(stages=[make_stage([case])]), best=best, width=200).split())
    assert "time per call (95 %) raw calls of attainable reference best clock" in text
    assert "10 µs (9.825 to 10.18) 12.4 µs 10 (+1 discarded) 95 % (2 TB/s) 2.5x 0.8x witnessed" in text
    assert finding.text in text


def test_a_mismatch_is_a_table_under_its_case() -> None:
    text = shown(failed_case(mismatch=MISMATCH, message=f"{MISMATCH.where}: so", judge=""))
    assert "case 1 (size=1024, seed=2):\n2 of 9 elements of output['[red]'] are wrong" in text
    assert "  [0, 1]       1.5     [/]" in text
    assert "an element counts as wrong where |actual - expected| > 1e-05" in text


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


def test_a_profile_is_shown_under_its_case() -> None:
    case = make_case(None, profile="Name   # of Calls\naten::add  [1]\n")
    text = shown(make_report(stages=[make_stage([case], name=StageName.PROFILE)]), width=10)
    assert "profile of case 0 (size=1024, seed=2)\nName   # of Calls\naten::add  [1]\n" in text
    assert "verdict" not in text


def test_nothing_is_cut_on_a_narrow_terminal() -> None:
    audit = make_audit(13_234.0)
    timing = Timing(samples_ns=[16_400.0] * 100, offset_ns=2_400.0, audit=audit)
    case = make_case(timing=timing, work=Work(bytes=2e7), floor_ns=9_500.0, reference_ns=25_000.0)
    best = Best(submission=7, score_s=8e-6, cases_ns={0: 13_120.0})
    lines = shown(make_report(stages=[make_stage([case])]), best=best, width=80).splitlines()
    assert lines[2].split() == ["case", "verdict", "parameters", "time", "per", "call", "(95", "%)"]
    assert lines[3].split()[:3] == ["0", "✓", "accepted"]
    assert lines[3].rstrip().endswith("13.23 µs (13.05 to 13.42)")
    assert lines[4] == (
        "case 0: raw 16.4 µs, 72 % (1.51 TB/s) of what the device attains, 1.89x the reference, 0.991x the best, "
        "witnessed"
    )


@pytest.mark.parametrize("width", [72, 76, 80, 84])
def test_no_word_is_broken_where_there_is_a_column_for_the_best(width: int) -> None:
    timing = Timing(samples_ns=[13_234.0] * 10)
    case = make_case(timing=timing, parameters={"size": 1024, "seed": 31232})
    best = Best(submission=7, score_s=8e-6, cases_ns={0: 49.0})
    text = shown(make_report(stages=[make_stage([case])]), best=best, width=width)
    assert {"parameters", "size=1024,", "seed=31232", "accepted"} <= set(text.split())
    assert "270 times slower" in text


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
    assert phrases.TIED in text
    assert phrases.EMULATED_TIMES in text
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


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_place_of_a_list_is_one_line_at_any_width(width: int) -> None:
    out, place = console(width=width), make_entry(low_s=9e-7, high_s=2e-6, trust="wall clock")
    ranking.standings(out, BOARD, "H100", ranking_model.standings([place]))
    assert isinstance(out.file, io.StringIO)
    _title, _head, line, *_notes = out.file.getvalue().splitlines()
    assert line.rstrip().endswith("wall clock, upper end")


def test_a_list_with_a_wide_interval_says_by_what_it_ranks() -> None:
    def shown(reach: float) -> str:
        out, place = console(width=160), make_entry(low_s=1e-6 / (1 + reach), high_s=1e-6 * (1 + reach))
        ranking.standings(out, BOARD, "H100", ranking_model.standings([place]))
        assert isinstance(out.file, io.StringIO)
        return out.file.getvalue()

    told = "an interval that extends more than 5 % from its score is ranked by its upper end"
    assert told in shown(0.2)
    assert "witnessed, upper end" in shown(0.2)
    assert told not in shown(0.01)
