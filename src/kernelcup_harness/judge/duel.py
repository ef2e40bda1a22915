"""Two submissions measured in turns on one device and the same inputs, so that drift affects both equally."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelcup_harness.judge.answers import CallFailed
from kernelcup_harness.judge.caller import Caller
from kernelcup_harness.judge.checks import Checks, Place, Wrong
from kernelcup_harness.judge.schedule import PLACES
from kernelcup_harness.protocol import DuelResult, DuelVerdict, SampleName, estimates
from kernelcup_harness.protocol.duels import ERROR
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import FailureKind

WARM_UP_BLOCKS = PLACES
"""One block at each place."""
FEWEST_BLOCKS, MOST_BLOCKS = 8, 60
NO_TIME = "there was no time left"
MEMORY = frozenset({FailureKind.MEMORY, FailureKind.HOST_MEMORY})
FIRST_INPUT = 1 << 20
"""Input numbers from here on are reserved for duels."""


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

    @property
    def ratios(self) -> list[float]:
        """The submission's time over the rival's, for each case."""
        return [mine / other for mine, other in zip(*self.taken_ns, strict=True)]


class Duel:
    """Measures blocks by the judge's wall clock: in each block every case is called in the order A B B A.

    Args:
        checks: Makes inputs and checks answers.
        callers: To the submission and to its rival.
        remaining: Returns the seconds that a call may still take.
        at: Called before each call with the number of its place and its input.
    """

    def __init__(
        self,
        checks: Checks,
        callers: tuple[Caller, Caller],
        *,
        remaining: Callable[[], float],
        at: Callable[[int, SampleName], None] = lambda _number, _sample: None,
    ) -> None:
        self._checks = checks
        self._callers = callers
        self._remaining = remaining
        self._at = at
        self._inputs = FIRST_INPUT

    def fight(self, places: Sequence[Place], budget_s: float) -> list[Block]:
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
        return blocks

    def _block(self, places: Sequence[Place]) -> Block:
        taken: tuple[list[float], list[float]] = ([], [])
        for number, place in enumerate(places):
            for each, both_ns in zip(taken, self._pair(number, place), strict=True):
                each.append(both_ns / 2)
        return Block(taken_ns=taken)

    def _pair(self, number: int, place: Place) -> tuple[float, float]:
        """Return the time of two calls of the submission, and of two of its rival."""
        samples = [self._fresh(), self._fresh()]
        order = ((0, 0), (1, 0), (1, 1), (0, 1))
        taken = [0.0, 0.0]
        for who, turn in order:
            self._at(number, samples[turn])
            taken[who] += self._call(who, place, samples[turn])
        return taken[0], taken[1]

    def _call(self, who: int, place: Place, sample: SampleName) -> float:
        data, form = self._checks.make_input(place, sample), self._checks.form(place)
        try:
            answer = self._callers[who].call(data, form, timeout_s=self._remaining())
        except (CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            meant = self._meant(who, error)
            if meant is error:
                raise
            raise meant from error
        fault = self._checks.fault(place, sample, data, answer)
        if fault is not None:
            raise wrong(who, sample, fault)
        return max(1.0, answer.ns)

    def _meant(self, who: int, error: Exception) -> Exception:
        """Return the exception that a failure means. Both processes share memory and time."""
        text = str(error) or type(error).__name__
        if isinstance(error, ChannelTimeout) and self._remaining() <= 0:
            return NoTime(NO_TIME)
        if who == 0:
            return error
        if isinstance(error, CallFailed) and error.kind in MEMORY:
            return NotHeld(f"the rival ran out of memory: {text}")
        return RivalFailed(text)

    def _fresh(self) -> SampleName:
        self._inputs += 1
        return SampleName(input=self._inputs)


def wrong(who: int, sample: SampleName, fault: Any) -> Exception:
    """Return the exception for a wrong answer of one of the two."""
    return Wrong(sample, fault) if who == 0 else RivalFailed(f"wrong answer: {fault.text}")


def result(blocks: Sequence[Block], error: float = ERROR) -> DuelResult:
    """Return the result from the blocks of a duel; ``error`` is how often equal ones may be found different."""
    logs = [statistics.fmean(map(math.log, block.ratios)) for block in blocks]
    taken_ns = [
        statistics.fmean(both)
        for who in (0, 1)
        for both in zip(*(block.taken_ns[who] for block in blocks), strict=True)
    ]
    # Each side ran in one process.
    sigma = math.sqrt(2) * estimates.between_processes(taken_ns, [1 / len(taken_ns)] * len(taken_ns))
    middle = estimates.robust(logs)
    half = math.hypot(
        estimates.half_width(logs, 1 - error), statistics.NormalDist().inv_cdf(1 - error / 2) * sigma
    )
    # A single block has no interval.
    low, high = (math.exp(middle - half), math.exp(middle + half)) if half < 100 else (0.0, math.inf)
    verdict = DuelVerdict.TIED
    if not low <= 1 <= high:
        verdict = DuelVerdict.FASTER if high < 1 else DuelVerdict.SLOWER
    return DuelResult(
        ratios=[math.exp(log) for log in logs],
        cases=[list(ratios) for ratios in zip(*(block.ratios for block in blocks), strict=True)],
        pairs=[len(blocks)],
        ratio=math.exp(middle),
        low=low,
        high=high,
        verdict=verdict,
        blocks=len(blocks),
    )
