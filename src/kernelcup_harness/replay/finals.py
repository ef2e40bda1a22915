"""The official order when a leaderboard closes: its best meet in duels, with intervals that hold all at once. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelcup_harness.replay.duels import ERROR, Standing

Meet = Callable[[str, str, float], Standing]
"""Has two meet; given how often equal ones may be told apart. Below 0 the first is faster."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """A duel of a final."""

    first: str
    second: str
    standing: Standing

    @property
    def faster(self) -> str | None:
        """The name of who is faster, None if that is not known."""
        winner = self.standing.winner
        return None if winner is None else (self.first, self.second)[winner]


@dataclass(frozen=True, slots=True)
class Final:
    """The outcome of a final.

    Args:
        order: Names, the fastest first.
        places: The place of each name; who cannot be told apart shares one.
        meetings: All duels. Their intervals hold together, in a share of 1 - ``error`` of finals.
        error: For all of them.
    """

    order: list[str]
    places: dict[str, int]
    meetings: list[Meeting]
    error: float


def final(names: Sequence[str], meet: Meet, *, all_pairs: bool = False, error: float = ERROR) -> Final:
    """Find the official order of some submissions, given in the order that they have now.

    Neighbours meet, the order is changed by what is known then, and new neighbours meet, until there are none. With
    ``all_pairs`` everybody meets everybody. Each duel may err in an equal part of ``error``, counted for as many
    as there can be (Bonferroni): so all intervals hold together, whoever meets whom.
    """
    most = max(1, len(names) * (len(names) - 1) // 2)
    known: dict[frozenset[str], Meeting] = {}

    def meeting(first: str, second: str) -> Meeting:
        key = frozenset((first, second))
        if key not in known:
            known[key] = Meeting(first, second, meet(first, second, error / most))
        return known[key]

    if all_pairs:
        for pair in itertools.combinations(names, 2):
            meeting(*pair)
    order, count = list(names), -1
    # Each round but the last has two meet who have not met before.
    while count < len(known):
        count = len(known)
        order = sorted_by(faster_than(order, list(known.values())), order)
        for pair in itertools.pairwise(order):
            meeting(*pair)
    meetings = list(known.values())
    return Final(order, places(order, meetings), meetings, error)


def faster_than(names: Sequence[str], meetings: Sequence[Meeting]) -> dict[str, set[str]]:
    """Return for each name who is faster, by duels or by way of others.

    Duels that contradict each other, A before B before C before A, tell nobody apart.
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
    """Return the names with nobody before who is faster, and else as they stand."""
    left, found = list(order), list[str]()
    while left:
        found.append(next(name for name in left if not faster[name] & set(left)))
        left.remove(found[-1])
    return found


def places(order: Sequence[str], meetings: Sequence[Meeting]) -> dict[str, int]:
    """Return the place of each name: behind the last in the order who is faster, and before all that follow."""
    faster = faster_than(order, meetings)
    return {
        name: 1 + max((number + 1 for number, other in enumerate(order) if other in faster[name]), default=0)
        for name in order
    }
