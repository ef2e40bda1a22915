"""The rank of each place of a ranking, cached in parts.

Whether a place begins a new rank depends on all places above it. So a ranking is cached in parts of several
hundred places, each with the head of the band in which it begins. Each change gives a ranking another revision. Then
only the changed part is read, which sums tell from the others, and the following parts until one begins with the
same head as before.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kernelcup import scoring
from kernelcup.app.results.queries import standings
from kernelcup.app.results.queries.standings import WHOLE, Key, Part
from kernelcup.engine import Session, database_of
from kernelcup.scoring import Order, Placed

NEAR = 200
"""This many places from the top are computed each time, where the revision is not known."""

PART = 1000
"""The number of places in a new part; a part with twice as many is divided."""

MOST_BYTES = 16 << 20
"""What all cached rankings may take; one with 100,000 places takes 1.3 MB, and 400 kB more where none are equal."""
NUMBER = "i"
"""How a place or a rank is kept, in four bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A part whose bands are known."""

    part: Part
    sums: Sequence[Any]
    """They change with it."""
    enters: Placed | None
    """The head of the band in which it begins, None at the top."""
    leaves: Placed | None
    """The head of the band in which it ends."""
    heads: array[int]
    """The places that head a band, counted from 0."""
    times: array[float]
    """By which its places are ordered, in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """A ranking with computed ranks."""

    revision: int
    parts: Sequence[Known]
    ranks: array[int]

    @property
    def size_bytes(self) -> int:
        """What it takes: numbers, and the objects of its parts."""
        every = [self.ranks, *(each for part in self.parts for each in (part.heads, part.times))]
        return sum(len(each) * each.itemsize for each in every) + 1000 * len(self.parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Identifies a ranking, in a transaction."""

    session: Session
    board_id: int
    device: str
    host_class: str
    frozen: bool = False
    revision: int | None = None
    """None if it was not asked for yet."""

    @property
    def key(self) -> Key:
        return {"board_id": self.board_id, "device": self.device, "host_class": self.host_class}

    def ask_revision(self) -> int:
        return standings.revision(
            self.session, board_id=self.board_id, device=self.device, frozen=self.frozen
        )

    def sums(self, part: Part) -> Sequence[Any]:
        return standings.sums(self.session, **self.key, frozen=self.frozen, part=part)

    def count(self, above: Order) -> int:
        """Return how many places are above one."""
        return standings.count(self.session, **self.key, frozen=self.frozen, above=above)

    def scores(self, part: Part = WHOLE, limit: int | None = None) -> list[Placed]:
        """Return the scores of a part, which decide about ties."""
        return standings.scores(self.session, **self.key, frozen=self.frozen, part=part, limit=limit)


class Places:
    """A cache of the ranks of the most recently used rankings, limited in bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._known: OrderedDict[object, Whole] = OrderedDict()
        self._mine = threading.Lock()

    def ranks(self, of: Ranking, until: int) -> Sequence[int]:
        """Return the ranks of at least the first ``until`` places, or of all if there are fewer."""
        revision, key = of.revision, _key(of)
        if (known := self._get(key, revision)) is not None:
            return known.ranks
        if revision is None:
            if until <= NEAR:
                return list(scoring.band_heads(of.scores(limit=until)))
            revision = of.ask_revision()
        with self._mine:  # of many concurrent callers, one computes
            if (known := self._get(key, revision)) is not None:
                return known.ranks
            old = self._known.get(key)
            parts = list(_renewed(of, old.parts if old is not None else ()))
            known = Whole(revision=revision, parts=parts, ranks=_ranks(parts))
            # If the ranking changed meanwhile, the parts may not fit together.
            if of.ask_revision() == revision:
                self._known[key] = known
                while self.size_bytes > self._most_bytes:
                    self._known.popitem(last=False)
        return known.ranks

    def above(self, of: Ranking, order: Order) -> int:
        """Return how many places are above one. Of a cached ranking the database is asked only at equal times."""
        ranked_s, above = order[0], 0
        known = self._get(_key(of), of.revision)
        for part in known.parts if known is not None else ():
            if part.part.below_s is None or ranked_s < part.part.below_s:
                at = bisect_left(part.times, ranked_s)
                if bisect_right(part.times, ranked_s) == at + 1:
                    return above + at
                break
            above += len(part.times)
        return of.count(order)

    def _get(self, key: object, revision: int | None) -> Whole | None:
        known = self._known.get(key)
        if known is None or known.revision != revision:
            return None
        with suppress(KeyError):  # another thread may have dropped it
            self._known.move_to_end(key)
        return known

    @property
    def size_bytes(self) -> int:
        """What the cached rankings take."""
        return sum(each.size_bytes for each in [*self._known.values()])


def _key(of: Ranking) -> object:
    return database_of(of.session), *of.key.values(), of.frozen


def _renewed(wanted: Ranking, known: Sequence[Known]) -> Iterator[Known]:
    """Yield the current parts of a ranking; unchanged parts are not read again."""
    head: Placed | None = None
    if not known:
        yield from _read(wanted, WHOLE, head)
    for old in known:
        if wanted.sums(old.part) == old.sums and head == old.enters:
            head = old.leaves
            yield old
            continue
        for new in _read(wanted, old.part, head):
            head = new.leaves
            yield new


def _read(wanted: Ranking, part: Part, head: Placed | None) -> Iterator[Known]:
    """Compute a part, and divide it if it is long. Equal times stay in the same part."""
    scores = wanted.scores(part)
    begins, is_first = part.at_least_s, True
    while scores or is_first:
        size = PART if len(scores) >= 2 * PART else len(scores)
        while size < len(scores) and scores[size].score_s == scores[size - 1].score_s:
            size += 1
        mine, scores = scores[:size], scores[size:]
        ends = scores[0].score_s if scores else part.below_s
        places = array(NUMBER, (at for at, is_head in enumerate(scoring.heads(mine, behind=head)) if is_head))
        leaves = mine[places[-1]] if places else head
        now = Part(at_least_s=begins, below_s=ends)
        times = array("d", (each.score_s for each in mine))
        yield Known(part=now, sums=wanted.sums(now), enters=head, leaves=leaves, heads=places, times=times)
        head, begins, is_first = leaves, ends, False


def _ranks(parts: Sequence[Known]) -> array[int]:
    ranks = array(NUMBER)
    rank = 1
    for part in parts:
        first, end = len(ranks), len(ranks) + len(part.times)
        for head in part.heads:
            ranks.extend([rank] * (first + head - len(ranks)))
            rank = first + head + 1
        ranks.extend([rank] * (end - len(ranks)))
    return ranks


PLACES = Places()
