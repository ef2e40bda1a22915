"""Decide about a final from its duels so far: the next duel, or the official order. Pure.

Nothing else is remembered: the decision is taken again from what is stored, so a final goes on after any restart.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from kernelcup.app.results.queries import finals
from kernelcup.domain import OPEN, Compared, JobState, Meeting, Score
from kernelcup.reporting.phrases import is_compared
from kernelcup_harness.protocol import DuelResult, DuelVerdict, Verdict, duels
from kernelcup_harness.protocol.duels import RatioEstimate

UNKNOWN = RatioEstimate(0.0, math.inf, 0)
WALL_CLOCK = "its calls go by the wall clock"
RANKED_ERROR = 0.05
"""How often the interval of a ranked time misses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A duel that has to be held next."""

    first_id: int
    second_id: int
    error: float
    """How often equal submissions may be found different in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The state of a final."""

    meetings: list[Meeting] = field(default_factory=list)
    due: Due | None = None
    """None if all duels were held."""
    places: list[finals.Placed] = field(default_factory=list)
    """The official order, once all duels were held."""


class _NotHeldYet(Exception):
    """The next duel of a final, which is not held yet."""

    def __init__(self, due: Due) -> None:
        super().__init__()
        self.due = due


def decide(contestants: Sequence[finals.Finalist], held: Sequence[finals.Held], error: float) -> Decision:
    """Return the next duel of a final, or its official order.

    Args:
        contestants: In the order of the standings.
        held: Its duels so far. One that has not ended is due.
        error: The error of the final, divided over all possible duels.
    """
    meetings: list[Meeting] = []
    try:
        found = duels.final(
            [_name(each) for each in contestants], _meet(contestants, held, meetings), error=error
        )
    except _NotHeldYet as stop:
        return Decision(meetings=meetings, due=stop.due)
    places = [finals.Placed(submission_id=int(name), place=found.places[name]) for name in found.order]
    return Decision(meetings=meetings, places=places)


def _meet(
    contestants: Sequence[finals.Finalist], held: Sequence[finals.Held], meetings: list[Meeting]
) -> duels.Meet:
    by_name = {_name(each): each for each in contestants}
    by_pair = {frozenset((each.first_id, each.second_id)): each for each in held}

    def meet(first: str, second: str, error: float) -> RatioEstimate:
        one, other = by_name[first], by_name[second]
        duel = by_pair.get(frozenset((one.submission_id, other.submission_id)))
        if one.in_turns and other.in_turns and (duel is None or duel.state in OPEN):
            raise _NotHeldYet(Due(first_id=one.submission_id, second_id=other.submission_id, error=error))
        meeting, standing = _met(one, other, duel, error)
        meetings.append(meeting)
        return standing

    return meet


def _met(
    one: finals.Finalist, other: finals.Finalist, held: finals.Held | None, error: float
) -> tuple[Meeting, RatioEstimate]:
    """Return how two compare: by their duel, or by the intervals of their ranked times."""
    why = _why_not(one, other, held)
    if why:
        by, standing = Compared.INTERVALS, by_intervals(_score(one), _score(other), error)
    else:
        assert held is not None
        assert held.duel is not None
        by, standing = Compared.DUEL, by_duel(held.duel, flipped=held.first_id != one.submission_id)
    known = math.isfinite(standing.half)
    winner = standing.winner
    meeting = Meeting(
        first=one.submission_id,
        second=other.submission_id,
        by=by,
        ratio=standing.ratio if known else None,
        low=standing.interval[0] if known else None,
        high=standing.interval[1] if known else None,
        faster=None if winner is None else (one, other)[winner].submission_id,
        why=why,
        comparison=None if held is None else held.comparison_id,
    )
    return meeting, standing


def _why_not(one: finals.Finalist, other: finals.Finalist, held: finals.Held | None) -> str:
    """Return why two have no duel that counts, empty if they have one. It tells nothing that is hidden."""
    by_wall = [f"#{each.submission_id}" for each in (one, other) if not each.in_turns]
    if by_wall:
        return f"{' and '.join(by_wall)} cannot be measured in turns with another: {WALL_CLOCK}"
    assert held is not None
    if held.state is not JobState.DONE:
        return (
            "their duel was cancelled"
            if held.state is JobState.CANCELLED
            else "their duel waits for a review"
        )
    if held.verdict is not Verdict.ACCEPTED or held.duel is None:
        verdict = "no result" if held.verdict is None else held.verdict.value.replace("_", " ")
        return f'#{held.first_id} ended with "{verdict}" in their duel'
    if held.duel.verdict == DuelVerdict.FAILED:
        return f"#{held.first_id} failed in their duel"
    if held.duel.verdict == DuelVerdict.RIVAL_FAILED:
        return f"#{held.second_id} could not be measured in their duel"
    return "" if is_compared(held.duel) else "their duel gave no times that can be compared"


def by_duel(duel: DuelResult, *, flipped: bool = False) -> RatioEstimate:
    """Return the outcome of a duel; ``flipped`` for that of the second against the first."""
    ends = math.log(duel.low), math.log(duel.high)
    middle = sum(ends) / 2
    return RatioEstimate(-middle if flipped else middle, (ends[1] - ends[0]) / 2, duel.blocks)


def by_intervals(one: Score, other: Score, error: float = duels.ERROR) -> RatioEstimate:
    """Compare two ranked times by their 95 % intervals, widened so that they miss with probability ``error``."""
    reaches = [_reach(each) for each in (one, other)]
    if None in reaches:
        return UNKNOWN
    normal = NormalDist()
    wider = normal.inv_cdf(1 - error / 2) / normal.inv_cdf(1 - RANKED_ERROR / 2)
    half = wider * math.hypot(*(reach for reach in reaches if reach is not None))
    return RatioEstimate(math.log(one.score_s / other.score_s), half, 0)


def by_scores(first: Score | None, second: Score | None, duel: DuelResult) -> DuelResult:
    """Return what the intervals of two results say; ``duel``, which was not held, if they say nothing."""
    found = None if first is None or second is None else by_intervals(first, second)
    if found is None or not math.isfinite(found.half):
        return duel
    return dataclasses.replace(duels.outcome(found, [], []), rival_message=duel.rival_message)


def _score(each: finals.Finalist) -> Score:
    return Score(score_s=each.score_s, low_s=each.low_s, high_s=each.high_s)


def _reach(each: Score) -> float | None:
    """Return how far the interval of a time reaches, as a logarithm; None where it is not known."""
    if each.low_s is None or each.high_s is None or each.low_s <= 0:
        return None
    return max(math.log(each.score_s / each.low_s), math.log(each.high_s / each.score_s))


def _name(each: finals.Finalist) -> str:
    return str(each.submission_id)
