"""A duel in the clean room: the rival's calls are captured beside the submission's, and both replayed in one timer.

Each call has an input of its own, written just before it, and its answer is checked: neither side ever sees an input
twice, nor one to which the other side's memory has the answer. A rival that cannot be captured ends only the duel.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.clean_room import CleanRoom
from kernelcup_harness.clocks.replay.rival import NO_TIME, NotHeld, RivalFailed
from kernelcup_harness.clocks.replay.timed_replays import Taken
from kernelcup_harness.clocks.replay.timer_line import TimerFailed
from kernelcup_harness.core.answer import CallFailed, Forged
from kernelcup_harness.core.check import Wrong
from kernelcup_harness.core.plan import CaseCalls
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
LEAST_SHARE, SLACK_NS = 0.9, 200.0
"""If a side's calls in a duel take less than this share of its fastest call before, and so much less, it has failed:
its kernel or the clock works otherwise in duels."""
WATCHED_PAIRS = 4
"""Pairs in one watch."""
LOADING_S = 2.0
"""If all loads would take longer than this, each side is loaded less often."""
SIDES = ("submission", "rival")


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
        self._loads = 1
        """How often each side is loaded; the submission is there already."""
        self._inputs = 0
        self.result: DuelResult | None = None
        """The outcome, once it is known."""
        self.finding: Finding | None = None
        """Set if one side failed in turns. Kernels of both can write each other's memory, so a person looks at it."""

    def prepare(self, runs: Sequence[CaseCalls]) -> None:
        """Capture the rival's calls while the contestants are still running.

        The timer gets them only when the submission's own times are taken: until then no code of another user runs
        where these calls and their answers are.
        """
        self._runs = [CaseCalls(run.case) for run in runs]
        with self.ending():
            self._load_rival()
            self._rival.lie_as(self._mine, self._runs)
            for run in self._runs:
                self._rival.capture(run)
            self._rival.take_export()

    def _load(self) -> None:
        """Load both sides, and replay the rival's calls once. The submission's may have spoiled its memory."""
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

    def fight(self, runs: Sequence[CaseCalls]) -> DuelResult:
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
        except (NotHeld, Forged, TimerFailed, TaskFault, trace.NothingSeen) as reason:
            return self._end(DuelVerdict.NOT_HELD, str(reason))

    def _fought(self, runs: Sequence[CaseCalls]) -> DuelResult:
        fastest_ns = [(self._mine.fastest_ns(run), self._rival.fastest_ns(run)) for run in runs]
        watched = all(self._mine.watches(run) and self._rival.watches(run) for run in runs)
        empty_ns = 0.0 if watched else self._mine.offset_ns
        pairs: list[list[duels.Pair]] = [[] for _ in runs]
        until = time.monotonic() + LONGEST_S
        take = self._watched_round if watched else self._round

        def more(first: int, count: int) -> list[float]:
            for number in range(first, first + count, self._loads):
                if number and time.monotonic() > until:
                    break
                take(runs, number, pairs)
            for fastest, taken in zip(fastest_ns, pairs, strict=True):
                if not watched:
                    compare_with_before(fastest, taken, empty_ns)
            return duels.over_cases([duels.log_ratios(taken[first:], empty_ns) for taken in pairs])

        found, ratios = duels.decide(more, error=self._error, loads=self._loads)
        return duels.outcome(found, ratios, [duels.log_ratios(taken, empty_ns) for taken in pairs])

    def _round(self, runs: Sequence[CaseCalls], first: int, pairs: list[list[duels.Pair]]) -> None:
        """Add a pair of each load for each case."""
        loads, began = self._loads, time.monotonic()
        for number in range(first, first + loads):
            for run, taken in zip(runs, pairs, strict=True):
                taken.append(self._pair(run, number))
            if not number and (time.monotonic() - began) * loads > LONGEST_ROUND_S:
                raise NotHeld("its inputs and checks take too long")

    def _watched_round(self, runs: Sequence[CaseCalls], first: int, pairs: list[list[duels.Pair]]) -> None:
        """Add a pair of each load for each case, by the witness."""
        loads, began = self._loads, time.monotonic()
        for number in range(first, first + loads, WATCHED_PAIRS):
            for run, taken in zip(runs, pairs, strict=True):
                taken += self._watched_pairs(run, range(number, min(number + WATCHED_PAIRS, first + loads)))
            if not number and (time.monotonic() - began) * loads > LONGEST_ROUND_S * WATCHED_PAIRS:
                raise NotHeld("its inputs and checks take too long")

    def _watched_pairs(self, run: CaseCalls, numbers: Sequence[int]) -> list[duels.Pair]:
        """Return the times of one call of each side for each number, as the witness saw them."""
        rooms, witness, loads = (self._mine, self._rival), self._mine.witness, self._loads
        assert witness is not None
        while True:
            taken: tuple[list[Taken], list[Taken]] = ([], [])
            order, rounds = [], []
            for number in numbers:
                at = self._chance.randrange(self._mine.places_of(run))
                for who in self._order(number):
                    load = number % loads
                    order.append((number, who))
                    rounds.append(rooms[who].round_of(run, at, self._fresh(), taken[who], load))
            spans_ns = witness.watch(rounds, lambda taken=taken: self._check_taken(run, taken))  # type: ignore[misc]
            if spans_ns:
                times = dict(zip(order, spans_ns, strict=True))
                return [(times[number, 0], times[number, 1]) for number in numbers]

    def _check_taken(self, run: CaseCalls, taken: tuple[list[Taken], list[Taken]]) -> None:
        for who, answers in enumerate(taken):
            for each in answers:
                with self._blaming(who):
                    (self._mine, self._rival)[who].check_taken(run, each)

    def _fresh(self) -> SampleName:
        """Return an input that neither side has seen."""
        self._inputs += 1
        return SampleName(input=FIRST_INPUT + self._inputs)

    def _order(self, number: int) -> tuple[int, int]:
        """Return who goes first: it changes from call to call, and for each load from round to round."""
        return (0, 1) if (number + number // self._loads) % 2 else (1, 0)

    def _pair(self, run: CaseCalls, number: int) -> duels.Pair:
        """Return the times of one call of each side, with new inputs at the same place."""
        loads, pair = self._loads, [0.0, 0.0]
        at = self._chance.randrange(self._mine.places_of(run))
        for who in self._order(number):
            load = number % loads
            with self._blaming(who):
                pair[who] = (self._mine, self._rival)[who].turn(run, self._fresh(), load=load, at=at)
        return pair[0], pair[1]

    @contextmanager
    def _blaming(self, who: int) -> Iterator[None]:
        """Raise :class:`Spoilt` for a call of one side that fails."""
        try:
            yield
        except Forged:
            # An earlier call did it, of either side.
            raise
        except Wrong as wrong:
            raise Spoilt(who, "answers are wrong, though they were right before") from wrong
        except (CallFailed, BrokenProtocol) as error:
            raise Spoilt(who, "calls fail, though they did not before") from error

    def _end(self, verdict: DuelVerdict, message: str) -> DuelResult:
        self.result = DuelResult(verdict=verdict, rival_message=(message or NO_TIME)[:2_000])
        return self.result


def compare_with_before(fastest: duels.Pair, pairs: Sequence[duels.Pair], empty_ns: float) -> None:
    """Raise :class:`Spoilt` for a side whose calls take much less time than its fastest call before the duel."""
    for who, before_ns in enumerate(fastest):
        taken_ns = statistics.median(pair[who] for pair in pairs)
        if taken_ns - empty_ns < LEAST_SHARE * (before_ns - empty_ns) - SLACK_NS:
            raise Spoilt(who, "calls take much less time than before")
