"""Two submissions measured in turns on one device and the same inputs, so that drift affects both equally."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelcup_harness import estimates
from kernelcup_harness.answers import CLAIM, Answer, CallFailed, Form
from kernelcup_harness.calls import Caller
from kernelcup_harness.checks import Checks, Place
from kernelcup_harness.frames import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.measure import CLAIM_SLOTS, Wrong, claim_slot
from kernelcup_harness.protocol import DuelResult, SampleName
from kernelcup_harness.replay.duels import ERROR

WARM_UP_BLOCKS = len(CLAIM_SLOTS)
"""One block at each place."""
FEWEST_BLOCKS, MOST_BLOCKS = 8, 60
NO_TIME = "there was no time left"
MEMORY = frozenset({"memory", "host_memory"})
FIRST_INPUT = 1 << 20
"""Input numbers from here on are reserved for duels."""
NEXT_INPUTS = 1 << 16
"""Each pair of processes has its own input numbers: one must not know the inputs of the other."""


class RivalFailed(Exception):
    """The rival gave a wrong answer, or none."""


class NotHeld(Exception):
    """The two could not be measured beside each other, and neither side can be blamed."""


class NoTime(NotHeld):
    """The time of the stage was over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Two calls of the submission and two of its rival, on each case."""

    taken_ns: tuple[list[float], list[float]]
    """Time of a call for each case, for the submission and for the rival."""
    late: bool
    """Whether the device had to wait for the host in one of the calls."""

    @property
    def ratios(self) -> list[float]:
        """The submission's time over the rival's, for each case."""
        return [mine / other for mine, other in zip(*self.taken_ns, strict=True)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fought:
    """The measurements of one pair of processes."""

    blocks: list[Block] = field(default_factory=list)

    def claims_ns(self, who: int) -> list[float]:
        """Return the time that one side claims for a call of each case.

        Uses the same blocks and the same mean as the ratio, so being honest elsewhere does not help.
        """
        each = zip(*(block.taken_ns[who] for block in self.counting), strict=True)
        return [math.exp(estimates.robust([math.log(ns) for ns in taken])) for taken in each]

    @property
    def counting(self) -> list[Block]:
        """The blocks that were queued in time, or all."""
        return [self.blocks[place] for place in estimates.prompt([block.late for block in self.blocks])]


class Duel:
    """Measures blocks with one pair of processes: in each block every case is called in the order A B B A.

    Each block has its inputs at another place.

    Args:
        checks: Makes inputs and checks answers.
        callers: To the submission and to its rival.
        offsets_ns: Time of an empty kernel in each process; subtracted from each time.
        remaining: Returns the seconds that a call may still take.
        number: Number of this pair of processes.
        names: Names of the two in messages.
        at: Called with the number of the current place.
        by_wall: Whether to use the judge's wall clock instead of claims.
    """

    def __init__(
        self,
        checks: Checks,
        callers: tuple[Caller, Caller],
        *,
        offsets_ns: tuple[float, float],
        remaining: Callable[[], float],
        number: int = 0,
        names: tuple[str, str] = ("submission", "rival"),
        at: Callable[[int], None] = lambda _number: None,
        by_wall: bool = False,
    ) -> None:
        self._checks = checks
        self._callers = callers
        self._offsets_ns = offsets_ns
        self._remaining = remaining
        self._at = at
        self._by_wall = by_wall
        self._inputs = FIRST_INPUT + number * NEXT_INPUTS
        self._is_first = number == 0
        self._names = names
        self._blocks = 0
        self._was_late = False

    def fight(self, places: Sequence[Place], budget_s: float) -> Fought:
        """Measure for ``budget_s``, at least some blocks. Raise :class:`RivalFailed` if the rival fails.

        Failures of the submission itself are raised unchanged.
        """
        began = time.monotonic()
        blocks: list[Block] = []
        for _ in range(WARM_UP_BLOCKS):
            self._block(places)
        while len(blocks) < MOST_BLOCKS:
            if len(blocks) >= FEWEST_BLOCKS and time.monotonic() - began > budget_s:
                break
            blocks.append(self._block(places))
        return Fought(blocks=blocks)

    def _block(self, places: Sequence[Place]) -> Block:
        taken: tuple[list[float], list[float]] = ([], [])
        self._blocks += 1
        self._was_late = False
        for number, place in enumerate(places):
            self._at(number)
            for each, both_ns in zip(taken, self._pair(place), strict=True):
                each.append(both_ns / 2)
        return Block(taken_ns=taken, late=self._was_late)

    def _pair(self, place: Place) -> tuple[float, float]:
        """Return the time of two calls of the submission, and of two of its rival."""
        samples = [self._fresh(), self._fresh()]
        order = ((0, 0), (1, 0), (1, 1), (0, 1))
        taken = [0.0, 0.0]
        for who, number in order:
            taken[who] += self._claim(who, place, samples[number])
        return taken[0], taken[1]

    def _claim(self, who: int, place: Place, sample: SampleName) -> float:
        data, form = self._checks.make_input(place, sample), self._checks.form(place)
        try:
            slot = claim_slot(self._blocks, data)
            answer = self._answer(self._callers[who], slot, data, form)
        except (CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            meant = self._meant(who, error)
            if meant is error:
                raise
            raise meant from error
        fault = self._checks.fault(place, sample, data, answer)
        if fault is not None:
            raise wrong(who, sample, fault)
        self._was_late |= answer.late
        return max(1.0, answer.ns - self._offsets_ns[who])

    def _answer(self, caller: Caller, slot: int, data: Any, form: Form | None) -> Answer:
        if self._by_wall:
            return caller.open(caller.timed(slot, data, form, timeout_s=self._remaining()))
        caller.give(slot, data, form, timeout_s=self._remaining())
        return caller.open(caller.go(slot, CLAIM, timeout_s=self._remaining()))

    def _meant(self, who: int, error: Exception) -> Exception:
        """Return the exception that a failure means. All processes share memory and time.

        If the submission fails only in its second process, neither side is to blame.
        """
        text = str(error) or type(error).__name__
        if isinstance(error, ChannelTimeout) and self._remaining() <= 0:
            return NoTime(NO_TIME)
        if who == 0 and self._is_first:
            return error
        if isinstance(error, CallFailed) and error.kind in MEMORY:
            return NotHeld(f"the {self._names[who]} ran out of memory: {text}")
        return NotHeld(f"the {self._names[who]}: {text}") if who == 0 else RivalFailed(text)

    def _fresh(self) -> SampleName:
        self._inputs += 1
        return SampleName(input=self._inputs)


def wrong(who: int, sample: SampleName, fault: Any) -> Exception:
    """Return the exception for a wrong answer of one of the two."""
    return Wrong(sample, fault) if who == 0 else RivalFailed(f"wrong answer: {fault.text}")


def result(fights: Sequence[Fought], error: float = ERROR) -> DuelResult:
    """Return the result from the blocks of all pairs of processes.

    A kernel's time differs a little between processes, however often it is called. So each pair has the same weight,
    and the interval includes the variation between processes.
    """
    each = [[block.ratios for block in fight.counting] for fight in fights]
    taken_ns = [
        statistics.fmean(both)
        for both in zip(*(fight.claims_ns(who) for fight in fights for who in (0, 1)), strict=True)
    ]
    return of_pairs(each, taken_ns, error)


def of_pairs(
    pairs: Sequence[Sequence[Sequence[float]]], taken_ns: Sequence[float], error: float = ERROR
) -> DuelResult:
    """Return the result of a duel from its ratios.

    Args:
        pairs: For each pair of processes its blocks, each with a ratio for every case.
        taken_ns: Approximate time of a call of each case.
        error: How often equal submissions may be found different.
    """
    blocks = [block for pair in pairs for block in pair]
    logs = [[math.fsum(map(math.log, block)) / len(block) for block in pair] for pair in pairs]
    middle = statistics.fmean(map(estimates.robust, logs))
    within = math.hypot(*(estimates.half_width(each, 1 - error) for each in logs)) / len(logs)
    # Each side ran in one process in every pair.
    sigma = math.sqrt(2 / len(logs)) * estimates.between_processes(
        taken_ns, [1 / len(taken_ns)] * len(taken_ns)
    )
    half = math.hypot(within, statistics.NormalDist().inv_cdf(1 - error / 2) * sigma)
    # A single block has no interval.
    low, high = (math.exp(middle - half), math.exp(middle + half)) if half < 100 else (0.0, math.inf)
    verdict = "faster" if high < 1 else "slower" if low > 1 else "tied"
    return DuelResult(
        ratios=[math.exp(log) for pair in logs for log in pair],
        cases=[list(ratios) for ratios in zip(*blocks, strict=True)],
        pairs=[len(pair) for pair in pairs],
        ratio=math.exp(middle),
        low=low,
        high=high,
        verdict=verdict,
        blocks=len(blocks),
    )
