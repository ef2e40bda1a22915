"""One view of a report, in blocks of words: a terminal, a page and a Discord message add their markup only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kernelcup.domain import RankingBy, Score
from kernelcup.reporting import words
from kernelcup.reporting.bottlenecks import explain
from kernelcup.reporting.insights import Best, Insight, lessons
from kernelcup.reporting.made_of import ran_line
from kernelcup.reporting.phrases import (
    binaries_text,
    duel_sentence,
    duration,
    read_text,
    score_interval,
    score_value,
    times_as_fast,
    trust_text,
)
from kernelcup.scoring import score as score_of
from kernelcup_harness.protocol import (
    CaseResult,
    Mismatch,
    Reason,
    RunReport,
    StageName,
    StageReport,
    Verdict,
)

MOST_FAILURES = 12
RANKS = "ranks.txt"
"""The name of a table of GPU ranks."""
OUTLINE = "For other people’s submissions only the outcome is shown."
WAITS, LOOKED_AT, UNRANKED = "waits for a person", "was reviewed by a person", "would not rank"
"""What follows from a measurement's findings."""


class Tone(StrEnum):
    """How a line stands out."""

    PLAIN = "plain"
    SOFT = "soft"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The outcome."""

    verdict: Verdict
    text: str
    about: str
    """How long it took, and on which device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A sentence."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Lines that a program or a tool wrote."""

    name: str
    """A file name."""
    title: str
    text: str
    first: int = 0
    last: int = 20
    """The lines of a long text that are shown where there is little room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """A text of a profiler: shown as a whole, or attached."""

    name: str
    title: str
    text: str
    trace_gz64: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A few values in columns, all aligned to the right."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cases:
    """The cases of a stage, and what is known of the timed ones."""

    stage: StageReport
    insights: Mapping[int, Insight]

    @property
    def title(self) -> str:
        """How many cases passed."""
        passed = sum(case.verdict is Verdict.ACCEPTED for case in self.stage.cases)
        stage = self.stage
        return (
            f"{stage.name.value}: {passed} of {stage.planned_cases} cases passed in {stage.duration_s:.1f} s"
        )


Block = Headline | Line | Log | Listing | Table | Cases


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a run, or one case of it, was not accepted."""

    case: CaseResult | None
    title: str
    message: str
    mismatch: Mismatch | None
    reason: str
    """Empty where the title is the reason."""
    is_open: bool
    """Whether to look at it first: the first wrong tensor, and the first exception."""


def blocks(
    report: RunReport,
    *,
    score: Score | None = None,
    ranking_by: RankingBy | None = None,
    best: Best | None = None,
    about: str = "",
    held: str = WAITS,
    beside: Collection[str] = (),
) -> Iterator[Block]:
    """Yield all that a report says, in the order in which it is read.

    Args:
        score: The score that was stored with the result; the report may lack some of the data behind it.
        ranking_by: How a score is computed from times; None where that is not known, or nothing earns a score.
        best: The current first place, if known.
        about: The command that shows the task, for readers with a command line.
        held: The consequence of the measurement's findings.
        beside: The names of the files that lie where a submission of one file was.
    """
    made = None if ranking_by is None else score_of(report, ranking_by)
    if score is not None and (made is None or not math.isclose(made.score_s, score.score_s)):
        ranking_by = None  # stored under another rule, or computed from data that the report lacks
    score = score or made
    yield headline(report)
    for stage in report.stages:
        yield from _stage(stage, lessons(report, stage.name, best))
    yield from rank_tables(report)
    if (found := report.counters) is not None:
        yield Listing(name="kernels.txt", title="What limits it", text=explain.text(found))
    yield from failure(report)
    yield from _printed(report)
    if score is not None:
        yield Line(text=score_line(score, report, ranking_by))
    for fact in facts(report, score, best):
        yield Line(text=fact, tone=Tone.WARNING if fact == words.EMULATED else Tone.PLAIN)
    if report.ran:
        yield Line(text=ran_line(report.ran), tone=Tone.SOFT)
    for finding in report.quarantine:
        yield Line(text=f"{held}: {finding.text}", tone=Tone.WARNING)
    if not (report.stages or report.message or report.environment):
        yield Line(text=OUTLINE, tone=Tone.SOFT)
    elif report.verdict is not Verdict.ACCEPTED:
        yield Line(text=words.next_step(report, about, beside), tone=Tone.SOFT)


def headline(report: RunReport) -> Headline:
    """Return verdict, stage, duration and device."""
    where = "" if report.stage is None else f" in the {report.stage.value} stage"
    device = report.environment.get("device")
    told = (f"{report.duration_s:.1f} s" if report.duration_s else "", device)
    about = ", ".join(str(each) for each in told if each)
    return Headline(verdict=report.verdict, text=f"{words.verdict_text(report.verdict)}{where}", about=about)


def failure(report: RunReport) -> Iterator[Block]:
    """Yield why a report was not accepted: the message and the first wrong elements of one case."""
    found = next((each for each in failures_of(report) if each.is_open), None)
    if found is None:
        return
    case, wrong = found.case, found.mismatch
    where = "" if case is None else f"case {case.index} ({parameters_text(case)}): "
    if found.reason:
        yield Line(text=found.reason)
    message = found.message or ("" if wrong is not None else found.title)
    if message or where:
        yield Log(name="message.txt", title="", text=where + message, first=10, last=30)
    if wrong is not None:
        yield Table(
            name="wrong.txt",
            title=found.title,
            columns=("position", "expected", "actual"),
            rows=tuple((str(each.position), each.expected, each.actual) for each in wrong.first),
            caption=f"an element counts as wrong where {wrong.rule}",
        )


def rank_tables(report: RunReport) -> Iterator[Table]:
    """Yield the times of each GPU rank, a table for each timed stage of a task on several GPUs."""
    facts = report.environment.get("ranks")
    cases = facts.get("cases", []) if isinstance(facts, Mapping) else []
    for stage, found in itertools.groupby(cases, key=lambda case: str(case["stage"])):
        timed = [(each["case"], each["rank_us"], each["skew_us"]) for each in found]
        count = max(len(times) for _, times, _ in timed)
        yield Table(
            name=RANKS,
            title=f"GPU ranks, {stage}",
            columns=("GPU rank", *(f"case {case}" for case, _, _ in timed)),
            rows=tuple(
                (
                    str(rank),
                    *(duration(1e3 * times[rank]) if rank < len(times) else "" for _, times, _ in timed),
                )
                for rank in range(count)
            ),
            caption="median time of each rank; skew between the first and the last: "
            + ", ".join(f"case {case} {duration(1e3 * skew)}" for case, _, skew in timed),
        )


def failures_of(report: RunReport) -> tuple[Failure, ...]:
    """Return the first cases that were not accepted, or the whole run where no case says why."""
    if report.verdict is Verdict.ACCEPTED:
        return ()
    stage = None if report.stage is None else report.stage_report(report.stage)
    failed = [case for case in (stage.cases if stage else ()) if case.verdict is not Verdict.ACCEPTED]
    opened = _opened(failed)
    found = (
        _failure(report, case, is_open=at in opened)
        for at, case in enumerate(failed or [None])
        if at < MOST_FAILURES or at in opened
    )
    return tuple(each for each in found if each.mismatch is not None or each.message or each.title)


def facts(report: RunReport, score: Score | None, best: Best | None) -> Iterator[str]:
    """Yield sentences about a result: beside the best, beside its rival, and whether its times mean anything."""
    if score is not None and best is not None and best.score_s > 0 and report.comparable:
        yield f"It is {times_as_fast(best.score_s / score.score_s, f'the best, #{best.submission}')}."
    if report.duel is not None:
        sentence = duel_sentence(report.duel, "this submission", "its rival")
        yield sentence[:1].upper() + sentence[1:]
    if sentence := binaries_text(report.binaries, "this submission", "its rival"):
        yield sentence
    if not report.comparable and any(case.timing for stage in report.stages for case in stage.cases):
        yield words.EMULATED


def score_line(score: Score, report: RunReport, ranking_by: RankingBy | None = None) -> str:
    """Return the score with its 95 % interval, the figure beside it, and how it was timed."""
    how = [f"{ranking_by.value} of the benchmarks"] if ranking_by is not None else []
    if score.raw_s is not None and not math.isclose(score.raw_s, score.score_s):
        how.append(read_text(score.raw_s, report.trust))
    interval = score_interval(score)
    known = f", 95 % interval {interval}" if interval else ""
    how += [trust_text(report.trust), "isolation: provider" if report.environment.get("isolation") else ""]
    return f"score {score_value(score.score_s, score.speedup)}{known} ({', '.join(filter(None, how))})"


def score_text(score: Score) -> str:
    """Return a score with its 95 % interval: ``13.42 µs (13.39 to 13.45)``."""
    told, value = score_interval(score), score_value(score.score_s, score.speedup)
    return f"{value} ({told})" if told else value


def parameters_text(case: CaseResult) -> str:
    """Return all parameters of a case: ``height=512, width=512, seed=7``; ``hidden`` for a hidden one."""
    if case.hidden and not case.parameters:
        return "hidden"
    return ", ".join(f"{key}={value}" for key, value in case.parameters.items())


def _printed(report: RunReport) -> Iterator[Log]:
    for name, captured in (("stdout", report.stdout), ("stderr", report.stderr)):
        if captured.total_bytes:
            kept = ", shown to where the kept part ends" if captured.truncated else ""
            empty = "" if captured.text.strip() else ", no text"
            title = f"{name} ({captured.total_bytes} bytes{kept or empty})"
            yield Log(name=f"{name}.txt", title=title, text=captured.text)


def _stage(stage: StageReport, insights: Mapping[int, Insight]) -> Iterator[Block]:
    has_failed = any(case.verdict is not Verdict.ACCEPTED for case in stage.cases)
    if stage.cases and (has_failed or stage.name is not StageName.PROFILE):
        yield Cases(stage=stage, insights=insights)
    for case in stage.cases:
        if case.profile or case.trace_gz64:
            yield Listing(
                name=f"profile-{case.index}.txt",
                title=f"profile of case {case.index} ({parameters_text(case)})",
                text=case.profile or "",
                trace_gz64=case.trace_gz64,
            )


def _opened(failed: Sequence[CaseResult]) -> set[int]:
    """Return which cases to look at first: a wrong answer of more than one element, and an exception."""
    wrong = [at for at, case in enumerate(failed) if case.mismatch is not None]
    large = [at for at in wrong if (found := failed[at].mismatch) is not None and found.total > 1]
    raised = [at for at, case in enumerate(failed) if case.reason is Reason.EXCEPTION]
    return {*(large or wrong)[:1], *raised[:1]} or {0}


def _failure(report: RunReport, case: CaseResult | None, *, is_open: bool) -> Failure:
    mismatch = case.mismatch if case is not None else None
    message = case.message if case is not None and case.message else report.message if is_open else ""
    reason = words.REASONS[report.reason if case is None else case.reason or report.reason]
    if mismatch is not None:
        # The table says better what the checker's own lines say; a report of 0.1.0 does not tell them apart.
        judge = case.judge if case is not None else None
        message = message.partition("\n")[0] if judge is None else judge.rstrip(": \n")
    return Failure(
        case=case,
        title=reason if mismatch is None else _wrong_text(mismatch),
        message=message,
        mismatch=mismatch,
        reason="" if mismatch is None else reason,
        is_open=is_open,
    )


def _wrong_text(mismatch: Mismatch) -> str:
    """Return how many elements are wrong, and by how much at most."""
    error = "" if mismatch.largest_error is None else f", off by {mismatch.largest_error:.4g} at most"
    where = "" if mismatch.where == "output" else f" of {mismatch.where}"
    return f"{mismatch.wrong:,} of {mismatch.total:,} elements{where} are wrong{mismatch.kinds}{error}"
