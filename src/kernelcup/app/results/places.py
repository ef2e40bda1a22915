"""The rank of each place of a ranking, cached in parts.

Whether a place begins a new rank depends on all places above it. So a ranking is cached in parts of several
hundred places, each with the head of the band in which it begins. After a change only the changed part is
read, and the following parts until one begins with the same head as before. Paging through an unchanged
ranking costs no more than a sum over its rows.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelcup import scoring
from kernelcup.app.results.queries import standings
from kernelcup.app.results.queries.standings import WHOLE, Part, State
from kernelcup.engine import Session, database_of
from kernelcup.scoring import Placed

NEAR = 1000
"""This many places from the top are computed each time, without the cache."""

PART = 1000
"""The number of places in a new part; a part with twice as many is divided."""

MOST_BYTES = 16 << 20
"""What all cached rankings may take; one with 100,000 places takes 400 kB, and 400 kB more where none are equal."""
NUMBER = "i"
"""How a place or a rank is kept, in four bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A part whose bands are known."""

    part: Part
    state: State
    enters: Placed | None
    """The head of the band in which it begins, None at the top."""
    leaves: Placed | None
    """The head of the band in which it ends."""
    heads: array[int]
    """The places that head a band, counted from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """A ranking with computed ranks."""

    state: State
    parts: Sequence[Known]
    ranks: array[int]

    @property
    def size_bytes(self) -> int:
        """What it takes, but for its handful of objects."""
        numbers = len(self.ranks) + sum(len(part.heads) for part in self.parts)
        return numbers * self.ranks.itemsize


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Identifies a ranking, in a transaction."""

    session: Session
    board_id: int
    device: str
    host_class: str
    frozen: bool

    def state(self, part: Part = WHOLE) -> State:
        return standings.state(
            self.session,
            board_id=self.board_id,
            device=self.device,
            host_class=self.host_class,
            frozen=self.frozen,
            part=part,
        )

    def scores(self, part: Part = WHOLE, limit: int | None = None) -> list[Placed]:
        """Return the scores of a part, which decide about ties."""
        return standings.scores(
            self.session,
            board_id=self.board_id,
            device=self.device,
            host_class=self.host_class,
            frozen=self.frozen,
            part=part,
            limit=limit,
        )


class Places:
    """A cache of the ranks of the most recently used rankings, limited in bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._known: OrderedDict[tuple[str, int, str, str, bool], Whole] = OrderedDict()
        self._mine = threading.Lock()

    def ranks(
        self, session: Session, *, board_id: int, device: str, host_class: str, frozen: bool, until: int
    ) -> Sequence[int]:
        """Return the ranks of at least the first ``until`` places, or of all if there are fewer."""
        wanted = Ranking(
            session=session, board_id=board_id, device=device, host_class=host_class, frozen=frozen
        )
        if until <= NEAR:
            return list(scoring.band_heads(wanted.scores(limit=until)))
        key = (database_of(session), board_id, device, host_class, frozen)
        state = wanted.state()
        with self._mine:  # of many concurrent callers, one computes
            known = self._known.get(key)
            if known is None or known.state != state:
                parts = list(_renewed(wanted, known.parts if known is not None else ()))
                known = Whole(state=state, parts=parts, ranks=_ranks(parts))
                if (
                    wanted.state() != state
                ):  # the ranking changed meanwhile, and the parts may not fit together
                    return known.ranks
            self._known[key] = known
            self._known.move_to_end(key)
            while self.size_bytes > self._most_bytes:
                self._known.popitem(last=False)
        return known.ranks

    @property
    def size_bytes(self) -> int:
        """What the cached rankings take."""
        return sum(each.size_bytes for each in self._known.values())


def _renewed(wanted: Ranking, known: Sequence[Known]) -> Iterator[Known]:
    """Yield the current parts of a ranking; unchanged parts are not read again."""
    head: Placed | None = None
    if not known:
        yield from _read(wanted, WHOLE, head)
    for old in known:
        if wanted.state(old.part) == old.state and head == old.enters:
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
        yield Known(part=now, state=wanted.state(now), enters=head, leaves=leaves, heads=places)
        head, begins, is_first = leaves, ends, False


def _ranks(parts: Sequence[Known]) -> array[int]:
    ranks = array(NUMBER)
    rank = 1
    for part in parts:
        first, end = len(ranks), len(ranks) + part.state.entries
        for head in part.heads:
            ranks.extend([rank] * (first + head - len(ranks)))
            rank = first + head + 1
        ranks.extend([rank] * (end - len(ranks)))
    return ranks


PLACES = Places()
