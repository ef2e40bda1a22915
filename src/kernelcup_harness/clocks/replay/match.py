"""A duel in the clean room: the rival's calls are captured beside the submission's, and replayed in turns.

Each side has a timer of its own, so that its kernels can reach neither the other's code nor its memory.
Each call has an input of its own, written just before it, and its answer is checked: neither side ever sees an input
twice, nor one to which the other side's memory has the answer. A rival that cannot be captured ends only the duel.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.clean_room import CleanRoom
from kernelcup_harness.clocks.replay.rival import NO_TIME, NotHeld, RivalFailed
from kernelcup_harness.clocks.replay.timed_replays import LATEST, Taken
from kernelcup_harness.clocks.replay.timer_line import TimerFailed
from kernelcup_harness.clocks.replay.witnessed import Round, WitnessFailed
from kernelcup_harness.clocks.sampling import TimedCase
from kernelcup_harness.core.answer import CallFailed, Forged
from kernelcup_harness.core.check import Wrong
from kernelcup_harness.core.plan import CaseCalls
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.protocol import DuelResult, DuelVerdict, Finding, SampleName, duels
from kernelcup_harness.window.reasons import NotReplayed
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout

FIRST_INPUT = 6 << 20
"""Input numbers from here on are reserved for duels."""
LONGEST_S = 5.0
"""Time after which no further round of pairs begins."""
LONGEST_ROUND_S = 12.0
"""If the first round of pairs would take longer, there is no duel."""
ALONE, ALONE_S = 16, 1.0
"""Calls of the rival alone before the pairs, and the time after which no further one begins."""
AGREE_SHARE, AGREE_NS = 0.05, 500.0
"""How far the median of a side's calls in turns may lie from that of its calls alone."""
BEHIND_SHARE, SLACK_NS = 0.015, 100.0
"""How much longer the rival's calls may take behind the submission's than behind its own."""
STEP = 4
"""Pairs after which it is known what a round takes; it divides the number of loads."""
LOADING_S = 2.0
"""If all loads would take longer than this, each side is loaded less often."""
SIDES = ("submission", "rival")
RIVAL = 1


class Spoilt(Exception):
    """One side failed in turns.

    Args:
        who: Index of the side.
        text: What happened, without anything that a submission has chosen: it may have met hidden cases.
    """

    def __init__(self, who: int, text: str) -> None:
        super().__init__(f"in turns the {SIDES[who]}'s {text}")
        self.who = who


class Match:
    """One duel.

    Args:
        mine: The submission's calls.
        rival: The rival's calls.
        load_rival: Has the rival imported. Raises :class:`RivalFailed` or :class:`NotHeld`.
        chance: From the run's secret.
        error: How often equal submissions may be found different.
        refuse: Ends the job because the rival's kept binary cannot be replayed; None for a rival's process.
    """

    def __init__(
        self,
        mine: CleanRoom,
        rival: CleanRoom,
        load_rival: Callable[[], None],
        chance: random.Random,
        error: float = duels.ERROR,
        refuse: Callable[[NotReplayed], NoReturn] | None = None,
    ) -> None:
        self._mine = mine
        self._rival = rival
        self._load_rival = load_rival
        self._chance = chance
        self._error = error
        self._refuse = refuse
        self._runs: list[CaseCalls] = []
        self._alone: dict[int, list[float]] = {}
        """Times of the rival's calls before the pairs, by the start gun, for each case."""
        self._loads = 1
        """How often each side is loaded; the submission is there already."""
        self._inputs = 0
        self.result: DuelResult | None = None
        """The outcome, once it is known."""
        self.finding: Finding | None = None
        """Set if one side failed in turns: it works otherwise there, so a person looks at it."""

    def prepare(self, runs: Sequence[CaseCalls], runner: RunnerLine) -> None:
        """Capture the rival's calls, once the submission's process is gone: it could disturb them. End the rival's.

        The rival's timer gets them only when the submission's own times are taken, which then nothing can disturb.
        """
        self._runs = [CaseCalls(run.case) for run in runs]
        with self.ending():
            self._load_rival()
            self._rival.lie_as(self._mine, self._runs)
            for run in self._runs:
                self._rival.capture(run)
            self._rival.take_export()
        if self._refuse is None:
            runner.dismiss(["rival"])

    def _load(self) -> None:
        """Load both sides, and replay the rival's calls once."""
        with self.ending():
            self._rival.alone = True
            try:
                began = time.monotonic()
                self._rival.hand_over()
                takes_s = time.monotonic() - began
                loads = duels.LOADS if 2 * duels.LOADS * takes_s < LOADING_S else duels.FEWEST_LOADS
                for _ in range(1, loads):
                    for side in self._chance.sample((self._mine, self._rival), 2):
                        side.hand_over()
                    self._loads += 1
                for run in self._runs:
                    self._rival.verify(run)
            except (Wrong, CallFailed, BrokenProtocol) as error:
                raise NotHeld(f"its calls do not replay beside the submission's: {error}") from error

    @contextmanager
    def ending(self) -> Iterator[None]:
        """End the duel with a word if the rival cannot take part."""
        try:
            yield
        except (NotReplayed, NotHeld) as reason:
            if self._refuse is not None and isinstance(reason, NotReplayed):
                self._refuse(reason)
            text = reason.text if isinstance(reason, NotReplayed) else str(reason)
            self._end(DuelVerdict.NOT_HELD, f"the rival: {text}")
        except (RivalFailed, Wrong, CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            self._end(DuelVerdict.RIVAL_FAILED, f"the rival: {error or type(error).__name__}")

    def fight(self, runs: Sequence[TimedCase]) -> DuelResult:
        """Time pairs of all cases until the two sides can be distinguished.

        A side whose calls fail in turns has lost, and the result is held back for a person.
        """
        if self.result is None:
            self._load()
        if self.result is not None:
            return self.result
        try:
            return self._fought(runs)
        except Spoilt as spoilt:
            self.finding = Finding(code="duel_spoilt", text=str(spoilt)[:1_000], quarantines=True)
            verdict = (DuelVerdict.FAILED, DuelVerdict.RIVAL_FAILED)[spoilt.who]
            return self._end(verdict, str(spoilt))
        except (WitnessFailed, trace.NothingSeen) as reason:
            # Either side may have done it, to have no duel.
            self.finding = Finding(code="duel_spoilt", text=f"in turns: {reason}"[:1_000], quarantines=True)
            return self._end(DuelVerdict.NOT_HELD, str(reason))
        except (NotHeld, TimerFailed, TaskFault) as reason:
            return self._end(DuelVerdict.NOT_HELD, str(reason))

    def _fought(self, runs: Sequence[TimedCase]) -> DuelResult:
        for run in runs:
            self._call_alone(run)
        watched = [self._is_watched(run) for run in runs]
        alone = [self._alone_ns(run, seen) for run, seen in zip(runs, watched, strict=True)]
        pairs: list[list[duels.Pair]] = [[] for _ in runs]
        until = time.monotonic() + LONGEST_S

        def more(first: int, count: int) -> list[float]:
            for number in range(first, first + count, self._loads):
                if number and time.monotonic() > until:
                    break
                for run, seen, taken in zip(runs, watched, pairs, strict=True):
                    taken += self._round(run, number, seen=seen, most_s=LONGEST_ROUND_S / len(runs))
            for before, taken in zip(alone, pairs, strict=True):
                compare_with_before(before, taken)
                self._compare_by_order(taken)
            return duels.over_cases([duels.log_ratios(taken[first:]) for taken in pairs])

        found, ratios = duels.decide(more, error=self._error, loads=self._loads)
        return duels.outcome(found, ratios, [duels.log_ratios(taken) for taken in pairs])

    def _compare_by_order(self, pairs: Sequence[duels.Pair]) -> None:
        """Have a person look if the rival takes longer behind the submission than behind itself, and not vice versa.

        Half the calls of a side are the second of their pair, behind the other's; the others follow one of its own.
        """
        behind: list[float] = []
        for who in (0, RIVAL):
            times: tuple[list[float], list[float]] = ([], [])
            for number, pair in enumerate(pairs):
                times[self._order(number).index(who)].append(pair[who])
            own_ns, other_ns = map(statistics.median, times)
            behind.append(max(0.0, other_ns - own_ns - SLACK_NS) / own_ns)
        if behind[RIVAL] - behind[0] > BEHIND_SHARE:
            text = f"behind the submission's calls the rival's take {behind[RIVAL]:.1%} longer than behind its own"
            self.finding = Finding(code="duel_spoilt", text=text, quarantines=True)

    def _call_alone(self, run: CaseCalls) -> None:
        """Make a few calls of the rival: by them it is known whether the witness can watch it."""
        began = time.monotonic()
        for number in range(ALONE):
            if number >= LATEST and time.monotonic() - began > ALONE_S:
                break
            with blaming(RIVAL):
                at = self._chance.randrange(self._mine.places_of(run))
                self._alone.setdefault(run.case.index, []).append(
                    self._rival.turn(run, self._fresh(), load=number % self._loads, at=at)
                )
            if (time.monotonic() - began) * 2 * self._loads > LONGEST_ROUND_S * (number + 1):
                raise NotHeld("its inputs and checks take too long")

    def _is_watched(self, run: CaseCalls) -> bool:
        """Return whether the witness times a case: both sides by one clock, and by that of the ranked times."""
        sides = (self._mine, self._rival)
        if all(side.watches(run) for side in sides):
            return True
        if self._mine.witness is None or all(side.is_out_of_sight(run) for side in sides):
            return False
        raise NotHeld("the hardware's counters do not show the calls of both")

    def _alone_ns(self, run: TimedCase, seen: bool) -> duels.Pair:
        """Return the median time of each side alone: the submission's is that of its ranked calls."""
        if seen:
            mine = run.samples.watched_ns
            rival = self._watched(run, [(number, RIVAL) for number in range(LATEST)])
        else:
            mine, rival = run.samples.gun_ns(self._mine.offset_ns), self._alone[run.case.index]
        if not mine:
            raise NotHeld("its ranked times do not count")
        return statistics.median(mine), statistics.median(rival)

    def _round(self, run: CaseCalls, first: int, *, seen: bool, most_s: float) -> list[duels.Pair]:
        """Return a pair of each load for a case. Raise :class:`NotHeld` if the first ones take too long."""
        found, began = list[duels.Pair](), time.monotonic()
        for number in range(first, first + self._loads, STEP):
            numbers = range(number, number + STEP)
            order = [(each, who) for each in numbers for who in self._order(each)]
            times = dict(zip(order, (self._watched if seen else self._fired)(run, order), strict=True))
            found += [(times[each, 0], times[each, 1]) for each in numbers]
            if not number and (time.monotonic() - began) * self._loads > most_s * STEP:
                raise NotHeld("its inputs and checks take too long")
        return found

    def _watched(self, run: CaseCalls, order: Sequence[tuple[int, int]]) -> list[float]:
        """Return the times of calls, each given by its number and side, as the witness sees them."""
        rooms, witness, found = (self._mine, self._rival), self._mine.witness, list[float]()
        assert witness is not None
        places = self._places(run, order)
        most = min(room.rounds(run) for room in rooms)
        while len(found) < len(order):
            taken: tuple[list[Taken], list[Taken]] = ([], [])
            rounds = [
                blamed(
                    who,
                    rooms[who].round_of(run, places[number], self._fresh(), taken[who], number % self._loads),
                )
                for number, who in order[len(found) : len(found) + most]
            ]
            # Nothing is added by a watch that cannot be read: it is made again.
            found += witness.watch(rounds, lambda taken=taken: self._check_taken(run, taken))  # type: ignore[misc]
        return found

    def _fired(self, run: CaseCalls, order: Sequence[tuple[int, int]]) -> list[float]:
        """Return the same by the start gun."""
        found, places = [], self._places(run, order)
        for number, who in order:
            with blaming(who):
                side = (self._mine, self._rival)[who]
                found.append(side.turn(run, self._fresh(), load=number % self._loads, at=places[number]))
        return found

    def _places(self, run: CaseCalls, order: Sequence[tuple[int, int]]) -> dict[int, int]:
        """Draw a place for each pair: both sides are called at the same."""
        return {number: self._chance.randrange(self._mine.places_of(run)) for number, _ in order}

    def _check_taken(self, run: CaseCalls, taken: tuple[list[Taken], list[Taken]]) -> None:
        for who, answers in enumerate(taken):
            for each in answers:
                with blaming(who):
                    (self._mine, self._rival)[who].check_taken(run, each)

    def _fresh(self) -> SampleName:
        """Return an input that neither side has seen."""
        self._inputs += 1
        return SampleName(input=FIRST_INPUT + self._inputs)

    def _order(self, number: int) -> tuple[int, int]:
        """Return who goes first: it changes from call to call, and for each load from round to round."""
        return (0, 1) if (number + number // self._loads) % 2 else (1, 0)

    def _end(self, verdict: DuelVerdict, message: str) -> DuelResult:
        self.result = DuelResult(verdict=verdict, rival_message=(message or NO_TIME)[:2_000])
        return self.result


@contextmanager
def blaming(who: int) -> Iterator[None]:
    """Raise :class:`Spoilt` for a call of one side that fails."""
    try:
        yield
    except Wrong as wrong:
        raise Spoilt(who, "answers are wrong, though they were right before") from wrong
    except Forged as forged:
        raise Spoilt(who, "times cannot be right") from forged
    except (CallFailed, BrokenProtocol, TimerFailed) as error:
        raise Spoilt(who, "calls fail, though they did not before") from error


def blamed(who: int, parts: Round) -> Round:
    """Return a watched call that blames its side if it fails."""

    def call() -> None:
        with blaming(who):
            parts.call()

    return replace(parts, call=call)


def compare_with_before(alone: duels.Pair, pairs: Sequence[duels.Pair]) -> None:
    """Compare the times of both sides in turns with those alone.

    A submission that takes longer in turns has only itself to blame, so its times count.

    Raise :class:`Spoilt` for a side that takes less time, and for a rival that alone takes more;
    :class:`NotHeld` if both take more.
    """
    longer = [False, False]
    for who, before_ns in enumerate(alone):
        taken_ns = statistics.median(pair[who] for pair in pairs)
        if abs(taken_ns - before_ns) <= AGREE_SHARE * before_ns + AGREE_NS:
            continue
        if taken_ns < before_ns:
            raise Spoilt(who, "calls take much less time than before")
        longer[who] = True
    if all(longer):
        raise NotHeld("in turns the calls of both take longer than alone")
    if longer[RIVAL]:
        raise Spoilt(RIVAL, "calls take much more time than before")
