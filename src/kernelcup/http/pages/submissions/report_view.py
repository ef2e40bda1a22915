"""A job and its report as their page shows them: everything that is worked out of them, typed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kernelcup.app.submissions.events import Event
from kernelcup.domain import OPEN, JobState, Run, Standing
from kernelcup.http.pages.figures import NS, TimeScale
from kernelcup.http.pages.submissions import report_plots, report_words
from kernelcup.http.pages.submissions.report_words import stage_text
from kernelcup.reporting import columns, words
from kernelcup.reporting.insights import Best, Insight, lessons
from kernelcup.reporting.report import Failure, Table, facts, failures_of, rank_tables
from kernelcup.reporting.results import JobInfo
from kernelcup_harness.protocol import CaseResult, HarnessKind, RunReport, StageReport, TrustLevel, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A stage of an attempt that goes on."""

    name: str
    done: int
    planned: int
    verdict: str
    """Empty while it runs."""

    @property
    def cells(self) -> Markup:
        """A cell for each case."""
        return report_plots.cells(self.done, self.planned)


def steps_of(events: Iterable[Event], job_id: int) -> list[Step]:
    """Return the stages that a job's latest attempt has come to, in order."""
    found: dict[str, Step] = {}
    for event in events:
        if event.job_id != job_id:
            continue
        if event.kind in ("started", "queued", "rejudging"):
            found = {}
        elif event.kind == "progress":
            name = stage_text(str(event.data.get("stage", "")))
            found[name] = _further(found.get(name), name, event)
    return list(found.values())


def _further(before: Step | None, name: str, event: Event) -> Step:
    planned = event.data.get("cases") or (before.planned if before is not None else 0)
    done = before.done if before is not None else 0
    if isinstance(case := event.data.get("case"), int):
        done = max(done, case + 1)
    verdict = str(event.data.get("verdict", ""))
    return Step(name=name, done=planned if verdict == "accepted" else done, planned=planned, verdict=verdict)


ENOUGH = 0.05
"""Phases of less than this share of the whole are told together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTable:
    """A stage with its cases."""

    stage: StageReport
    insights: Mapping[int, Insight]
    """Of the timed cases."""
    columns: Collection[str]
    """The names of what is known of any case: see :mod:`kernelcup.reporting.columns`."""
    passed: int
    scale: TimeScale
    reach: float
    notes: Mapping[str, str]
    """The findings of its audits, with their cases."""
    keys: tuple[str, ...]
    """The parameters, where all cases have the same few: they head the column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """All that is shown of a submission on one device."""

    job: JobInfo
    steps: tuple[Step, ...]
    place: Standing | None
    """The place that it holds in the ranking."""
    scale: TimeScale
    failures: tuple[Failure, ...]
    """Why it was not accepted, by case: the one to look at first is open."""
    stages: tuple[StageTable, ...]
    ranks: tuple[Table, ...]
    """The times of the GPU ranks, for each timed stage."""
    phases: tuple[tuple[str, float], ...]
    timeline: Markup
    environment: tuple[tuple[str, str], ...]
    facts: tuple[str, ...]
    """Sentences about the score."""
    next: str

    @property
    def run(self) -> Run | None:
        """The run that counts."""
        return self.job.counted

    @property
    def report(self) -> RunReport | None:
        """The report, as much of it as the viewer may see; None while there is none."""
        return self.job.report

    @property
    def failure(self) -> Failure | None:
        """The one to look at first."""
        return next((each for each in self.failures if each.is_open), None)

    @property
    def is_whole(self) -> bool:
        """Whether more than the outcome is shown."""
        return self.report is not None and bool(self.report.stages or self.report.message)

    @property
    def profiles(self) -> list[CaseResult]:
        """The cases that were profiled."""
        stages = self.report.stages if self.report is not None else []
        return [case for stage in stages for case in stage.cases if case.profile or case.trace_gz64]

    @property
    def checked(self) -> int:
        """How many answers were checked."""
        stages = self.report.stages if self.report is not None else []
        return sum(case.checks for stage in stages for case in stage.cases)

    @property
    def trust(self) -> TrustLevel | None:
        """How the time was taken; None where there is none."""
        report = self.report
        if report is None or not any(table.insights for table in self.stages):
            return None
        # Under our harness only a run without a whole time is of the lowest level, which names the task's clock.
        is_own = report.harness is HarnessKind.OWN
        return report.trust if is_own or report.trust is not TrustLevel.SELF_MEASURED else None


def job_page(
    job: JobInfo,
    *,
    steps: Sequence[Step],
    place: Standing | None,
    waited_s: float,
) -> JobPage:
    """Work out what is shown of a job.

    Args:
        job: The job, as the viewer may see it.
        steps: How far it is.
        place: Which place it holds.
        waited_s: From sending to the run's begin.
    """
    report, score, best = job.report, job.score, job.best
    seen = report is not None and bool(report.stages)
    phases = tuple(_phases(report, waited_s)) if report is not None and seen else ()
    return JobPage(
        job=job,
        steps=tuple(steps),
        place=place,
        # As on the board, whose unit is that of its first place.
        scale=TimeScale.of(each.score_s for each in (score, best) if each is not None),
        failures=() if report is None else failures_of(report),
        stages=() if report is None else tuple(_tables(report, best)),
        ranks=() if report is None else tuple(rank_tables(report)),
        phases=phases,
        timeline=report_plots.timeline(phases),
        environment=() if report is None else tuple(words.environment(report)),
        facts=() if report is None else tuple(facts(report, score, best)),
        next=_next(job),
    )


def _next(job: JobInfo) -> str:
    if job.state in OPEN:
        return report_words.WAITS_NEXT
    if job.state is JobState.CANCELLED:
        return "Nothing was judged. Send it again when you like."
    return "" if job.report is None else words.next_step(job.report)


def _tables(report: RunReport, best: Best | None) -> Iterator[StageTable]:
    for stage in report.stages:
        if not stage.cases:
            continue
        learned = lessons(report, stage.name, best)
        timings = [each.timing for each in stage.cases if each.timing is not None]
        yield StageTable(
            stage=stage,
            insights=learned,
            columns=columns.columns(list(learned.values())),
            passed=sum(each.verdict is Verdict.ACCEPTED for each in stage.cases),
            scale=TimeScale.of(each.time_ns / NS for each in learned.values()),
            reach=report_plots.reach_of(timings),
            notes=columns.notes(learned.values()),
            keys=report_words.shared_keys(stage.cases),
        )


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
