"""A report as plain text in sections, each of bounded length: for agents, whose context is small."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from kernelcup.domain import RankingBy
from kernelcup.reporting import columns, report
from kernelcup.reporting.report import Block, Cases, Headline, Line, Listing, Log, Table
from kernelcup.reporting.results import JobInfo
from kernelcup.reporting.words import next_step, place_text
from kernelcup_harness.protocol import CaseResult, Verdict


class Section(StrEnum):
    """A part of a report."""

    SUMMARY = "summary"
    FAILURE = "failure"
    CASES = "cases"
    PROFILE = "profile"
    OUTPUT = "output"


def texts(job: JobInfo, ranking_by: RankingBy | None = None) -> dict[Section, str]:
    """Return the sections of a job's report that it has; without a report, the state of the job."""
    if job.report is None:
        waits = "" if job.waiting is None else place_text(job.waiting)
        return {Section.SUMMARY: ": ".join(filter(None, (job.state.value, job.reason or waits)))}
    rule = ranking_by if job.score is not None else None
    found: dict[Section, list[str]] = {each: [] for each in Section}
    for block in report.blocks(job.report, score=job.score, ranking_by=rule, best=job.best):
        found[_section(block)] += _lines(block)
    found[Section.SUMMARY] += [job.remark] if job.remark else []
    if job.report.verdict is Verdict.ACCEPTED and job.report.stages:
        found[Section.SUMMARY].append(next_step(job.report))
    return {section: "\n".join(lines) for section, lines in found.items() if lines}


def _section(block: Block) -> Section:
    match block:
        case Headline() | Line():
            return Section.SUMMARY
        case Cases() | Table(name=report.RANKS):
            return Section.CASES
        case Listing():
            return Section.PROFILE
        case Log(name="stdout.txt" | "stderr.txt"):
            return Section.OUTPUT
    return Section.FAILURE


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Headline():
            yield f"{block.text} ({block.about})" if block.about else block.text
        case Line():
            yield block.text
        case Cases():
            yield block.title
            # Failed ones first: a long list is cut.
            for case in sorted(block.stage.cases, key=lambda case: case.verdict.value == "accepted"):
                yield f"case {case.index}: {_case(case, block)}"
            yield from (
                f"{places}: {note}" for note, places in columns.notes(block.insights.values()).items()
            )
        case Log() | Listing():
            yield from filter(None, (block.title, block.text.rstrip()))
        case _:
            yield from (block.title, " | ".join(block.columns), *map(" | ".join, block.rows), block.caption)


def _case(case: CaseResult, found: Cases) -> str:
    parts = [case.verdict.value, report.parameters_text(case)]
    if (lesson := found.insights.get(case.index)) is not None:
        parts += [columns.time(lesson), columns.summary(lesson)]
    return "; ".join(filter(None, parts))
