"""What a measurement found that a person has to look at, and how it is told to whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelcup_harness.protocol import CaseResult, Finding, RunReport, StageName, Timing, to_json

WHY = {
    "slope_disagrees": "the time that it claims and the time of many calls do not agree",
    "handshake_disagrees": "the time that it claims and the judge's own clock do not agree",
    "not_armed": "its recorded calls could not be queued ahead of their inputs",
    "below_floor": "it is faster than this device can do what the task declares",
}
"""By the finding's code: what its author is told, without figures of hidden cases."""

OTHER = "its measurement found something unusual"


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """Why a result waits for a person."""

    reason: str
    """A part of a sentence that its author sees."""
    evidence: dict[str, Any]
    """For those who decide."""


def of_report(report: RunReport) -> Held | None:
    """Return why a run's times are not to rank before somebody has looked, None if they may.

    The evidence has the findings, and of each ranked case the figures of the audit with all raw samples,
    from which every statistic can be made again.
    """
    if not report.quarantine:
        return None
    stage = report.stage_report(StageName.RANKED)
    return Held(
        reason=reason_of(report.quarantine),
        evidence={
            "findings": [{"code": each.code, "text": each.text} for each in report.quarantine],
            "cases": list(_cases(stage.cases if stage is not None else [])),
            "calibration": None if report.calibration is None else to_json(report.calibration),
        },
    )


def reason_of(findings: list[Finding]) -> str:
    """Return the reasons of a quarantine in words, each once."""
    return "; ".join(dict.fromkeys(WHY.get(each.code, OTHER) for each in findings))


def for_author(findings: list[Finding]) -> list[Finding]:
    """Return findings as their submission's author may read them: figures may be of hidden cases."""
    return [
        Finding(code=each.code, text=f"{WHY.get(each.code, OTHER)}.", quarantines=each.quarantines)
        for each in findings
    ]


def _cases(cases: list[CaseResult]) -> Iterator[dict[str, Any]]:
    for case in cases:
        if case.timing is not None:
            yield {
                "case": case.index,
                "parameters": to_json(case.parameters),
                "hidden": case.hidden,
                "floor_ns": case.floor_ns,
                **_figures(case.timing),
            }


def _figures(timing: Timing) -> dict[str, Any]:
    kept = ("samples_ns", "handshakes_ns", "discarded_ns", "late_ns", "clocks_mhz", "offset_ns", "audit")
    derived = {name: to_json(getattr(timing, name)) for name in ("score_ns", "claim_ns", "raw_ns")}
    return {**derived, **{name: to_json(getattr(timing, name)) for name in kept}}
