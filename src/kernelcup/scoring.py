"""Scores with intervals from reports, and rankings with ties from scores. No database, no clock.

Times are compared by the logarithm of their ratio: 1 % is 1 % for a kernel of 2 us and for one of 2 s. An
interval is stored as its reach below and above the estimate, on that scale.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from kernelcup.domain import RankedBy, RankingBy, Result, Score, Standing
from kernelcup_harness.protocol import (
    CaseResult,
    RunReport,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
    estimates,
    trimmed_mean,
)

NANOSECOND = 1e-9

NO_DIFFERENCE = 1e-9
"""The logarithm of a ratio that no clock can distinguish from 1."""

WIDEST = 1 + estimates.LARGEST_REACH
"""An interval is wide if one of its ends is more than this factor from the estimate."""

LARGEST_REACH = math.log(WIDEST)
"""The same as a logarithm."""

UNTIMED_S = 1e9
"""What places a result whose time means nothing: the same for all of them, behind any time."""


Order = tuple[float, int, int]
"""What orders the results of a ranking: see :func:`order`."""


def level(trust: TrustLevel) -> int:
    """Return the place of a level among the others: the best proven is first."""
    return list(TrustLevel).index(trust)


def order(ranked_s: float, trust: TrustLevel, submission_id: int) -> Order:
    """Return what orders a ranking: seconds, at equal times the better proven first, then the older submission.

    :data:`kernelcup.app.results.queries.ranking_query.ORDER` says the same to the database.
    """
    return ranked_s, level(trust), submission_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(Result):
    """A result to be ranked."""

    rank_s: float | None = None
    """The time that it is ranked by, if the score alone does not decide that: after a duel, or :data:`UNTIMED_S`."""

    @property
    def ranked_s(self) -> float:
        """Return the seconds that give it its place."""
        return own_rank_s(self.score) if self.rank_s is None else self.rank_s

    @property
    def order(self) -> Order:
        """Return what orders it among others."""
        return order(self.ranked_s, TrustLevel(self.trust), self.submission_id)

    @property
    def ranked_by(self) -> RankedBy:
        """Return what gives it its place."""
        if self.ranked_s == UNTIMED_S:
            return RankedBy.CORRECTNESS
        is_by_end = self.ranked_s != self.score_s and not self.duel.is_behind
        return RankedBy.UPPER_END if is_by_end else RankedBy.TIME

    @property
    def placed(self) -> Placed:
        """Return the score that decides about ties: its own, moved to the time that it is ranked by."""
        score = placed(self.score, self.ranked_s)
        is_below = self.rank_s is not None and self.duel.is_below
        return Placed(**asdict(score), is_below=is_below)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed(Score):
    """A score that decides about a place."""

    is_below: bool = False
    """Whether it has lost a duel: it ranks below the results before it that have not, whatever their intervals."""


def own_rank_s(score: Score) -> float:
    """Return the seconds that a score by itself is ranked by: the upper end of its interval if that is wide.

    So noise costs a place and never earns one.
    """
    middle, low, high = score.score_s, score.low_s, score.high_s
    if low is None or high is None or (high <= middle * WIDEST and low * WIDEST >= middle):
        return middle
    return high


def placed(score: Score, ranked_s: float) -> Score:
    """Return a score moved to the time that its run is ranked by."""
    by = ranked_s / score.score_s
    low_s, high_s = (None if end is None else end * by for end in (score.low_s, score.high_s))
    return replace(score, score_s=ranked_s, low_s=low_s, high_s=high_s)


def as_object(score: Score | None) -> dict[str, Any]:
    """Return a score's fields for JSON. Without a score its times are None."""
    if score is None:
        return {each.name: None for each in fields(Score)}
    return asdict(score)


def score(report: RunReport, ranking_by: RankingBy) -> Score | None:
    """Return the score of a run with its interval, None if it earns none.

    Only an accepted run with a complete, accepted ranked stage earns one. Hidden benchmarks count
    like the others, but ``last`` means the last public one. If a time is missing, not finite, zero or negative,
    there is no score at all: no rule can make a plausible figure of it.
    """
    stage = report.stage_report(StageName.RANKED)
    if report.verdict is not Verdict.ACCEPTED or stage is None or stage.verdict is not Verdict.ACCEPTED:
        return None
    if not stage.cases or len(stage.cases) < stage.planned_cases:
        return None
    # A stage that was accepted has cases that were not only if the task gives points for each case.
    right = [case for case in stage.cases if case.verdict is Verdict.ACCEPTED]
    if len(right) < len(stage.cases) and ranking_by is not RankingBy.SPEEDUP:
        return None
    if not all(_is_time(_case_ns(case)) for case in right):
        return None
    if ranking_by is RankingBy.SPEEDUP:
        return _speedup(right, math.fsum(case.weight for case in stage.cases))
    return _scored(counting(stage.cases, ranking_by), ranking_by)


def beside_s(
    report: RunReport, ranking_by: RankingBy, time_ns: Callable[[CaseResult], float | None]
) -> float | None:
    """Combine another time of each ranked case, for example the reference's, in the same way as the score, in seconds.

    Return None if a case that counts has no such time, and where the score is no time.
    """
    stage = report.stage_report(StageName.RANKED)
    if stage is None or ranking_by is RankingBy.SPEEDUP:
        return None
    cases = counting(stage.cases, ranking_by)
    times = [time_ns(case) for case in cases]
    known = [each for each in times if each is not None and _is_time(each)]
    if not known or len(known) < len(times):
        return None
    return _combine(known, _weights_of(cases), ranking_by) * NANOSECOND


def case_interval_ns(timing: Timing) -> tuple[float, float] | None:
    """Return the 95 % interval of one case's time, both ends above zero; None if it is unknown.

    An end that would be zero or less, because few samples spread widely, is mirrored in the log domain.
    """
    return _above_zero(estimates.interval_ns(timing), timing.score_ns)


def _above_zero(found: tuple[float, float] | None, middle: float) -> tuple[float, float] | None:
    if found is None or not _is_time(middle):
        return None
    low, high = found
    if not (math.isfinite(low) and math.isfinite(high) and low <= middle <= high):
        return None
    return (low if low > 0 else middle * (middle / high)), high


def told_apart(first: Score, second: Score) -> bool:
    """Return whether two results differ by more than their 95 % intervals explain.

    The interval of the logarithm of their ratio comes from the ends of both that face each other (the
    method of variance estimates recovery, Zou and Donner 2008); they differ if it does not hold zero.

    Beyond :data:`LARGEST_REACH` an interval counts only as far as the other one does: noise ties with noise, and not
    with a precise result.
    """
    fast, slow = (first, second) if first.score_s <= second.score_s else (second, first)
    apart = math.log(slow.score_s) - math.log(fast.score_s)
    up, down = _reach(fast.score_s, fast.high_s), _reach(slow.low_s, slow.score_s)
    most = max(LARGEST_REACH, min(up, down))
    return apart > NO_DIFFERENCE + math.hypot(min(up, most), min(down, most))


def band_heads(scores: Iterable[Placed]) -> Iterator[int]:
    """Yield for each result, given in the order of the ranking, the place of the head of its band, from 1.

    A band is a head and the results directly behind it that cannot be distinguished from it. The first result
    that can be distinguished, or that has lost its duel, heads the next band, and no later result returns to an
    earlier band. So a chain of small steps does not tie its ends, and an imprecise result does not overtake a
    precise one.
    """
    for number, is_head in enumerate(heads(scores), start=1):
        if is_head:
            place = number
        yield place


def heads(scores: Iterable[Placed], *, behind: Placed | None = None) -> Iterator[bool]:
    """Yield for each result whether it heads a band; see :func:`band_heads`.

    Args:
        scores: The results, in the order of the ranking.
        behind: The head of the band in which they begin, None at the top.
    """
    head, alike_s = behind, 0.0
    for score in scores:
        # Below the upper end of the head's own interval, as far as that always counts, others do not matter.
        is_head = (
            head is None
            or (score.is_below and not head.is_below)
            or (score.score_s > alike_s and told_apart(head, score))
        )
        if is_head:
            head, alike_s = (
                score,
                score.score_s * math.exp(min(_reach(score.score_s, score.high_s), LARGEST_REACH)),
            )
        yield is_head


def ranked(ordered: Sequence[Entry], ranks: Sequence[int], *, after: int | None = None) -> list[Standing]:
    """Return standings for ordered entries with known ranks.

    Args:
        ordered: The entries.
        ranks: Their ranks, and optionally those of following entries, so that a tie with them is seen.
        after: The rank of the entry before the first, None if there is none.
    """
    around = [after, *ranks, None]
    return [
        _standing(entry, rank=rank, tied=rank in (around[number], around[number + 2]))
        for number, (entry, rank) in enumerate(zip(ordered, ranks, strict=False))
    ]


def _scored(cases: Sequence[CaseResult], ranking_by: RankingBy) -> Score | None:
    timings = [case.timing for case in cases if case.timing is not None]
    times_ns, weights = [timing.score_ns for timing in timings], _weights_of(cases)
    if not times_ns:
        return None
    found = _combine(times_ns, weights, ranking_by) * NANOSECOND
    if not _is_time(found):
        return None
    low_s, high_s = _interval(found, timings, _shares(times_ns, weights, ranking_by))
    return Score(score_s=found, low_s=low_s, high_s=high_s, raw_s=_raw(timings, weights, ranking_by))


def _speedup(cases: Sequence[CaseResult], weight: float) -> Score | None:
    """Return the score whose speedup is the mean of those of the cases; what is missing to the weight counts 0.

    Its seconds are the reciprocal: so a larger speedup is a smaller score everywhere, and ratios stay what they are.
    """
    timings = [case.timing for case in cases if case.timing is not None]
    bases_ns = [trimmed_mean(case.baseline_ns) for case in cases]
    if not cases or not all(map(_is_time, bases_ns)):
        return None
    gains = [
        case.weight * base_ns / timing.score_ns
        for case, base_ns, timing in zip(cases, bases_ns, timings, strict=True)
    ]
    found = weight / math.fsum(gains)
    if not _is_time(found):
        return None
    shares = [gain / math.fsum(gains) for gain in gains]
    low_s, high_s = _interval(found, timings, shares, [case.baseline_ns for case in cases])
    return Score(score_s=found, low_s=low_s, high_s=high_s, speedup=1 / found)


def _interval(
    found_s: float,
    timings: Sequence[Timing],
    shares: Sequence[float],
    baselines_ns: Sequence[Sequence[float]] = (),
) -> tuple[float | None, float | None]:
    """Return the ends of a score's interval.

    It combines those of its cases, which are independent of each other, and on a GPU the difference of the same
    kernels between processes: a run has only one process, which all cases share. A speedup adds those of the
    baseline's times, which are from another process.
    """
    ends = [_above_zero(estimates.sampling_interval_ns(timing), timing.score_ns) for timing in timings]
    bases = [_above_zero(estimates.interval(each), trimmed_mean(each)) for each in baselines_ns]
    known, known_bases = ([each for each in some if each is not None] for some in (ends, bases))
    if len(known) < len(timings) or len(known_bases) < len(bases):
        return None, None
    middles = [timing.score_ns for timing in timings]
    down = [share * _reach(low, at) for share, (low, _), at in zip(shares, known, middles, strict=True)]
    up = [share * _reach(at, high) for share, (_, high), at in zip(shares, known, middles, strict=True)]
    for share, (low, high), each in zip(shares, known_bases, baselines_ns, strict=False):
        # The longer the baseline takes, the smaller is the score.
        down.append(share * _reach(trimmed_mean(each), high))
        up.append(share * _reach(low, trimmed_mean(each)))
    shared = _between_processes(timings, shares)
    if baselines_ns and shared:
        by_baseline = estimates.between_processes(list(map(trimmed_mean, baselines_ns)), shares)
        shared = math.hypot(shared, estimates.Z95 * by_baseline)
    below, above = math.hypot(*down, shared), math.hypot(*up, shared)
    # A spread beyond the largest float means that nothing is known.
    return (found_s * math.exp(-below), found_s * math.exp(above)) if above < 100 else (None, None)


def _between_processes(timings: Sequence[Timing], weights: Sequence[float]) -> float:
    """Return half of the 95 % interval of a score's logarithm between processes; 0 except for GPU times."""
    shares = [estimates.process_error_ns(timing) / timing.score_ns for timing in timings]
    return estimates.Z95 * math.fsum(map(math.prod, zip(weights, shares, strict=True)))


def _weights_of(cases: Sequence[CaseResult]) -> list[float]:
    """Return the weights of cases, which sum to 1."""
    whole = math.fsum(case.weight for case in cases)
    return [case.weight / whole for case in cases]


def _shares(times_ns: Sequence[float], weights: Sequence[float], ranking_by: RankingBy) -> list[float]:
    """Return the derivative of the score's logarithm by that of each case's time."""
    if ranking_by is RankingBy.MEAN:
        largest = max(times_ns)
        shares = [weight * time_ns / largest for weight, time_ns in zip(weights, times_ns, strict=True)]
        return [share / math.fsum(shares) for share in shares]
    return list(weights)


def _raw(timings: Sequence[Timing], weights: Sequence[float], ranking_by: RankingBy) -> float | None:
    times_ns = [
        timing.reported_ns if timing.reported_ns is not None else timing.read_ns for timing in timings
    ]
    if not all(_is_time(time_ns) for time_ns in times_ns):
        return None
    found = _combine(times_ns, weights, ranking_by) * NANOSECOND
    return found if _is_time(found) else None


def _reach(low: float | None, high: float | None) -> float:
    """Return the reach of an interval, at least 0."""
    if low is None or high is None or not (_is_time(low) and _is_time(high)):
        return 0.0
    return max(0.0, math.log(high) - math.log(low))


def _standing(entry: Entry, *, rank: int, tied: bool) -> Standing:
    by, known = entry.ranked_by, {name: getattr(entry, name) for name in _SHARED}
    if by is RankedBy.CORRECTNESS:
        known["score"] = replace(entry.score, low_s=None, high_s=None)
    return Standing(rank=rank, tied=tied, ranked_by=by, **known)


_SHARED = [each.name for each in fields(Result)]


def counting(cases: Sequence[CaseResult], ranking_by: RankingBy) -> Sequence[CaseResult]:
    """Return the cases that count for the score; none for ``last`` without a public case."""
    if ranking_by is not RankingBy.LAST:
        return cases
    public = [case for case in cases if not case.hidden]
    return [max(public, key=lambda case: case.index)] if public else []


def _combine(times_ns: Sequence[float], weights: Sequence[float], ranking_by: RankingBy) -> float:
    both = list(zip(times_ns, weights, strict=True))
    if ranking_by is RankingBy.MEAN:
        # fmean sums first and could overflow although the mean does not
        return math.fsum(time_ns * weight for time_ns, weight in both)
    # A product of 60 microseconds, in seconds, is 1e-360: below the smallest float. One time stays as it is.
    if len(times_ns) == 1:
        return times_ns[0]
    return math.exp(math.fsum(math.log(time_ns) * weight for time_ns, weight in both))


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
