"""A job and its report as their page shows them: everything that is worked out of them, typed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kernelcup.app.queue.estimates import Waiting
from kernelcup.app.results.leader import Beside
from kernelcup.app.submissions.submissions import JobView
from kernelcup.domain import Job, JobState, Run, Standing
from kernelcup.http.pages.figures import NS, TimeScale
from kernelcup.http.pages.submissions import report_plots, report_words
from kernelcup.http.pages.submissions.failing import Failure, failures_of
from kernelcup.http.pages.submissions.progress import Step
from kernelcup.reporting import columns, timeline
from kernelcup.reporting.bottlenecks import explain, roofline
from kernelcup.reporting.insights import Insight, lessons
from kernelcup.reporting.phrases import binaries_text, duel_sentence, times_as_fast, trust_text
from kernelcup_harness.protocol import (
    CaseResult,
    Counters,
    HarnessKind,
    RunReport,
    StageReport,
    TrustLevel,
    Verdict,
)

ENOUGH = 0.05
"""Phases of less than this share of the whole are told together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """A profile's counters as the page shows them."""

    found: Counters
    setting: str
    sentences: Sequence[explain.Sentence]
    rows: Sequence[explain.Row]
    roofline: Markup

    @classmethod
    def of(cls, found: Counters) -> Explained:
        """Work out everything that is shown of some counters."""
        return cls(
            found=found,
            setting=explain.setting(found),
            sentences=explain.sentences(found),
            rows=explain.rows(found),
            # Names are escaped there.
            roofline=Markup(roofline.picture(found)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRow:
    """A line of a stage's table."""

    case: CaseResult
    lesson: Insight | None
    samples: Markup
    rate: str
    over_reference: str
    over_best: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTable:
    """A stage with its cases."""

    stage: StageReport
    passed: int
    rows: tuple[CaseRow, ...]
    scale: TimeScale
    reach: float
    overheads: bool
    """Whether the overhead of a call was measured for any case."""
    owns: bool
    """Whether the submission has times of its own of any case."""
    notes: Mapping[str, str]
    """The findings of its audits, with their cases."""
    keys: tuple[str, ...]
    """The parameters, where all cases have the same few: they head the column."""

    @property
    def timed(self) -> bool:
        """Whether any case has a time."""
        return any(row.lesson is not None for row in self.rows)

    def has(self, what: str) -> bool:
        """Return whether any row has a text of this name."""
        return any(getattr(row, what) for row in self.rows)

    @property
    def has_shares(self) -> bool:
        """Whether it is known of any case what the device attains."""
        return any(row.lesson is not None and row.lesson.share is not None for row in self.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """All that is shown of a submission on one device."""

    job: Job
    run: Run | None
    waiting: Waiting | None
    steps: tuple[Step, ...]
    beside: Beside | None
    place: Standing | None
    """The place that it holds in the ranking."""
    scale: TimeScale
    failures: tuple[Failure, ...]
    """Why it was not accepted, by case: the one to look at first is open."""
    stages: tuple[StageTable, ...]
    phases: tuple[tuple[str, float], ...]
    timeline: Markup
    environment: tuple[tuple[str, str], ...]
    facts: tuple[str, ...]
    """Sentences about the score."""
    next: str

    @property
    def report(self) -> RunReport | None:
        """The report, as much of it as the viewer may see; None while there is none."""
        return None if self.run is None else self.run.report

    @property
    def failure(self) -> Failure | None:
        """The one to look at first."""
        return next((each for each in self.failures if each.is_open), None)

    @property
    def is_whole(self) -> bool:
        """Whether more than the outcome is shown."""
        return self.report is not None and bool(self.report.stages or self.report.message)

    @property
    def waits_for_review(self) -> bool:
        """Whether the result does not rank until a person has decided."""
        return self.job.state is JobState.QUARANTINED

    @property
    def profiles(self) -> list[CaseResult]:
        """The cases that were profiled."""
        stages = self.report.stages if self.report is not None else []
        return [case for stage in stages for case in stage.cases if case.profile or case.trace_gz64]

    @property
    def timelines(self) -> dict[int, Markup]:
        """The pictures of the traces, by the index of the case."""
        return {each.index: Markup(timeline.picture(each.trace_gz64 or "")) for each in self.profiles}

    @property
    def counters(self) -> Explained | None:
        """What limits the kernels of a profile."""
        found = self.report.counters if self.report is not None else None
        return None if found is None else Explained.of(found)

    @property
    def seconds(self) -> float:
        """From sending to the result."""
        return sum(seconds for _, seconds in self.phases)

    @property
    def checked(self) -> int:
        """How many answers were checked."""
        stages = self.report.stages if self.report is not None else []
        return sum(case.checks for stage in stages for case in stage.cases)

    @property
    def trust(self) -> str:
        """How the time was taken; empty where there is none."""
        return trust_text(self.report.trust) if self.report is not None and self._is_timed else ""

    @property
    def trust_means(self) -> str:
        """What that says."""
        return report_words.TRUST[self.report.trust] if self.report is not None and self._is_timed else ""

    @property
    def _is_timed(self) -> bool:
        # Under our harness only a run without a whole time is of the lowest level, which names the task's clock.
        if self.report is None or (
            self.report.trust is TrustLevel.SELF_MEASURED and self.report.harness is not HarnessKind.OWN
        ):
            return False
        return any(table.timed for table in self.stages)


def job_page(
    view: JobView,
    *,
    waiting: Waiting | None,
    steps: Sequence[Step],
    beside: Beside | None,
    place: Standing | None,
    waited_s: float,
) -> JobPage:
    """Work out what is shown of a job.

    Args:
        view: The job and its run, as somebody may see them.
        waiting: What it waits for.
        steps: How far it is.
        beside: What stands beside its result.
        place: Which place it holds.
        waited_s: From sending to the run's begin.
    """
    run = view.run
    report = None if run is None else run.report
    seen = report is not None and bool(report.stages)
    phases = tuple(_phases(report, waited_s)) if report is not None and seen else ()
    return JobPage(
        job=view.job,
        run=run,
        waiting=waiting,
        steps=tuple(steps),
        beside=beside,
        place=place,
        scale=TimeScale.of([None if run is None else run.score_s]),
        failures=() if report is None else failures_of(report),
        stages=() if report is None else tuple(_tables(report, beside)),
        phases=phases,
        timeline=report_plots.timeline(phases),
        environment=() if report is None else tuple(_environment(report)),
        facts=() if run is None else tuple(_facts(run, beside)),
        next=_next(view, report),
    )


def _next(view: JobView, report: RunReport | None) -> str:
    if view.job.state in (JobState.QUEUED, JobState.RUNNING):
        return report_words.WAITS_NEXT
    if view.job.state is JobState.CANCELLED:
        return "Nothing was judged. Send it again when you like."
    return "" if report is None else report_words.next_text(report)


def _tables(report: RunReport, beside: Beside | None) -> Iterator[StageTable]:
    best = beside.best if beside is not None else None
    for stage in report.stages:
        if not stage.cases:
            continue
        learned = lessons(report, stage.name, best)
        timings = [each.timing for each in stage.cases if each.timing is not None]
        reach = report_plots.reach_of(timings)
        yield StageTable(
            stage=stage,
            passed=sum(each.verdict is Verdict.ACCEPTED for each in stage.cases),
            rows=tuple(_row(each, learned.get(each.index), reach) for each in stage.cases),
            scale=TimeScale.of(each.time_ns / NS for each in learned.values()),
            reach=reach,
            overheads=any(each.overhead_ns is not None for each in timings),
            owns=any(each.own_ns is not None for each in learned.values()),
            notes=_notes(stage.cases, learned),
            keys=report_words.shared_keys(stage.cases),
        )


def _row(case: CaseResult, lesson: Insight | None, reach: float) -> CaseRow:
    known = lesson is not None
    return CaseRow(
        case=case,
        lesson=lesson,
        samples=report_plots.samples(case.timing, reach) if known and case.timing else Markup(""),
        rate=_rate(lesson) if lesson is not None else "",
        over_reference=columns.times(lesson.over_reference) if lesson is not None else "",
        over_best=columns.times(lesson.over_best) if lesson is not None else "",
    )


def _notes(cases: Sequence[CaseResult], learned: Mapping[int, Insight]) -> dict[str, str]:
    """Return the findings of the audits with their cases; the overhead has a column of its own."""
    audits = {each.index: each.timing.audit for each in cases if each.timing is not None}
    found = []
    for index, lesson in learned.items():
        audit = audits.get(index)
        told = () if audit is None else tuple(each.text for each in audit.findings)
        found.append(dataclasses.replace(lesson, notes=told))
    return columns.notes(found)


def _rate(lesson: Insight) -> str:
    """Return the bytes moved, or operations done, each second; if both are known, the share names the bound."""
    moved = columns.rate(lesson.bytes_per_s, "B/s")
    return moved or columns.rate(lesson.flops_per_s, "FLOP/s")


def _phases(report: RunReport, waited_s: float) -> Iterator[tuple[str, float]]:
    """Yield the phases in the order in which they happened, the short ones told together at the end."""
    found: dict[str, float] = {"queue": max(waited_s, 0.0)}
    for name, seconds in report.phases.items():
        told = report_words.PHASES.get(name.partition("/")[0], report_words.OTHER_PHASE)
        found[told] = found.get(told, 0.0) + max(seconds, 0.0)
    if len(found) == 1:
        return
    unnamed = max(report.duration_s - sum(report.phases.values()), 0.0)
    total = sum(found.values()) + unnamed
    rest = found.pop(report_words.OTHER_PHASE, 0.0) + unnamed
    for name, seconds in found.items():
        if seconds >= ENOUGH * total:
            yield name, seconds
        else:
            rest += seconds
    if rest > 0:
        yield report_words.OTHER_PHASE, rest


def _environment(report: RunReport) -> Iterator[tuple[str, str]]:
    for key, name in report_words.ENVIRONMENT.items():
        if value := report.environment.get(key):
            yield name, str(value)
    sandbox = report.environment.get("sandbox")
    if isinstance(sandbox, Mapping) and sandbox.get("kind"):
        yield "Sandbox", str(sandbox["kind"])


def _facts(run: Run, beside: Beside | None) -> Iterator[str]:
    report = run.report
    if run.score_s is not None:
        best = beside.best if beside is not None else None
        if best is not None and best.score_s > 0 and report.comparable:
            yield f"{times_as_fast(best.score_s / run.score_s, f'the best, #{best.submission}')}.".capitalize()
    if report.duel is not None:
        told = duel_sentence(report.duel, "this submission", "its rival")
        yield told[:1].upper() + told[1:]
    if told := binaries_text(report.binaries, "this submission", "its rival"):
        yield told
    if not report.comparable and any(case.timing for stage in report.stages for case in stage.cases):
        yield report_words.EMULATED
