"""Times, intervals, ranks and duels in words, shared by the command line, Discord and the API."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kernelcup.domain import (
    AfterDeadline,
    BoardSettings,
    DuelOutcome,
    Leaderboard,
    RankedBy,
    Ruling,
    Score,
    Standing,
    TrustRule,
)
from kernelcup.domain.events import EventSettings, PointsBy, Ties
from kernelcup.scoring import own_rank_s
from kernelcup_harness.protocol import BinaryUse, DuelResult, DuelVerdict, TrustLevel

if TYPE_CHECKING:
    from kernelcup.domain.answers import Review
    from kernelcup.reporting.results import JobInfo

CORRECT = "correct"
"""What stands in place of a time that means nothing."""
UNTIMED = "times mean nothing on this device: all correct results share the first place, the earliest first"
UPPER_END = "ranked by its upper end"
TIED = "= not distinguishable from the first entry of that rank"
WIDE = "an interval that extends more than 5 % from its score is ranked by its upper end"
BEHIND = "some entries rank behind the entry that they did not beat in a duel"
EMULATED_TIMES = "times from an emulated device, not comparable with a GPU’s"
MINUS = "\N{MINUS SIGN}"
HALF = 0.5
"""Below this speedup a result is called slower."""

UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``1 person`` or ``41 people``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(ns: float, *, digits: int = 4) -> str:
    """Return a time with a unit and some digits: ``13.42 µs``."""
    unit, size = _unit(ns)
    return f"{significant(ns / size, digits)} {unit}"


def about(seconds: float) -> str:
    """Return a rounded duration, for example of a wait: ``3 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def significant(value: float, digits: int) -> str:
    """Return a number with the given number of digits, never with an exponent."""
    return f"{value:.0f}" if value >= 10**digits - 0.5 else f"{value:.{digits}g}"


def interval_text(ns: float, low_ns: float | None, high_ns: float | None) -> str:
    """Return a 95 % interval in the unit of its time, ``13.39 to 13.45``; empty if it is unknown."""
    if low_ns is None or high_ns is None:
        return ""
    _, size = _unit(ns)
    return f"{significant(low_ns / size, 4)} to {significant(high_ns / size, 4)}"


def score_value(score_s: float, speedup: float | None) -> str:
    """Return a score: ``13.42 µs``, or as a speedup ``1.83×``."""
    return duration(score_s * 1e9) if speedup is None else factor(speedup)


def factor(value: float) -> str:
    """Return how many times as fast something is: ``1.83×``."""
    return f"{value:.2f}×" if value < 99.995 else f"{value:.0f}×"


def score_interval(score: Score) -> str:
    """Return the 95 % interval of a score in its unit, ``1.80 to 1.86``; empty if it is unknown."""
    if score.speedup is None or score.low_s is None or score.high_s is None:
        return interval_text(*score.in_ns) if score.speedup is None else ""
    return f"{1 / score.high_s:.2f} to {1 / score.low_s:.2f}"


def place_time(score_s: float, ranked_by: str, speedup: float | None = None) -> str:
    """Return the score of a place in a ranking, or that it is correct where times mean nothing."""
    return CORRECT if ranked_by == RankedBy.CORRECTNESS else score_value(score_s, speedup)


def with_interval(ns: float, low_ns: float | None, high_ns: float | None) -> str:
    """Return a time with its interval: ``13.42 µs (13.39 to 13.45)``."""
    told = interval_text(ns, low_ns, high_ns)
    return duration(ns) + (f" ({told})" if told else "")


def classes_text(device: str) -> str:
    """Return why a device has a ranking for each class of machines."""
    return (
        f"Times on {device} are not comparable between classes of machines that have not been shown to agree: each "
        "class has a ranking of its own."
    )


def ranking_notes(places: Sequence[Standing], *, is_ranked: bool = True) -> list[str]:
    """Return what explains the marks of places in a ranking."""
    notes = {
        UNTIMED: any(place.time_s is None for place in places),
        TIED: is_ranked and any(place.tied and place.time_s is not None for place in places),
        BEHIND: any(place.duel.is_behind for place in places),
        WIDE: any(place.ranked_by is RankedBy.UPPER_END for place in places),
        EMULATED_TIMES: not all(place.comparable for place in places),
    }
    return [note for note, applies in notes.items() if applies]


def rank_text(rank: int, *, tied: bool) -> str:
    """Return a rank as shown in lists of results: ``1=`` if it is shared."""
    return f"{rank}=" if tied else str(rank)


def percent(part: float) -> str:
    """Return a share in percent with a sensible number of digits."""
    value = 100 * part
    return f"{value:.0f} %" if abs(value) >= 10 else f"{value:.1f} %"


def duel_sentence(duel: DuelResult, first: str, second: str, *, interval: str = "98 % interval") -> str:
    """Return which of two is faster, by how much, and how certain that is.

    "3 % faster" means that it completes 3 % more calls in the same time. ``interval`` names the kind of interval.
    """
    if duel.verdict == DuelVerdict.RIVAL_FAILED:
        return _because(f"{second} could not be measured", duel.rival_message)
    if duel.verdict == DuelVerdict.FAILED:
        return _because(f"{first} could not be measured", duel.rival_message)
    if duel.verdict == DuelVerdict.NOT_HELD:
        return _because(f"{first} and {second} could not be compared", duel.rival_message)
    if duel.rival_message:
        found = duel_sentence(dataclasses.replace(duel, rival_message=""), first, second, interval=interval)
        return f"Not measured in turns, since {duel.rival_message}; by their times, {found}"
    if not (duel.low > 0 and math.isfinite(duel.high)):
        return f"{first} and {second} cannot be told apart: too little was measured."
    if duel.verdict == DuelVerdict.TIED:
        return f"{first} and {second} cannot be told apart: {_between(first, second, duel)} ({interval})."
    ratio, low, high = duel.ratio, duel.low, duel.high
    if duel.verdict == DuelVerdict.SLOWER:
        first, second, ratio, low, high = second, first, 1 / ratio, 1 / high, 1 / low
    ends = f"{100 * (1 / high - 1):.1f} to {100 * (1 / low - 1):.1f} %"
    return f"{first} is {100 * (1 / ratio - 1):.1f} % faster than {second} ({interval} {ends})."


def binaries_text(uses: Sequence[BinaryUse], first: str, second: str) -> str:
    """Return of which run's binary each side was, in sentences; empty where code was judged as usual."""
    names = {"submission": first, "rival": second}
    return " ".join(
        f"Of {names[each.side]}, the code was judged and not the binary of run {each.run}: {each.why}."
        if each.why
        else f"Of {names[each.side]}, the binary of run {each.run} was replayed."
        for each in uses
    )


def frozen_text(since: datetime, what: str = "later results are") -> str:
    """Return that standings are frozen since a given time, and what they leave out."""
    return f"Frozen since {since:%Y-%m-%d %H:%M:%S} UTC; {what} not shown until the end."


def waiting_text(count: int, command: str = "", *, left: int = 0) -> str:
    """Return that users have no place until their earlier results are judged again.

    The command for that is for those who may run it. ``left`` are being judged again already.
    """
    if left:
        return f"The task was changed: earlier results are being judged again, {left} left."
    whose = "1 user's result was" if count == 1 else f"the results of {count} users were"
    then = f"Judge them again with: {command}" if command else "They rank once they are judged again."
    return f"Not ranked: {whose} judged against an earlier version of the task. {then}"


def rejudge_command(board: str, option: str = "") -> str:
    """Return the command that judges a leaderboard's results again; the option names a server."""
    return f"kernelcup admin rejudge {board}{option}"


PRACTICE = "Practice: it was submitted after the deadline, and changes nothing of the ranking."
_WHY_NOT = {
    Ruling.PRACTICE: PRACTICE,
    Ruling.OUTDATED: "Not ranked: it was judged against an earlier version of the task, and its time cannot be "
    "compared with later ones. It ranks once it is judged again.",
}


def remark(job: JobInfo, board: Leaderboard) -> str:
    """Return why a result does not rank, or not by its score; empty if it ranks by its score."""
    run, ruling = job.counted, job.ruling
    if run is None:
        return ""
    why = f": {job.reason.rstrip('.')}" if job.reason else ""
    if ruling is Ruling.REJECTED:
        return f"This result was rejected{why}."
    if ruling is Ruling.HELD:
        return f"A person looks at this result before it counts{why}."
    if ruling in _WHY_NOT and run.score_s is not None:
        return _WHY_NOT[ruling]
    if ruling is Ruling.LEVEL and run.score_s is not None:
        return (
            f"Not ranked: this leaderboard ranks {board.trust.value} times only, "
            f"and this one is {trust_text(run.report.trust)}."
        )
    if ruling is Ruling.HIDDEN and run.score_s is not None and board.freeze_at is not None:
        return frozen_text(board.freeze_at, "yours is")
    if run.score is not None and not board.ranks_times(run.report.backend):
        return f"{UNTIMED.capitalize()}."
    is_placed = run.duel is not DuelOutcome.NONE and not (run.duel.is_behind and run.rank_s is None)
    if board.duel and is_placed:  # else its rival is slower by now, or gone
        return duel_remark(run.duel, run.rival)
    if run.score is None or own_rank_s(run.score) == run.score_s:
        return ""
    by_s = own_rank_s(run.score)
    end = score_value(by_s, run.score.speedup and 1 / by_s)
    return f"Ranked as {end}, the upper end of its interval, which extends more than 5 % from its score."


def same_code_text(review: Review, before: str = "") -> str:
    """Return which other submissions a decision about a review is about; empty if there are none."""
    when = "decided with it" if review.decision else "one decision is about it, too"
    more = f" and {len(review.same_code) - 10} more" if len(review.same_code) > 10 else ""
    numbers = ", ".join(f"#{each}" for each in review.same_code[:10])
    return f"{before}equal code, {when}: {numbers}{more}" if numbers else ""


def after_rule(rule: AfterDeadline | str) -> str:
    """Return what a leaderboard accepts after its deadline."""
    what = {
        AfterDeadline.CLOSED: "nothing can be submitted",
        AfterDeadline.UNRANKED: "tests, benchmarks and profiles stay open",
        AfterDeadline.PRACTICE: "ranked submissions go into a practice table of their own",
    }
    return f"After the deadline {what[AfterDeadline(rule)]}."


def trust_text(trust: str) -> str:
    """Return in a few words how a time was taken."""
    return "by the wall clock" if trust == TrustLevel.WALL_CLOCK else trust


def level_mark(trust: str) -> str:
    """Return how a time was taken if that is worth a mark beside it: all but the best level."""
    return "" if trust == TrustLevel.WITNESSED else trust_text(trust)


def unranked(rule: TrustRule) -> str:
    """Return why results are listed apart; each says by which clock it was timed."""
    return f"not ranked: this leaderboard ranks {rule.value} times only"


def code_rule(board: BoardSettings) -> str:
    """Return who sees the code of a leaderboard's ranked results, and when."""
    if not board.publishes_code:
        return "Participants do not see each other’s code."
    if board.deadline is None:
        return "Participants do not see each other’s code: it is shown after a deadline, and there is none."
    return "The code of ranked results is shown to all who see the leaderboard after the deadline."


def licence_rule(licence: str) -> str:
    """Return under which licence people submit; empty where none is asked for."""
    return f"By submitting you put your code under this licence: {licence}." if licence else ""


def points_rule(event: EventSettings) -> str:
    """Return how an event's points are given."""
    full = f"{event.full_points:g}"
    by = {
        PointsBy.PLACE: f"Points by place on each device: {event.place_points.replace(',', ', ')}.",
        PointsBy.LEADER: f"Points on each device: {full} times the best time over one’s own.",
        PointsBy.FLOOR: f"Points on each device: {full} times the device’s limit over one’s own time.",
        PointsBy.BASELINE: f"Points on each device: {full} times the baseline’s time over one’s own.",
    }[event.points_by]
    ties = "share a place" if event.ties is Ties.SHARED else "are separated by the better places"
    return f"{by} Who shares a rank gets the same points. Equal sums {ties}."


def ranking_levels(rule: TrustRule) -> str:
    """Return which times rank: ``only replayed times rank``."""
    return "all times rank, each marked" if rule is TrustRule.ANY else f"only {rule.value} times rank"


def cpu_rule(rank: bool) -> str:
    """Return what times of devices without a GPU are for."""
    return "times without a GPU rank" if rank else "without a GPU all correct results share the first place"


def read_text(read_s: float, trust: str) -> str:
    """Return the figure beside a score: the submission's own, or the clock's before anything was subtracted."""
    what = "self-measured" if trust == TrustLevel.WALL_CLOCK else "raw"
    return f"{what} {duration(read_s * 1e9)}"


def duel_remark(outcome: DuelOutcome, rival: int | None) -> str:
    """Return the outcome of a result's duel with the previous leader; empty if there was none."""
    whom = "the previous leader" if rival is None else f"#{rival}, which was first"
    return {
        DuelOutcome.NONE: "",
        DuelOutcome.WON: f"It won its duel against {whom}.",
        DuelOutcome.UNANSWERED: f"It takes the place of {whom} and could not be measured beside it.",
        DuelOutcome.FAILED: f"It ranks below {whom}: it failed when the two were measured in turns.",
        DuelOutcome.TIED: f"It shares the rank of {whom}: measured in turns, they cannot be told apart.",
        DuelOutcome.LOST: f"It ranks below {whom}: measured in turns, it is slower.",
        DuelOutcome.INTERVALS: f"It takes the place of {whom}: no duel between the two counts, and the "
        "intervals of their times do not overlap.",
        DuelOutcome.MISSED: "It shares the rank of the current leader: no duel between the two counts, and the "
        "intervals of their times overlap.",
    }[outcome]


def is_compared(duel: DuelResult | None) -> bool:
    """Return whether two submissions were compared, whatever the result."""
    if duel is None or duel.verdict in (DuelVerdict.RIVAL_FAILED, DuelVerdict.FAILED, DuelVerdict.NOT_HELD):
        return False
    return duel.low > 0 and math.isfinite(duel.high)


def change_text(ratio: float) -> str:
    """Return by how much one time differs from another: ``−5.6 %`` for a ratio of 0.944."""
    share = 100 * (ratio - 1)
    return f"{MINUS if share < 0 else '+'}{abs(share):.1f} %"


def times_as_fast(factor: float, whom: str) -> str:
    """Return a speedup in words; below 1, how much slower it is."""
    if factor < HALF:
        return f"{slower(factor)} than {whom}"
    more = percent(1 / factor - 1)
    if factor < 1 and more != percent(0):
        return f"{more} slower than {whom}"
    return f"{factor:.2f} times as fast as {whom}"


def slower(factor: float) -> str:
    """Return ``470 times slower`` for 0.0021, so that readers need not count zeros."""
    return f"{significant(1 / factor, 2 if factor > 0.001 else 3)} times slower"


def _because(what: str, why: str) -> str:
    """Append a reason; one with several lines, for example a traceback, stays as it is."""
    why = why.strip() or "no reason is known"
    return f"{what}: {why}" if "\n" in why else f"{what}: {why.rstrip('.')}."


def _between(first: str, second: str, duel: DuelResult) -> str:
    ends = (f"{abs(100 * (end - 1)):.1f} % {'less' if end < 1 else 'more'}" for end in (duel.low, duel.high))
    low, high = ends
    return f"{first} takes between {low} and {high} time than {second}"


def _unit(ns: float) -> tuple[str, float]:
    return next(((unit, size) for unit, size in UNITS if ns >= size), UNITS[-1])
