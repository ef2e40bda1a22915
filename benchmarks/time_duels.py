"""Duels: a true difference of 3 % at 20 us, and kernels that are the same.

    python benchmarks/time_duels.py FOLDER [--backend cuda] [--repeats 100] [--each 2]

Each duel is a new one of the harness with the seconds that a job gives it. Its contestants, two of each, stay warm for
some duels: so many of each kind. What makes one process slower than another is the same in all of them, so they
are no independent samples, and lines say which ``tree`` of processes they are from. The kernel waits for a number of
cycles and then adds two matrices. Which of both is the slower takes turns. How far they truly differ is measured
by all blocks of all duels together.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time

import time_tasks as tasks
from time_common import Log, facts, job, options
from time_lab import Lab, lab

from kernelcup_harness.bench import PAIRS
from kernelcup_harness.protocol import Backend

SPIN_ADD = """\
import torch


def custom_kernel(data):
    a, b = data
    torch.cuda._sleep(CYCLES)
    return a + b
"""
LOOP_ADD = """\
import torch


def custom_kernel(data):
    a, b = data
    for _ in range(CYCLES):
        out = a + b
    return out
"""
SIZE, SIZE_ON_HOST = 512, 64
KINDS = ("differ", "same")
WANTED_NS, DIFFERENCE = 20_000.0, 0.03
BUDGET_S = 6.0
WARM_S = 0.5


def main() -> int:
    """Fight what is missing."""
    chosen = options(__doc__, repeats=100, each=2)
    log = Log(chosen, "duels")
    gpu = log.backend is Backend.CUDA
    known = facts(log.backend)
    pair = cycles((known.empty_kernel_ns if known is not None else None) or 0.0) if gpu else (100, 103)
    size = SIZE if gpu else SIZE_ON_HOST
    while not log.is_over and any(log.count(kind=kind) < chosen.repeats for kind in KINDS):
        with lab(log.backend, *(role for each in PAIRS for role in each)) as here:
            tree = os.urandom(6).hex()
            for kind in KINDS:
                wanted = min(chosen.repeats, log.count(kind=kind) + chosen.each)
                for number in log.missing(wanted, kind=kind):
                    mine, other = (pair if number % 2 else pair[::-1]) if kind == "differ" else (pair[0],) * 2
                    result = fight(here, log.backend, size, (mine, other))
                    log.add(kind=kind, tree=tree, cycles=[mine, other], truth=truth(mine, other), duel=result)
                    if number % 10 == 9:
                        log.say(f"{kind} {number + 1}: {result['verdict']} {result['ratio']:.4f}")
    return 0


def truth(mine: int, other: int) -> str:
    """Return what is right to say of the first."""
    return "tied" if mine == other else "faster" if mine < other else "slower"


def fight(here: Lab, backend: Backend, size: int, pair: tuple[int, int]) -> dict[str, object]:
    """Return the result of one duel."""
    text = SPIN_ADD if backend is Backend.CUDA else LOOP_ADD
    first, second = (text.replace("CYCLES", str(each)) for each in pair)
    spec = job("duel", tasks.ADD, first, [size], backend=backend, rival=second, rival_name="rival.py")
    return here.duel(dataclasses.replace(spec, submission_name="mine.py"), BUDGET_S)


def cycles(empty_kernel_ns: float) -> tuple[int, int]:
    """Return the cycles for a call of 20 us, and for one that takes 3 % longer; both without the clock's offset."""
    import torch

    from kernelcup_harness.timing import CudaClock

    clock = CudaClock()
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in range(2))

    def taken_ns(count: int) -> float:
        def call() -> None:
            torch.cuda._sleep(count)
            a.add(b)

        return sorted(clock.time(call)[1] for _ in range(41))[20]

    until = time.monotonic() + WARM_S
    while time.monotonic() < until:
        taken_ns(100_000)
    empty = sorted(clock.time(lambda: torch.cuda._sleep(0))[1] for _ in range(41))[20]
    short, long = taken_ns(10_000), taken_ns(110_000)
    a_cycle = (long - short) / 100_000
    first = round(10_000 + (WANTED_NS - (short - empty + empty_kernel_ns)) / a_cycle)
    return first, first + round(DIFFERENCE * WANTED_NS / a_cycle)


if __name__ == "__main__":
    sys.exit(main())
