"""From a report to a score, from scores to a ranking. No database, no clock."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kernelcup.domain import RankingBy, Standing
from kernelcup_harness.protocol import CaseResult, RunReport, StageName, Timing, Verdict

NANOSECOND = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One scored run that wants a place in a ranking."""

    user: str
    score_s: float
    submission_id: int
    submitted_at: datetime
    file_name: str
    trust: str
    comparable: bool


def score_s(report: RunReport, ranking_by: RankingBy) -> float | None:
    """Return the seconds that a run is ranked by, None if it earns no score.

    Only an accepted run with a complete, accepted ranked stage earns one. Hidden benchmarks count
    like the others, but ``last`` means the last public one. A time that is missing, not finite,
    zero or negative costs the whole score: no rule can make a plausible figure of it.
    """
    stage = report.stage_report(StageName.RANKED)
    if report.verdict is not Verdict.ACCEPTED or stage is None or stage.verdict is not Verdict.ACCEPTED:
        return None
    if not stage.cases or len(stage.cases) < stage.planned_cases:
        return None
    times_ns = [_case_ns(case) for case in stage.cases]
    if not all(_is_time(time_ns) for time_ns in times_ns):
        return None
    score = _combine(stage.cases, times_ns, ranking_by) * NANOSECOND
    return score if _is_time(score) else None


def standings(entries: Iterable[Entry]) -> list[Standing]:
    """Rank each user's best entry. Equal scores share a rank, the earlier submission comes first."""
    best: dict[str, Entry] = {}
    for entry in entries:
        if _is_time(entry.score_s) and (entry.user not in best or _order(entry) < _order(best[entry.user])):
            best[entry.user] = entry
    return _ranked(sorted(best.values(), key=_order))


def _ranked(ordered: Sequence[Entry]) -> list[Standing]:
    ranked: list[Standing] = []
    for place, entry in enumerate(ordered, start=1):
        tied = bool(ranked) and ranked[-1].score_s == entry.score_s
        ranked.append(_standing(entry, rank=ranked[-1].rank if tied else place))
    return ranked


def _order(entry: Entry) -> tuple[float, datetime, int]:
    return entry.score_s, entry.submitted_at, entry.submission_id


def _standing(entry: Entry, *, rank: int) -> Standing:
    return Standing(
        rank=rank,
        user=entry.user,
        score_s=entry.score_s,
        submission_id=entry.submission_id,
        submitted_at=entry.submitted_at,
        file_name=entry.file_name,
        trust=entry.trust,
        comparable=entry.comparable,
    )


def _combine(cases: Sequence[CaseResult], times_ns: Sequence[float], ranking_by: RankingBy) -> float:
    if ranking_by is RankingBy.MEAN:
        # fmean adds up first and would overflow where the mean does not
        return math.fsum(time_ns / len(times_ns) for time_ns in times_ns)
    if ranking_by is RankingBy.GEOM:
        # a product of 60 microseconds, in seconds, is 1e-360: below the smallest float
        return math.exp(math.fsum(math.log(time_ns) for time_ns in times_ns) / len(times_ns))
    public = [(case.index, time_ns) for case, time_ns in zip(cases, times_ns, strict=True) if not case.hidden]
    return max(public, default=(0, math.nan), key=lambda numbered: numbered[0])[1]


def _case_ns(case: CaseResult) -> float:
    if case.verdict is not Verdict.ACCEPTED or case.timing is None or not _is_sound(case.timing):
        return math.nan
    try:
        return case.timing.score_ns
    except (OverflowError, statistics.StatisticsError):
        return math.nan


def _is_sound(timing: Timing) -> bool:
    return timing.reported_ns is not None or all(_is_time(sample) for sample in timing.samples_ns)


def _is_time(value: float) -> bool:
    return math.isfinite(value) and value > 0
