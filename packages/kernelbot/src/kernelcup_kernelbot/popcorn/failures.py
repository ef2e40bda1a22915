"""Errors in a few lines, for users of the existing client.

Hidden cases show only their number and verdict, for every requester.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernelcup.domain import JobState, Ruling
from kernelcup.reporting.report import Failure, failures_of, parameters_text
from kernelcup.reporting.results import JobInfo
from kernelcup_harness.protocol import RunReport, Verdict

LONGEST_MESSAGE = 2000


def failure(job: JobInfo) -> str | None:
    """Return why an ended job has no accepted result, None if it has one."""
    device, reason = job.device, job.reason
    if job.state is JobState.CANCELLED:
        return f"{device}: {reason or 'cancelled'}"
    why = f": {reason}" if reason else ""
    if job.ruling is Ruling.REJECTED:
        return f"{device}: this result was rejected{why}"
    if job.ruling is Ruling.HELD:
        return f"{device}: the result waits for a review by a person and counts once it is released{why}"
    if job.report is None or job.verdict is Verdict.ACCEPTED:
        return None
    return f"{device}: {_told(job.report, reason)}"


def _told(report: RunReport, reason: str) -> str:
    found = next((each for each in failures_of(report) if each.is_open), None)
    case = None if found is None else found.case
    place = "" if report.stage is None else f" in stage {report.stage.value}"
    if case is not None:
        place += (
            f", hidden case {case.index}" if case.hidden else f", case {case.index} ({parameters_text(case)})"
        )
    # What stage and run say of a hidden case repeats its message.
    text = "" if found is None or (case is not None and case.hidden) else "\n".join(_lines(found))
    told = text or reason
    return f"{report.verdict.value}{place}" + (f": {told[:LONGEST_MESSAGE]}" if told else "")


def _lines(found: Failure) -> Iterable[str]:
    if found.message or found.mismatch is None:
        yield (found.message or found.title).strip()
    if found.mismatch is not None:
        yield f"{found.title} ({found.mismatch.rule})"
        yield from (
            f"  at {each.position}: expected {each.expected}, got {each.actual}"
            for each in found.mismatch.first
        )


def summary(jobs: Iterable[JobInfo]) -> str:
    """Return the failures of all jobs, one after the other; empty if there are none."""
    return "\n".join(text for text in map(failure, jobs) if text is not None)


def one_line(value: Any) -> str:
    """Return a text without line breaks."""
    return " ".join(str(value).split())
