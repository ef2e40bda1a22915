"""What all clocks share: the order in which the cases of a stage are called, and who doubts their times."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Protocol

from kernelcup_harness.clocks.sampling import TimedCase
from kernelcup_harness.core.judge import Beside
from kernelcup_harness.core.plan import PlannedCase, Stage
from kernelcup_harness.protocol import Finding, Timing

LONGEST_TURN = 4
"""Most calls of one case in a row while other cases wait."""


class Doubt(Protocol):
    """Doubts the times of a job. Nothing that it returns accepts an answer or shortens a time."""

    def look(self) -> tuple[float | None, bool]:
        """Return the device's clock in MHz, and whether it is slowed down."""

    def begin(self) -> None:
        """Note the state of the device before ordinary calls are timed."""

    def findings(self, case: PlannedCase, timing: Timing) -> list[Finding]:
        """Return what speaks against a ranked time."""

    def beside(self, stage: Stage, timed: Sequence[tuple[PlannedCase, Timing]]) -> list[Beside]:
        """Return what is found beside each case when all are timed. Raise ``TaskFault``."""


def turns(cases: Sequence[TimedCase], chance: random.Random) -> Iterator[TimedCase]:
    """Yield the next case to call until all are finished, in random order."""
    waiting = list(cases)
    while waiting:
        case, length = chance.choice(waiting), chance.randint(1, LONGEST_TURN)
        while not case.finished and length != 0:
            yield case
            length -= 1
        waiting = [each for each in waiting if not each.finished]
