"""The official order when a leaderboard closes, from duels of its best, with simultaneous intervals. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelcup_harness.protocol.duels import ERROR, RatioEstimate

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
