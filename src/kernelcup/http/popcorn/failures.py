"""Errors in a few lines, for users of the existing client.

Hidden cases show only their number and verdict, for every requester.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kernelcup.domain import JobState, Ruling
from kernelcup.reporting.results import JobInfo
from kernelcup_harness.protocol import CaseResult, Difference, RunReport, StageName, StageReport, Verdict

LONGEST_MESSAGE = 2000


def failure(job: JobInfo) -> str | None:
    """Return why an ended job has no accepted result, None if it has one."""
    device, reason = job.device, job.reason
    if job.state is JobState.CANCELLED:
        return f"{device}: {reason or 'cancelled'}"
    why = f": {reason}" if reason else ""
    if job.ruling is Ruling.REJECTED:
        return f"{device}: a person rejected this result{why}"
    if job.ruling is Ruling.HELD:
        return f"{device}: the result waits for a review by a person and counts once it is released{why}"
    if job.report is None or job.verdict is Verdict.ACCEPTED:
        return None
    return f"{device}: {_told(job.report, reason)}"


def _told(report: RunReport, reason: str) -> str:
    stage = None if report.stage is None else report.stage_report(report.stage)
    case = None if stage is None else _first_failed(stage)
    place = _place(report.stage, case)
    text = "\n".join(dict.fromkeys(_lines(report, stage, case)))
    told = text or reason
    return f"{report.verdict.value}{place}" + (f": {told[:LONGEST_MESSAGE]}" if told else "")


def _place(stage: StageName | None, case: CaseResult | None) -> str:
    if stage is None:
        return ""
    if case is None:
        return f" in stage {stage.value}"
    name = f"hidden case {case.index}" if case.hidden else f"case {case.index}{_parameters(case)}"
    return f" in stage {stage.value}, {name}"


def _parameters(case: CaseResult) -> str:
    if not case.parameters:
        return ""
    return " (" + ", ".join(f"{key}: {value}" for key, value in case.parameters.items()) + ")"


def _lines(report: RunReport, stage: StageReport | None, case: CaseResult | None) -> Iterable[str]:
    if case is not None and case.hidden:
        # The messages of stage and run repeat the case's message.
        return
    if case is not None:
        yield from filter(None, [case.message.strip()])
        yield from _mismatch(case)
    yield from filter(None, [stage.message.strip() if stage is not None else "", report.message.strip()])


def _mismatch(case: CaseResult) -> Iterable[str]:
    found = case.mismatch
    if found is None or _counts(case.message, found.wrong):
        return
    rule = f" ({found.rule})" if found.rule else ""
    yield f"{found.wrong} of {found.total} elements of {found.where} are wrong{found.kinds}{rule}"
    yield from (_difference(each) for each in found.first)


def _counts(message: str, wrong: int) -> bool:
    """Return whether the checker's own text counts the wrong elements, so that we need not."""
    count, word = rf"(?<![\w.]){wrong}(?![\w.]*\w)", r"\belements?\b"
    return re.search(rf"{count}.*{word}|{word}.*{count}", message) is not None


def _difference(each: Difference) -> str:
    return f"  at {each.position}: expected {each.expected}, got {each.actual}"


def _first_failed(stage: StageReport) -> CaseResult | None:
    return next((case for case in stage.cases if case.verdict is not Verdict.ACCEPTED), None)


def summary(jobs: Iterable[JobInfo]) -> str:
    """Return the failures of all jobs, one after the other; empty if there are none."""
    return "\n".join(text for text in map(failure, jobs) if text is not None)


def one_line(value: Any) -> str:
    """Return a text without line breaks."""
    return " ".join(str(value).split())
