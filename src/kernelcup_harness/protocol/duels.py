"""Two submissions in turns, until a difference is found or they are close enough. Deciding is pure.

Two loads of one image differ throughout their life, on an H200 by up to 0.8 % of a kernel of 20 us, in a pattern that
their order determines. So each side is loaded several times, in an order drawn at
random, and the interval is computed from the means of the loads.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelcup_harness.protocol import DuelResult, DuelVerdict, estimates
from kernelcup_harness.protocol.trimmed import trimmed_mean

LOADS, FEWEST_LOADS = 16, 8
"""How often each side is loaded, and how often if a load takes long. Both divide the number of pairs of each look."""
FIRST_LOOK, MOST_PAIRS = 160, 1_280
"""The mean of fewer pairs is not normal: with 40 pairs, 3 of 40 equal kernels were found different."""
LOADS_DIFFER = 0.01
"""The standard deviation of loads of one kernel is at most this, as a share: 0.8 % between the extremes on an H200."""
OF_NORMAL = 1.4826
"""The standard deviation of a normal distribution over its median deviation."""
ERROR = 0.02
"""Share of duels of equal kernels that may find a difference, over all looks together."""
Pair = tuple[float, float]
"""Nanoseconds of the first and of the second."""


@dataclass(frozen=True, slots=True)
class RatioEstimate:
    """Estimate of the logarithm of the ratio of two times, from the pairs so far.

    Args:
        mean: Below 0 the first is faster.
        half: Half the width of its interval.
        pairs: Number of pairs.
    """

    mean: float
    half: float
    pairs: int

    @property
    def is_apart(self) -> bool:
        """Whether the interval excludes equal times."""
        return abs(self.mean) > self.half

    @property
    def winner(self) -> int | None:
        """Index of the faster one, 0 or 1, None if it is not known."""
        return None if not self.is_apart else int(self.mean > 0)

    @property
    def ratio(self) -> float:
        """The first one's time over the other's."""
        return math.exp(self.mean)

    @property
    def interval(self) -> tuple[float, float]:
        return math.exp(self.mean - self.half), math.exp(self.mean + self.half)


def looks(first: int = FIRST_LOOK, most: int = MOST_PAIRS) -> list[int]:
    """Return the numbers of pairs at which to look: each is twice the one before."""
    found = [first]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


def standing(ratios: Sequence[float], error: float, loads: int = LOADS) -> RatioEstimate:
    """Return the mean of logarithms of ratios and its interval, which misses with probability ``error``.

    The ratios come from ``loads`` loads of each side in turns. Each load counts once, with its trimmed mean, so the
    interval (Student's) contains what loads differ by. They are taken to differ by no more than loads of honest code
    do: else a side that makes one of its loads slow could not be told from any other.
    """
    parts = [ratios[number::loads] for number in range(loads)]
    means = [trimmed_mean(each) for each in parts]
    middle = statistics.fmean(means)
    if len(ratios) > loads:
        within = statistics.median(estimates.standard_error(each) for each in parts)
    else:
        # Of a single pair nothing can be trimmed, so the loads are.
        middle = trimmed_mean(means)
        within = OF_NORMAL * statistics.median(abs(each - middle) for each in means)
    spread = min(statistics.stdev(means), math.hypot(LOADS_DIFFER, 1.5 * within))
    half = estimates.student(1 - error, loads - 1) * spread / math.sqrt(loads)
    return RatioEstimate(middle, half, len(ratios))


def log_ratios(pairs: Sequence[Pair]) -> list[float]:
    """Return the logarithms of the ratios of times, each at least a nanosecond."""
    return [math.log(max(1.0, mine) / max(1.0, other)) for mine, other in pairs]


def decide(
    more: Callable[[int, int], Sequence[float]],
    *,
    error: float = ERROR,
    loads: int = LOADS,
    most: int = MOST_PAIRS,
) -> tuple[RatioEstimate, list[float]]:
    """Add pairs until a difference is found or there are enough.

    Args:
        more: Returns logarithms of ratios of further pairs, given the number so far and the number to add. If time is
            over it returns fewer, whole rounds of all loads and at first at least one: the decision is taken then.
        error: How often equal times may be found different, over all looks together: each gets an equal part.
        loads: How often each side is loaded; they take turns.
        most: Largest number of pairs.
    """
    due, ratios = looks(most=most), list[float]()
    found = RatioEstimate(0.0, math.inf, 0)
    for count in due:
        ratios += more(len(ratios), count - len(ratios))
        found = standing(ratios, error / len(due), loads)
        if found.is_apart or len(ratios) < count:
            break
    return found, ratios


def over_cases(cases: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean over all cases for each pair: the logarithm of the geometric mean of their ratios."""
    return [statistics.fmean(each) for each in zip(*cases, strict=True)]


def outcome(found: RatioEstimate, ratios: Sequence[float], cases: Sequence[Sequence[float]]) -> DuelResult:
    """Return the duel's result for the report."""
    low, high = found.interval
    verdict = {None: DuelVerdict.TIED, 0: DuelVerdict.FASTER, 1: DuelVerdict.SLOWER}[found.winner]
    return DuelResult(
        ratios=[math.exp(each) for each in ratios],
        cases=[[math.exp(each) for each in case] for case in cases],
        pairs=[len(ratios)],
        ratio=found.ratio,
        low=low,
        high=high,
        verdict=verdict,
        blocks=len(ratios),
    )
