"""The rank of each place of a ranking, remembered in parts.

Where a place begins a new rank depends on all places above it. So a ranking is kept in parts of some hundred
places, each with the head of the band in which it begins: after a change the part that changed is read, and
those behind it until one begins with the same head as before. Who pages through a ranking that stays as it is
costs no more than a sum over its rows.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from kernelcup import scoring
from kernelcup.scoring import Span
from kernelcup.storage import ranking
from kernelcup.storage.ranking import WHOLE, Part, State

NEAR = 1000
"""So many places from the top are worked out each time."""

PART = 1000
"""Places of a part when it is made; one that has twice as many is divided."""

MOST_REMEMBERED = 32
"""Rankings; with 100,000 places each has 400 kB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A part whose bands are known."""

    part: Part
    state: State
    enters: Span | None
    """The head of the band in which it begins, None at the top."""
    leaves: Span | None
    """The head of the band in which it ends."""
    heads: array[int]
    """Which of its places head a band, from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """A ranking that was worked out."""

    state: State
    parts: Sequence[Known]
    ranks: Sequence[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Which ranking, in a transaction."""

    session: Session
    board_id: int
    device: str
    frozen: bool

    def state(self, part: Part = WHOLE) -> State:
        """Return the state of a part."""
        return ranking.state(
            self.session, board_id=self.board_id, device=self.device, frozen=self.frozen, part=part
        )

    def spans(self, part: Part = WHOLE, limit: int | None = None) -> list[Span]:
        """Return what decides about ties in a part."""
        return ranking.spans(
            self.session,
            board_id=self.board_id,
            device=self.device,
            frozen=self.frozen,
            part=part,
            limit=limit,
        )


class Places:
    """Ranks of whole rankings, the most recently used ones."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, str, bool], Whole] = OrderedDict()
        self._mine = threading.Lock()

    def ranks(
        self, session: Session, *, board_id: int, device: str, frozen: bool, until: int
    ) -> Sequence[int]:
        """Return the ranks of at least the first places, as far as there are any."""
        wanted = Ranking(session=session, board_id=board_id, device=device, frozen=frozen)
        if until <= NEAR:
            return list(scoring.band_heads(wanted.spans(limit=until)))
        key = (str(session.get_bind().engine.url), board_id, device, frozen)
        state = wanted.state()
        with self._mine:  # of many who ask at once one works
            known = self._known.get(key)
            if known is None or known.state != state:
                parts = list(_renewed(wanted, known.parts if known is not None else ()))
                known = Whole(state=state, parts=parts, ranks=_ranks(parts))
                if wanted.state() != state:  # it changed meanwhile, and the parts may not fit together
                    return known.ranks
            self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return known.ranks


def _renewed(wanted: Ranking, known: Sequence[Known]) -> Iterator[Known]:
    """Yield the parts of a ranking as they are now; what has not changed since is not read."""
    head: Span | None = None
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


def _read(wanted: Ranking, part: Part, head: Span | None) -> Iterator[Known]:
    """Work out a part, in several where it is long. Equal times stay together; together they are the part."""
    spans = wanted.spans(part)
    begins, is_first = part.at_least_s, True
    while spans or is_first:
        size = PART if len(spans) >= 2 * PART else len(spans)
        while size < len(spans) and spans[size].score_s == spans[size - 1].score_s:
            size += 1
        mine, spans = spans[:size], spans[size:]
        ends = spans[0].score_s if spans else part.below_s
        places = array("l", (at for at, is_head in enumerate(scoring.heads(mine, behind=head)) if is_head))
        leaves = mine[places[-1]] if places else head
        now = Part(at_least_s=begins, below_s=ends)
        yield Known(part=now, state=wanted.state(now), enters=head, leaves=leaves, heads=places)
        head, begins, is_first = leaves, ends, False


def _ranks(parts: Sequence[Known]) -> Sequence[int]:
    """Return the rank of each place."""
    ranks = array("l")
    rank = 1
    for part in parts:
        first, end = len(ranks), len(ranks) + part.state.entries
        for head in part.heads:
            ranks.extend([rank] * (first + head - len(ranks)))
            rank = first + head + 1
        ranks.extend([rank] * (end - len(ranks)))
    return ranks


PLACES = Places()
