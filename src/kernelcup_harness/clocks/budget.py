"""The time of a timed case: how much it has, what its calls, inputs and checks took of it, and what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelcup_harness.protocol import FEWEST_SAMPLES, WALL_SHARE, MeasureRules

CALLS_OF_BUDGET = FEWEST_SAMPLES + 8
"""Calls that have to fit: the samples, and those that warm up and check the clock."""
OVERTIME = 1.5
"""A case that lacks samples goes on to this multiple of its budget."""
AFTERWARDS = 1.2
"""What follows the samples of a case ends at this multiple of its budget: captures and references need the rest."""
WARM_UP_S = 0.15
"""Time limit of the warm-ups of one case that wait for its time to settle."""
WARM_UP_SHARE = 1 / 16
"""Largest share of a case's budget for calls that are not timed: a case of slow calls has hardly any."""


def budgets_s(
    rules: MeasureRules, cases: int, reference_s: Sequence[float] = (), limit_s: float = math.inf
) -> list[float]:
    """Return the seconds of each case of a timed stage: its share, or those of 24 calls of a slow reference.

    Args:
        rules: The rules of the job.
        cases: Their number.
        reference_s: Seconds of a call of the reference with input and check, case by case; may be shorter.
        limit_s: The time limit of the stage.
    """
    share = min(rules.case_budget_s, rules.stage_budget_s / max(1, cases))
    needed = [CALLS_OF_BUDGET * each for each in reference_s[:cases]]
    shares = [max(share, each) for each in needed] + [share] * (cases - len(needed))
    shrink = min(1.0, WALL_SHARE * limit_s / sum(shares)) if shares else 1.0
    return [shrink * each for each in shares]


class Budget:
    """The seconds of one case, and what was spent."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._spent_s = self._called_s = self._beside_s = 0.0
        self._calls = 0

    def spend(self, called_s: float, spent_s: float, *, may_compile: bool) -> None:
        """Count a call with its input and check; one that may compile takes as long as it likes."""
        self._spent_s += spent_s - (called_s if may_compile else 0.0)
        self._called_s += 0.0 if may_compile else called_s
        self._calls += 1

    def watch(self, spent_s: float) -> None:
        """Count calls that the witness measured, with their inputs and checks."""
        self._spent_s += spent_s

    def charge(self, spent_s: float) -> None:
        """Count seconds that were spent for the case beside its calls."""
        self._beside_s += spent_s

    @property
    def is_over(self) -> bool:
        """Whether the case has used up its time: then only the required calls are still made."""
        return self._spent_s >= self.seconds + WARM_UP_S

    @property
    def is_slow(self) -> bool:
        """Whether further warm-ups would cost samples."""
        return self._spent_s + self._beside_s >= max(WARM_UP_S, WARM_UP_SHARE * self.seconds)

    @property
    def left_s(self) -> float:
        """Seconds that are left for what follows the samples."""
        return max(0.0, AFTERWARDS * self.seconds - self._spent_s - self._beside_s)

    @property
    def call_s(self) -> float:
        """Mean seconds of a call with its input and its check."""
        return self._spent_s / max(1, self._calls)

    def refusal(self, case: int, samples: int, discarded: int) -> str:
        """Return why a ranked case has no score, empty if it may have one."""
        if samples >= FEWEST_SAMPLES or self._spent_s < OVERTIME * self.seconds + WARM_UP_S:
            return ""
        slowed = f"{discarded} were taken while the device was slowed down; " if discarded else ""
        what = "Make every call faster, not only those that are timed."
        if self._called_s < self._spent_s / 2:
            what = "Ask the task's author for smaller cases or a quicker generator."
        return (
            f"case {case} has {samples} of the {FEWEST_SAMPLES} samples that a ranked time needs: {slowed}its budget "
            f"is {self.seconds:.1f} s, and {self._calls} calls with their inputs and checks took "
            f"{self._spent_s:.1f} s, {self._called_s:.1f} s of it the calls alone. {what}"
        )
