"""Two submissions measured in turns on one device and the same inputs, so that drift meets both alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from kernelcup_harness import estimates
from kernelcup_harness.answers import CLAIM, CallFailed
from kernelcup_harness.calls import Caller
from kernelcup_harness.checks import Checks, Place
from kernelcup_harness.frames import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.measure import CLAIM_SLOTS, Wrong, claim_slot
from kernelcup_harness.protocol import DuelResult, SampleName

LEVEL = 0.98
"""Of the interval that decides: equal submissions are called equal in 98 of 100 duels."""
WARM_UP_BLOCKS = len(CLAIM_SLOTS)
"""One at each place."""
FEWEST_BLOCKS, MOST_BLOCKS = 8, 60
MEMORY = frozenset({"memory", "host_memory"})
FIRST_INPUT = 1 << 20
"""Inputs of a duel have numbers of their own."""


class RivalFailed(Exception):
    """The second submission gave a wrong answer, or none."""


class NotHeld(Exception):
    """Both could not be measured beside each other, and nobody can say whose fault that is."""


class Duel:
    """Measures blocks: in each, every case is called in the order first, second, second, first.

    Each block has its inputs at another place.

    Args:
        checks: Makes inputs and checks answers.
        callers: To the submission and to its rival.
        offsets_ns: What an empty kernel reads in each one's process; taken off each time.
        remaining: Seconds that a call may still take.
        at: Is told the number of the place whose turn it is.
    """

    def __init__(
        self,
        checks: Checks,
        callers: tuple[Caller, Caller],
        *,
        offsets_ns: tuple[float, float],
        remaining: Callable[[], float],
        at: Callable[[int], None] = lambda _number: None,
    ) -> None:
        self._checks = checks
        self._callers = callers
        self._offsets_ns = offsets_ns
        self._remaining = remaining
        self._at = at
        self._inputs = FIRST_INPUT
        self._blocks = 0
        self._taken_ns: tuple[list[list[float]], list[list[float]]] = ([], [])
        """What a call of each case takes, by each of the two."""

    def fight(self, places: Sequence[Place], budget_s: float) -> DuelResult:
        """Measure for ``budget_s``, at least some blocks. Raise :class:`RivalFailed` if the rival does.

        What the submission itself fails with is raised as it comes.
        """
        began = time.monotonic()
        cases: list[list[float]] = [[] for _ in places]
        self._taken_ns = ([[] for _ in places], [[] for _ in places])
        for _ in range(WARM_UP_BLOCKS):
            self._block(places)
        while len(cases[0]) < MOST_BLOCKS:
            if len(cases[0]) >= FEWEST_BLOCKS and time.monotonic() - began > budget_s:
                break
            for ratios, ratio in zip(cases, self._block(places), strict=True):
                ratios.append(ratio)
        both = zip(self.medians_ns(0), self.medians_ns(1), strict=True)
        return result(cases, [statistics.fmean(pair) for pair in both])

    def medians_ns(self, who: int) -> list[float]:
        """Return what one of the two claims for a call of each case."""
        return [statistics.median(each) for each in self._taken_ns[who]]

    def _block(self, places: Sequence[Place]) -> list[float]:
        found = []
        self._blocks += 1
        for number, place in enumerate(places):
            self._at(number)
            mine, other = self._pair(place)
            self._taken_ns[0][number].append(mine / 2)
            self._taken_ns[1][number].append(other / 2)
            found.append(mine / other)
        return found

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
            self._callers[who].give(slot, data, form, timeout_s=self._remaining())
            pending = self._callers[who].go(slot, CLAIM, timeout_s=self._remaining())
            answer = self._callers[who].open(pending)
        except (CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            if who == 0:
                raise
            raise self._theirs(error) from error
        fault = self._checks.fault(place, sample, data, answer)
        if fault is not None:
            raise wrong(who, sample, fault)
        return max(1.0, answer.ns - self._offsets_ns[who])

    def _theirs(self, error: Exception) -> Exception:
        """Say what a rival's failure means. Memory and time are what both have together."""
        text = str(error) or type(error).__name__
        if isinstance(error, CallFailed) and error.kind in MEMORY:
            return NotHeld(f"the other ran out of memory: {text}")
        if isinstance(error, ChannelTimeout) and self._remaining() <= 0:
            return NotHeld("there was no time left")
        return RivalFailed(text)

    def _fresh(self) -> SampleName:
        self._inputs += 1
        return SampleName(input=self._inputs)


def wrong(who: int, sample: SampleName, fault: Any) -> Exception:
    """Return the exception for a wrong answer of one of the two."""
    return Wrong(sample, fault) if who == 0 else RivalFailed(f"wrong answer: {fault.text}")


def result(cases: list[list[float]], taken_ns: Sequence[float]) -> DuelResult:
    """Return what blocks of ratios say.

    Args:
        cases: A list of ratios for each case.
        taken_ns: What a call of each case takes, about.
    """
    blocks = list(zip(*cases, strict=True))
    ratios = [math.exp(math.fsum(math.log(each) for each in block) / len(block)) for block in blocks]
    ratio, low, high = estimates.ratio_interval(ratios, LEVEL)
    # The two ran in one process each.
    sigma = math.sqrt(2) * estimates.between_processes(taken_ns, [1 / len(taken_ns)] * len(taken_ns))
    wider = math.exp(statistics.NormalDist().inv_cdf((1 + LEVEL) / 2) * sigma)
    low, high = low / wider, high * wider
    verdict = "faster" if high < 1 else "slower" if low > 1 else "tied"
    return DuelResult(
        ratios=ratios,
        cases=cases,
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
        blocks=len(blocks),
    )
