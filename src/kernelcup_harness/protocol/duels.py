"""Two submissions in turns, until a difference is found or they are close enough; an order of several, by such duels.

Deciding is pure.

Two loads of one image differ throughout their life, on an H200 by up to 0.8 % of a kernel of 20 us, in a pattern that
their order determines. So each side is loaded several times, in an order drawn at
random, and the interval is computed from the means of the loads.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelcup_harness.protocol import DuelResult, DuelVerdict, estimates
from kernelcup_harness.protocol.results import trimmed_mean

LOADS, FEWEST_LOADS = 16, 8
"""How often each side is loaded, and how often if a load takes long. Both divide the number of pairs of each look."""
FIRST_LOOK, MOST_PAIRS = 160, 1_280
"""The mean of fewer pairs is not normal: with 40 pairs, 3 of 40 equal kernels were found different."""
LOADS_DIFFER = 0.01
"""The standard deviation of loads of one kernel is at most this, as a share: 0.8 % between the extremes on an H200."""
SIDES_DIFFER = 0.005
"""By how much two kept copies of one kernel may differ in all their loads, as a share, since each side has a context of
its own: on an H100 8 of 11 duels of one kernel of 25 us had ratios of 1.0031 to 1.0038, the others 0.9986 to 0.9993."""
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
    do: else a side that makes one of its loads slow could not be told from any other. What the contexts of the sides
    may differ by comes on top, however many pairs there are.
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
    return RatioEstimate(middle, math.hypot(half, SIDES_DIFFER), len(ratios))


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


Meet = Callable[[str, str, float], RatioEstimate]
"""Runs a duel of two names; the number is how often equal ones may be found different. Below 0 the first is faster."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """A duel of a final."""

    first: str
    second: str
    standing: RatioEstimate

    @property
    def faster(self) -> str | None:
        """The name of the faster submission, None if it is not known."""
        winner = self.standing.winner
        return None if winner is None else (self.first, self.second)[winner]


@dataclass(frozen=True, slots=True)
class Final:
    """The outcome of a final.

    Args:
        order: Names, the fastest first.
        places: The place of each name; names that cannot be distinguished share one.
        meetings: All duels. Their intervals hold together in a share of 1 - ``error`` of finals.
        error: The error of all duels together.
    """

    order: list[str]
    places: dict[str, int]
    meetings: list[Meeting]
    error: float


def final(names: Sequence[str], meet: Meet, *, all_pairs: bool = False, error: float = ERROR) -> Final:
    """Find the official order of some submissions, given in their current order.

    Neighbours meet, and the order is updated after each duel. Then each name meets those before it, the nearest
    first, until one is known to be faster: so names share a place only if they have met. With ``all_pairs`` every
    pair meets. Each duel gets an equal part of ``error``, divided by the number of possible duels (Bonferroni), so
    all intervals hold together for any choice of duels.
    """
    most = max(1, len(names) * (len(names) - 1) // 2)
    known: dict[frozenset[str], Meeting] = {}

    def meeting(first: str, second: str) -> Meeting:
        key = frozenset((first, second))
        if key not in known:
            known[key] = Meeting(first, second, meet(first, second, error / most))
        return known[key]

    if all_pairs:
        for one, other in itertools.combinations(names, 2):
            meeting(one, other)
    order = sorted_by(faster_than(names, list(known.values())), names)
    while (pair := next_pair(order, known)) is not None:
        meeting(*pair)
        order = sorted_by(faster_than(order, list(known.values())), order)
    meetings = list(known.values())
    found = places(order, meetings)
    return Final(sorted(order, key=lambda name: found[name]), found, meetings, error)


def next_pair(order: Sequence[str], known: Mapping[frozenset[str], Meeting]) -> tuple[str, str] | None:
    """Return the nearest names of an order that have to meet, None if all places are known."""
    faster = faster_than(order, list(known.values()))
    for apart in range(1, len(order)):
        for number in range(apart, len(order)):
            before, name = order[number - apart], order[number]
            is_behind = faster[name] & set(order[number - apart : number])
            if not is_behind and frozenset((before, name)) not in known:
                return before, name
    return None


def faster_than(names: Sequence[str], meetings: Sequence[Meeting]) -> dict[str, set[str]]:
    """Return the faster names for each name, directly by duels or through other names.

    Names in a contradiction, A before B before C before A, count as equal.
    """
    faster: dict[str, set[str]] = {name: set() for name in names}
    for each in meetings:
        if each.faster is not None:
            faster[each.second if each.faster == each.first else each.first].add(each.faster)
    for middle in names:
        for name in names:
            if middle in faster[name]:
                faster[name] |= faster[middle]
    return {name: {other for other in found if name not in faster[other]} for name, found in faster.items()}


def sorted_by(faster: dict[str, set[str]], order: Sequence[str]) -> list[str]:
    """Return the names so that each comes after all faster ones, otherwise in their given order."""
    left, found = list(order), list[str]()
    while left:
        found.append(next(name for name in left if not faster[name] & set(left)))
        left.remove(found[-1])
    return found


def places(order: Sequence[str], meetings: Sequence[Meeting]) -> dict[str, int]:
    """Return the place of each name: directly after the last name in the order that is faster."""
    faster = faster_than(order, meetings)
    return {
        name: 1 + max((number + 1 for number, other in enumerate(order) if other in faster[name]), default=0)
        for name in order
    }
