"""Insights about each case of a report: the distance from the device's limits, the reference, and the best.

Pure functions of a report and, if known, of the best submission's times for each case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernelcup.scoring import case_interval_ns
from kernelcup_harness.protocol import CaseResult, RunReport, StageName, Timing, TrustLevel, Work, to_json

MUCH_OVERHEAD = 0.05
"""The share of a wall-clock time above which overhead is worth mentioning."""

NVLINK_BYTES_PER_S = ((10, 50e9), (7, 25e9), (0, 20e9))
"""Of one link in one direction, as published, from a GPU's compute capability on: NVLink 5, 2 to 4, and 1."""

OVERHEAD = "the overhead is the time of a call that computes nothing; every time includes it"

MORE_OVERHEAD_THAN_TIME = (
    "a call that computes nothing took longer, when it was measured by itself, than this one: the machine "
    "was too busy for either time to mean much"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The leading submission, as the viewer may see it."""

    submission: int
    score_s: float
    cases_ns: Mapping[int, float] = field(default_factory=dict)
    """Its time for each public benchmark, by the case's index; empty if they are from another task version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Insight:
    """One timed case."""

    index: int
    time_ns: float
    low_ns: float | None
    high_ns: float | None
    """Ends of the 95 % interval."""
    raw_ns: float | None
    """By the same clock, before the time of an empty graph was subtracted; None if nothing was subtracted."""
    own_ns: float | None
    """The submission's own, unverified time; None if it measured none."""
    overhead_ns: float | None
    """The part of the time that a call takes which computes nothing; None if it was not measured."""
    prepare_ns: float | None
    """Time of the submission's `prepare`, which is no part of the others; None if it has none."""
    calls: int
    discarded: int
    """The number of calls that did not count because the device was throttled."""
    trust: TrustLevel | None
    """How this case's time was taken, None if that is not known."""
    bound_by: str
    """``bandwidth``, ``arithmetic`` or ``roofline`` (both are declared); empty if nothing is declared."""
    share: float | None
    """The share of the device's limit, as calibrated; 1 is all of it."""
    bytes_per_s: float | None
    """The rate of reading only, since written data may end in the cache."""
    flops_per_s: float | None
    link_bytes_per_s: float | None
    """What each GPU rank sends in a second."""
    link_share: float | None
    """Its share of what the makers of the links publish for one direction, None where that is not known."""
    over_reference: float | None
    """The speedup over the task's reference."""
    over_best: float | None
    """The speedup over the best submission."""
    notes: tuple[str, ...]
    """The remarks of the audit."""


def lessons(report: RunReport, stage: StageName, best: Best | None = None) -> dict[int, Insight]:
    """Return the insights about a stage's timed cases, by the case's index."""
    found = report.stage_report(stage)
    if found is None:
        return {}
    learned = dict(_lessons(found.cases, {} if best is None else best.cases_ns))
    if report.comparable:
        attainable = links_bytes_per_s(report.environment)
        return {at: replace(each, link_share=_share(each, attainable)) for at, each in learned.items()}
    # The speed of an emulated device says nothing about a GPU, so its times are not compared with each other.
    return {at: replace(each, over_reference=None, over_best=None) for at, each in learned.items()}


def as_objects(report: RunReport, best: Best | None = None) -> list[dict[str, Any]]:
    """Return the insights about all timed cases of a report, as JSON data."""
    return [
        {"stage": stage.name.value, **to_json(lesson)}
        for stage in report.stages
        for lesson in lessons(report, stage.name, best).values()
    ]


def links_bytes_per_s(environment: Mapping[str, Any]) -> float | None:
    """Return what NVIDIA publishes for the links of a report's GPUs, in one direction; None if it is not known."""
    ranks, capability = environment.get("ranks"), re.match(r"\d{1,2}\.", str(environment.get("capability")))
    links = re.fullmatch(r"NV(\d{1,2})", str(ranks.get("topology"))) if isinstance(ranks, Mapping) else None
    if links is None or capability is None:
        return None
    return int(links[1]) * next(rate for oldest, rate in NVLINK_BYTES_PER_S if float(capability[0]) >= oldest)


def _share(lesson: Insight, attainable: float | None) -> float | None:
    return None if lesson.link_bytes_per_s is None or not attainable else lesson.link_bytes_per_s / attainable


def _lessons(cases: list[CaseResult], best_ns: Mapping[int, float]) -> Iterator[tuple[int, Insight]]:
    for case in cases:
        if case.timing is not None and _is_time(case.timing.score_ns):
            yield case.index, _lesson(case, case.timing, None if case.hidden else best_ns.get(case.index))


def _lesson(case: CaseResult, timing: Timing, best_ns: float | None) -> Insight:
    time_ns, audit = timing.score_ns, timing.audit
    ends = case_interval_ns(timing)
    work = case.work or Work()
    return Insight(
        index=case.index,
        time_ns=time_ns,
        low_ns=None if ends is None else ends[0],
        high_ns=None if ends is None else ends[1],
        raw_ns=timing.raw_ns if timing.samples_ns and timing.offset_ns else None,
        own_ns=timing.read_ns if timing.own_ns else None,
        overhead_ns=timing.overhead_ns,
        prepare_ns=None if case.prepare_s is None else 1e9 * case.prepare_s,
        calls=len(timing.samples_ns) or int(timing.reported.get("runs", 0)),
        discarded=len(timing.discarded_ns),
        trust=None if audit is None else audit.level,
        bound_by=_bound_by(work),
        share=_over(case.floor_ns, time_ns),
        bytes_per_s=_rate(work.bytes, time_ns),
        flops_per_s=_rate(work.flops, time_ns),
        link_bytes_per_s=_rate(work.link_bytes, time_ns),
        link_share=None,
        over_reference=_over(case.reference_ns, time_ns),
        over_best=_over(best_ns, time_ns),
        notes=(*(() if audit is None else (each.text for each in audit.findings)), *_overhead(timing)),
    )


def _overhead(timing: Timing) -> Iterator[str]:
    """Yield a note about the overhead in a wall-clock time, if it is large."""
    if timing.overhead_ns is not None and timing.overhead_ns > MUCH_OVERHEAD * timing.score_ns:
        yield OVERHEAD if timing.overhead_ns <= timing.score_ns else MORE_OVERHEAD_THAN_TIME


def _bound_by(work: Work) -> str:
    moves = work.bytes is not None or work.written is not None
    if moves and work.flops is not None:
        return "roofline"
    return "bandwidth" if moves else "arithmetic" if work.flops is not None else ""


def _over(other_ns: float | None, time_ns: float) -> float | None:
    return None if other_ns is None or not _is_time(other_ns) else other_ns / time_ns


def _rate(amount: float | None, time_ns: float) -> float | None:
    return None if amount is None or not _is_time(amount) else amount / time_ns * 1e9


def _is_time(value: float) -> bool:
    return math.isfinite(value) and value > 0
