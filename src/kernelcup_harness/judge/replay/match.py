"""A duel in the clean room: the rival's calls are captured beside the submission's, and both replayed in one timer.

A rival that cannot be captured, or is wrong, ends only the duel. Within a look both get the same inputs repeatedly,
so the duel's times are compared with those of single calls that were checked.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kernelcup_harness.judge.answers import CallFailed
from kernelcup_harness.judge.checks import Wrong
from kernelcup_harness.judge.duel import NO_TIME, NotHeld, RivalFailed
from kernelcup_harness.judge.replay.clean_room import CleanRoom
from kernelcup_harness.judge.replay.timer_line import TimerFailed
from kernelcup_harness.judge.schedule import CaseRun, Stage
from kernelcup_harness.protocol import DuelResult, DuelVerdict, MeasureRules, SampleName, duels
from kernelcup_harness.window.reasons import NotReplayed
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout

FIRST_LOOKED_AT = 6 << 20
"""Input numbers from here on are reserved for looks."""
LOOK_INPUTS = 1 << 8
LONGEST_S = 6.0
"""Time after which no look begins."""
EMPTIES = 48
LEAST_SHARE = 0.9
"""If a side's calls in a duel take less than this share of a checked call, the duel is void: they may skip work."""
LOADING_S = 2.0
"""If all loads would take longer than this, each side is loaded less often."""


class Match:
    """One duel.

    Args:
        mine: The submission's calls.
        rival: The rival's calls.
        load_rival: Has the rival imported. Raises :class:`RivalFailed` or :class:`NotHeld`.
        chance: From the run's secret.
        error: How often equal submissions may be found different.
    """

    def __init__(
        self,
        mine: CleanRoom,
        rival: CleanRoom,
        load_rival: Callable[[], None],
        chance: random.Random,
        error: float = duels.ERROR,
    ) -> None:
        self._mine = mine
        self._rival = rival
        self._load_rival = load_rival
        self._chance = chance
        self._error = error
        self._runs: list[CaseRun] = []
        self._loads = 1
        """How often each side is loaded; the submission is there already."""
        self.result: DuelResult | None = None
        """The outcome, once it is known."""

    def prepare(self, stage: Stage, runs: Sequence[CaseRun]) -> None:
        """Capture the rival's calls while the contestants are still running.

        The timer gets them only when the submission's own times are taken: until then no code of another user runs
        where these calls and their answers are.
        """
        self._runs = [CaseRun(run.case, stage, MeasureRules(), 0.0, self._chance) for run in runs]
        with self._ending():
            self._load_rival()
            self._rival.lie_as(self._mine, self._runs)
            for run in self._runs:
                self._rival.capture(run)
            self._rival.take_export()

    def _load(self) -> None:
        """Load both sides, and replay the rival's calls once. The submission's may have spoiled its memory."""
        with self._ending():
            self._rival.contestant_is_gone()
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
    def _ending(self) -> Iterator[None]:
        """End the duel with a word if the rival cannot take part."""
        try:
            yield
        except (NotReplayed, NotHeld) as reason:
            text = reason.text if isinstance(reason, NotReplayed) else str(reason)
            self._end(DuelVerdict.NOT_HELD, f"the rival: {text}")
        except (RivalFailed, Wrong, CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            self._end(DuelVerdict.RIVAL_FAILED, f"the rival: {error or type(error).__name__}")

    def fight(self, runs: Sequence[CaseRun]) -> DuelResult:
        """Time pairs of all cases until the two sides can be distinguished.

        Neither side is blamed for what goes wrong: each can write the memory of the other.
        """
        if self.result is None:
            self._load()
        if self.result is not None:
            return self.result
        until = time.monotonic() + LONGEST_S
        cases: list[list[float]] = [[] for _ in runs]

        def more(first: int, count: int) -> list[float]:
            taken = []
            for number, run in enumerate(runs):
                pairs = self._pairs(number, run, first, count, empty_ns)
                taken.append(duels.log_ratios(pairs, empty_ns))
                cases[number] += taken[-1]
            return duels.over_cases(taken)

        try:
            empty_ns = statistics.median(self._mine.empties(EMPTIES))
            found, ratios = duels.decide(
                more,
                error=self._error,
                loads=self._loads,
                go_on=lambda: time.monotonic() < until,
            )
            return duels.outcome(found, ratios, cases)
        except (NotHeld, TimerFailed) as reason:
            return self._end(DuelVerdict.NOT_HELD, str(reason))

    def _pairs(
        self, number: int, run: CaseRun, first: int, count: int, empty_ns: float
    ) -> list[tuple[float, float]]:
        """Return pairs of one case, with new inputs; the answers they leave are checked."""
        other = self._runs[number]
        places = self._mine.places_of(run)
        samples = [SampleName(input=FIRST_LOOKED_AT + first * LOOK_INPUTS + at) for at in range(places)]
        self._mine.lay(run, samples)
        self._rival.lay(other, samples, keep_inputs=True)
        try:
            pairs = self._mine.turns(self._mine.calls_of(run), self._rival.calls_of(other), first, count)
        except (CallFailed, BrokenProtocol) as failure:
            # The failure cannot be attributed to either side.
            raise NotHeld(str(failure)) from failure
        self._check(other, run, samples)
        for side, (room, each) in enumerate(((self._mine, run), (self._rival, other))):
            checked_ns = room.checked_ns(each) - empty_ns
            taken_ns = statistics.median(pair[side] for pair in pairs) - empty_ns
            if taken_ns < LEAST_SHARE * checked_ns:
                who = ("submission", "rival")[side]
                raise NotHeld(f"the {who}'s calls take much less time in turns than when each one is checked")
        return pairs

    def _check(self, other: CaseRun, run: CaseRun, samples: Sequence[SampleName]) -> None:
        """Check the answers of both sides. Raise :class:`NotHeld`."""
        for who, room, each in (("rival", self._rival, other), ("submission", self._mine, run)):
            try:
                room.check_laid(each, samples)
            except (Wrong, CallFailed, BrokenProtocol) as error:
                text = f"the {who}'s calls answer wrongly when they are repeated in turns: {error}"
                raise NotHeld(text) from error

    def _end(self, verdict: DuelVerdict, message: str) -> DuelResult:
        self.result = DuelResult(verdict=verdict, rival_message=(message or NO_TIME)[:2_000])
        return self.result
