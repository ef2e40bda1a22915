"""A ranking as a table has it: bands, what stands beside each time, which row is one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelcup.app.results.facts import NOTHING, ResultFacts
from kernelcup.domain import DuelOutcome, RankedBy, Standing
from kernelcup.http.pages.figures import TimeScale
from kernelcup.reporting.phrases import UNTIMED, UPPER_END, level_mark

SHARED = "Ranks without a number share the one above: the difference is within its 95 % margin."


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A place in a ranking."""

    place: Standing
    facts: ResultFacts
    heads: bool
    """Whether its rank is written: those that follow in its band share it."""
    in_band: bool
    """Whether the next one shares its rank."""
    own: bool
    duel: bool
    """Whether a duel decided about its place."""

    @property
    def clock(self) -> str:
        """How its time was taken, who judged it, and how it ranks; empty if witnessed on the operator's machine."""
        by_end = UPPER_END if self.place.ranked_by is RankedBy.UPPER_END else ""
        isolation = f"isolation: {self.place.isolation}" if self.place.isolation else ""
        lent = "lent machine" if self.place.lent else ""
        marks = (level_mark(self.place.trust), lent, isolation, by_end)
        return ", ".join(mark for mark in marks if mark)

    @property
    def share(self) -> float | None:
        """How much of what the device attains."""
        return None if self.place.time_s is None else self.facts.share(self.place.time_s)

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the reference."""
        return None if self.place.time_s is None else self.facts.speedup(self.place.time_s)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A page of a ranking."""

    rows: Sequence[Row]
    scale: TimeScale
    first_s: float
    """The time that is first in the whole ranking."""
    reference_s: float | None
    more: bool
    """Whether there are further places."""

    @property
    def host_class(self) -> str:
        """The class of machines of its ranking; empty while the device has one ranking."""
        return self.rows[0].place.host_class

    @property
    def shared(self) -> str:
        """Why some of its results share a rank."""
        return SHARED if self.is_timed else f"{UNTIMED.capitalize()}."

    # Each row asks these.
    @cached_property
    def is_timed(self) -> bool:
        """Whether times rank its results, not correctness alone."""
        return any(each.place.time_s is not None for each in self.rows)

    @cached_property
    def one_clock(self) -> str:
        """How all its times were taken; empty if they were witnessed, or not all in the same way."""
        clocks = {each.clock for each in self.rows}
        return clocks.pop() if len(clocks) == 1 else ""

    @cached_property
    def has_shares(self) -> bool:
        """Whether the task declares its work."""
        return any(each.share is not None for each in self.rows)

    @cached_property
    def has_speedups(self) -> bool:
        """Whether the reference was measured."""
        return any(each.speedup is not None for each in self.rows)

    @cached_property
    def has_made_of(self) -> bool:
        """Whether it may be told what results are made of."""
        return any(each.facts.made_of is not None for each in self.rows)


def table_of(
    places: Sequence[Standing],
    facts: Mapping[int, ResultFacts],
    *,
    first: Standing,
    own_submission: int | None,
    reference_s: float | None,
    follows: Standing | None = None,
) -> Table:
    """Return a page of a ranking.

    Args:
        places: The places of the page.
        facts: What stands beside them, by their submissions.
        first: Who is first in the whole ranking.
        own_submission: The reader's.
        reference_s: What the reference takes.
        follows: The first place of the next page.
    """
    behind = [*places[1:], follows]
    rows = [
        Row(
            place=each,
            facts=facts.get(each.submission_id, NOTHING),
            heads=number == 0 or places[number - 1].rank != each.rank,
            in_band=after is not None and after.rank == each.rank,
            own=each.submission_id == own_submission,
            duel=each.duel is not DuelOutcome.NONE,
        )
        for number, (each, after) in enumerate(zip(places, behind, strict=True))
    ]
    times = [first.score_s, *(each.score_s for each in places), reference_s]
    return Table(
        rows=rows,
        scale=TimeScale.of(times),
        first_s=first.score_s,
        reference_s=reference_s,
        more=follows is not None,
    )
