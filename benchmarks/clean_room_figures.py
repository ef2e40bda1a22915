"""What stored lines of ``clean_room_jobs.py`` show, line by line of the issue of the clean room."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]
SCATTER = ((20_000.0, 0.005), (5_000.0, 0.01), (0.0, 0.03))
"""From so many nanoseconds on, the coefficient of variation over fresh processes that is the goal."""
FRESH = 20
TEST_S, RANKED_S, BUDGET_SHARE = 1.0, 5.0, 1.5
KINDS, TIMES = 25, 4
TIMED = ("vectoradd", "grayscale", "histogram")
FEWER_LINES = 700


@dataclass(frozen=True, slots=True)
class Shown:
    """A line: passed, failed, or not measured (None)."""

    passed: bool | None
    what: str
    figure: str = ""


def scores(lines: Sequence[Line]) -> list[float]:
    """Return the replayed times of ranked lines, by their raw samples."""
    return [
        case["timing"]["audit"]["score_ns"]
        for line in lines
        for stage in line["report"]["stages"]
        if stage["name"] == "ranked"
        for case in stage["cases"]
        if case["timing"]["audit"] and case["timing"]["audit"]["level"] == "replayed"
    ]


def of(lines: Sequence[Line], **wanted: Any) -> list[Line]:
    """Return the lines with these values."""
    return [line for line in lines if wanted.items() <= line.items()]


def replayed(lines: Sequence[Line]) -> list[Shown]:
    """What is to be replayed was, with right answers."""
    chosen = of(lines, expected="replayed", mode="leaderboard")
    bad = sorted(
        {
            f"{line['name']} ({line['clean_room'].get('reason', line['report']['verdict'])})"
            for line in chosen
            if not line["clean_room"].get("replayed") or line["report"]["verdict"] != "accepted"
        }
    )
    kinds = {line["name"] for line in chosen}
    fewest = min((len(of(chosen, name=name)) for name in kinds), default=0)
    figure = f"{len(kinds)} kinds, at least {fewest} runs each" + (f"; not: {', '.join(bad)}" if bad else "")
    enough = len(kinds) >= KINDS and fewest >= TIMES
    passed = False if bad else True if enough else None
    return [Shown(passed, f"{KINDS} honest kinds x {TIMES} runs are replayed", figure if chosen else "")]


def called(lines: Sequence[Line]) -> list[Shown]:
    """What cannot be replayed was called, and the report says why."""
    chosen = of(lines, expected="called", mode="leaderboard")
    good = [
        line
        for line in chosen
        if line["report"]["verdict"] == "accepted" and line["clean_room"].get("reason")
    ]
    reasons = sorted({f"{line['name']}: {line['clean_room'].get('reason', 'replayed')}" for line in chosen})
    passed = None if not chosen else len(good) == len(chosen)
    return [Shown(passed, "what cannot be replayed is called, with its reason", ", ".join(reasons))]


def attacks(lines: Sequence[Line]) -> list[Shown]:
    """Attacks have no gain: nothing is compared before the corpus runs in the clean room."""
    chosen = scores(of(lines, expected="hostile", mode="leaderboard"))
    figure = f"{len(chosen)} runs of forged timestamps and semaphores, not compared" if chosen else ""
    return [Shown(None, "no attack of the corpus gains more than 3 %", figure)]


def scatter(lines: Sequence[Line]) -> list[Shown]:
    """Times of one kernel differ little between fresh processes."""
    found = []
    for name in sorted({line["name"] for line in of(lines, expected="replayed", mode="leaderboard")}):
        times = scores(of(lines, name=name, mode="leaderboard"))
        if len(times) < FRESH:
            continue
        middle = statistics.fmean(times)
        goal = next(share for least, share in SCATTER if middle >= least)
        spread = statistics.stdev(times) / middle
        figure = f"{spread:.2%} of {middle / 1e3:.2f} us, {len(times)} processes"
        found.append(Shown(spread <= goal, f"scatter of {name} is at most {goal:.1%}", figure))
    return found or [Shown(None, f"scatter over {FRESH} fresh processes")]


def seconds(lines: Sequence[Line]) -> list[Shown]:
    """Warm tests and ranked jobs are quick."""
    found = []
    for mode, limit in (("test", TEST_S), ("leaderboard", RANKED_S)):
        for name in TIMED:
            taken = [line["seconds"] for line in of(lines, name=name, mode=mode, start="warm")]
            figure = f"{statistics.median(taken):.2f} s of {len(taken)}" if taken else ""
            passed = statistics.median(taken) <= limit if taken else None
            found.append(Shown(passed, f"warm {mode} of {name} takes at most {limit:g} s", figure))
    large = of(lines, name="halves", mode="leaderboard", start="warm")
    stages = [
        stage["duration_s"]
        for line in large
        for stage in line["report"]["stages"]
        if stage["name"] == "ranked"
    ]
    figure = f"{statistics.median(stages):.2f} s of {len(stages)}" if stages else ""
    passed = statistics.median(stages) <= BUDGET_SHARE * 6.0 if stages else None
    found.append(Shown(passed, "a ranked stage of 512 MiB halves takes at most 1.5 times its budget", figure))
    return found


def not_yet() -> list[Shown]:
    """Lines that nothing measures so far."""
    return [
        Shown(None, what)
        for what in (
            "bias against an ordinary process and the profiler is at most max(1 %, 0.2 us)",
            "the wall clock's figure of ten kernels above the replayed time",
            "a true 1 % at 20 us is ordered right in 38 of 40 duels, equal ones tie in 39 of 40",
            "three finals of six that are 1 % apart have no pair in the wrong order",
            "14 jobs a minute on one GPU, measuring 70 % of the time",
        )
    ]


def size(before: int, after: int) -> Shown:
    """The harness has become smaller."""
    figure = f"{before} lines of Python and CUDA at 7def2fc, {after} now" if before else ""
    passed = before - after >= FEWER_LINES if before else None
    return Shown(passed, f"{FEWER_LINES} lines fewer in the harness", figure)
