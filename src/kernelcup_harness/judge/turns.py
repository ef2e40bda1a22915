"""The order in which the cases of a stage are called."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kernelcup_harness.judge.schedule import CaseRun

LONGEST_TURN = 4
"""Most calls of one case in a row while other cases wait."""


def turns(runs: Sequence[CaseRun], *, shuffled: bool, chance: random.Random) -> Iterator[CaseRun]:
    """Yield the next case to call until all are finished: case after case, or in random order."""
    waiting = list(runs)
    while waiting:
        run = chance.choice(waiting) if shuffled else waiting[0]
        length = chance.randint(1, LONGEST_TURN) if shuffled else None
        while not run.finished and length != 0:
            yield run
            length = None if length is None else length - 1
        waiting = [each for each in waiting if not each.finished]
