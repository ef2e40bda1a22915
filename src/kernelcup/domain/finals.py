"""Finals: the official order of a closed ranking's best, found by duels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kernelcup.domain.people import Named


class Compared(StrEnum):
    """How two submissions of a final were compared."""

    DUEL = "duel"
    """Measured in turns on one device."""
    INTERVALS = "intervals"
    """By the intervals of their ranked times, because they had no duel or it was not held."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """Two submissions of a final, by their numbers, and which one is faster."""

    first: int
    second: int
    by: Compared
    ratio: float | None
    """The first one's time over the other's; None where nothing is known about it."""
    low: float | None
    """Ends of its interval. The intervals of all meetings of a final hold together."""
    high: float | None
    faster: int | None
    """None if they cannot be told apart."""
    why: str = ""
    """Why there is no duel; empty if there is one."""
    comparison: int | None = None
    """The submission that stands for the duel in the queue."""
    sentence: str = ""
    """The same in words, where it is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalPlace(Named):
    """A place in the official order."""

    place: int
    """Shared by entries that cannot be told apart."""
    tied: bool
    user: str
    """Empty once the submission was deleted."""
    shown_name: str = ""
    submission: int
    rank: int
    """Its rank in the standings when the final began."""
    score_s: float
    speedup: float | None = None
    """The time that it had in the standings, with the ends of its 95 % interval."""
    low_s: float | None
    high_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Final:
    """A final of one (leaderboard, device)."""

    id: int
    leaderboard: str
    device: str
    entries: int
    """How many submissions take part."""
    error: float
    """In this share of finals, at most, one of the intervals misses."""
    started_by: str
    started_at: datetime
    ended_at: datetime | None
    """None while duels are held."""
    places: list[FinalPlace]
    """The official order; empty until the final has ended."""
    meetings: list[Meeting]
    """The meetings so far."""
    void: list[int]
    """The submissions of the order whose results were put aside since: it does not hold any more."""
    waiting: int | None
    """The submission that stands for the duel that is in the queue now."""
    sentence: str = ""
    """When it was held and how certain it is, or how far it is."""
