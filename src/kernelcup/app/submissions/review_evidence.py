"""Findings of a measurement that need a review, with the evidence for reviewers and the text for authors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelcup_harness.protocol import CaseResult, Finding, RunReport, StageName, Timing, to_json

WHY = {
    "below_floor": "it is faster than this device can do what the task declares",
    "own_share": "its own kernels take less of the time than this leaderboard asks for",
    "own_share_unknown": "this leaderboard asks that its own kernels take a share of the time, which was not measured",
    "too_large": "input and answer are too large for the hardware's counters, so nothing checks its time",
    "rank_times_differ": "its score and the time of its slowest GPU differ",
    "excused_twin": "a wrong answer to an input changed in one element did not count",
    "weak_checker": "the task's checker accepts wrong answers, which its manager has to look into",
}
"""By the finding's code: the reason shown to the author, without figures of hidden cases."""

OTHER = "its measurement found something unusual"


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """Why a result waits for a review."""

    reason: str
    """Part of a sentence that the author sees."""
    evidence: dict[str, Any]
    """For the reviewers."""


def of_report(report: RunReport) -> Held | None:
    """Return why a run's times may not rank before a review, None if they may.

    The evidence has the findings, and for each ranked case the figures of the audit with all raw samples,
    from which every statistic can be computed again.
    """
    if not report.quarantine:
        return None
    findings = [{"code": each.code, "text": each.text} for each in report.quarantine]
    return Held(reason=reason_of(report.quarantine), evidence={"findings": findings, **figures(report)})


def figures(report: RunReport) -> dict[str, Any]:
    """Return what was measured in a ranked run, for reviewers."""
    stage = report.stage_report(StageName.RANKED)
    return {
        "cases": list(_cases(stage.cases if stage is not None else [])),
        "calibration": None if report.calibration is None else to_json(report.calibration),
    }


def reason_of(findings: list[Finding]) -> str:
    """Return the reasons for a quarantine in words, each once."""
    return "; ".join(dict.fromkeys(WHY.get(each.code, OTHER) for each in findings))


def for_author(findings: list[Finding]) -> list[Finding]:
    """Return findings in the form for the author: without figures, which may be of hidden cases."""
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
    kept = ("samples_ns", "own_ns", "overhead_ns", "discarded_ns", "clocks_mhz", "offset_ns", "audit")
    derived = {name: to_json(getattr(timing, name)) for name in ("score_ns", "raw_ns")}
    return {**derived, **{name: to_json(getattr(timing, name)) for name in kept}}
