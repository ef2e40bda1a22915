"""What the stored lines of ``clean_room_*.py`` show, line by line of the issue of the clean room."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]
SCATTER = ((20_000.0, 0.005), (5_000.0, 0.01), (0.0, 0.03))
"""From so many nanoseconds on, the coefficient of variation over fresh processes that is the goal."""
FRESH, FEW = 20, 5
TEST_S, RANKED_S, BUDGET_SHARE = 1.0, 5.0, 1.5
KINDS, TIMES = 25, 4
TIMED = ("vectoradd", "grayscale", "histogram")
FEWER_LINES = 700
LARGEST_GAIN, SHORT_NS = 0.03, 20_000.0
"""The most that an attack may gain on cases that take its twin this long; gains on shorter ones are shown."""
RUNS = 3
"""Runs of each attack."""
BIAS_SHARE, BIAS_NS = 0.01, 200.0
FORKS = ("fork",)
"""Kinds whose bias is shown and not judged."""
WALLS = 10
DUELS, RIGHT, TIED, LONGEST_S = 40, 38, 39, 5.0
JOBS, JOBS_A_MINUTE, MEASURING = 30, 14.0, 0.7


@dataclass(frozen=True, slots=True)
class Shown:
    """A line: passed, failed, or not measured (None); ``seen`` is shown as measured, without a goal."""

    passed: bool | None
    what: str
    figure: str = ""
    seen: bool = False


def scores(lines: Sequence[Line]) -> list[float]:
    """Return the replayed times of ranked lines, by their raw samples."""
    return [
        case["timing"]["audit"]["score_ns"]
        for line in lines
        for stage in line["report"]["stages"]
        if stage["name"] == "ranked"
        for case in stage["cases"]
        if case["timing"]["audit"] and case["timing"]["audit"]["level"] in ("witnessed", "replayed")
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
    """Attacks have no gain: each case's time as a share of the honest twin's median on the same inputs."""
    chosen = of(lines, role="attack")
    if not chosen:
        return [
            Shown(None, what) for what in ("no attack gains more than 3 % on 20 us and more", "attacks act")
        ]
    names = sorted({line["name"] for line in chosen})
    fewest = min(len(of(chosen, name=name)) for name in names)
    long = gains(chosen, lambda ns: ns >= SHORT_NS)
    short = gains(chosen, lambda ns: ns < SHORT_NS)
    much = {name: gain for name, gain in long.items() if gain > LARGEST_GAIN}
    ranked = sum(bool(line["ratios"]) for line in chosen)
    runs = f"{len(names)} attacks, at least {fewest} runs each, {ranked} of {len(chosen)} ranked"
    figure = f"{runs}; {gained(long, much)}"
    passed = False if much else True if fewest >= RUNS else None
    acting = sorted({line["name"] for line in chosen if line["acted"]})
    idle = ", ".join(name for name in names if name not in acting)
    lost = [line["name"] for line in chosen if line.get("duel") in ("faster", "rival_failed")]
    met = sum(bool(line.get("duel")) for line in chosen)
    return [
        Shown(passed, "no attack gains more than 3 % on 20 us and more", figure),
        Shown(
            None,
            "gains on shorter calls",
            gained(short, {n: g for n, g in short.items() if g > 0}),
            seen=True,
        ),
        Shown(
            None, "attacks that say that they acted", f"{len(acting)} of {len(names)}; not: {idle}", seen=True
        ),
        Shown(
            not lost if met else None,
            "no attack wins a duel with its twin",
            f"{met} duels; won: {', '.join(lost) or 'none'}" if met else "",
        ),
    ]


def gains(lines: Sequence[Line], counts: Callable[[float], bool]) -> dict[str, float]:
    """Return the largest gain of each attack, as a share, in the median of its runs over cases that count."""
    cases: dict[tuple[str, int], list[float]] = {}
    for line in lines:
        for at, (ratio, ns) in enumerate(zip(line["ratios"], line.get("honest_ns", []), strict=False)):
            if counts(ns):
                cases.setdefault((line["name"], at), []).append(ratio)
    found: dict[str, float] = {}
    for (name, _), ratios in cases.items():
        found[name] = max(found.get(name, -math.inf), 1.0 - statistics.median(ratios))
    return found


def gained(found: dict[str, float], shown: dict[str, float]) -> str:
    """Return the largest gain, and the attacks to be named with theirs."""
    if not found:
        return "no ranked case"
    named = ", ".join(
        f"{name} {gain:.1%}" for name, gain in sorted(shown.items(), key=lambda each: -each[1])[:8]
    )
    return f"largest gain {max(found.values()):.1%}" + (f": {named}" if named else "")


def bias(lines: Sequence[Line], ordinary: Sequence[Line]) -> list[Shown]:
    """Compare replayed times with those of an ordinary process: the quicker of calls as made and of their graph."""
    what = "bias against an ordinary process is at most max(1 %, 0.2 us)"
    off: dict[str, tuple[float, float]] = {}
    seen: list[float] = []
    for name in sorted({line["name"] for line in ordinary}):
        times = scores(of(lines, name=name, mode="leaderboard"))
        plain = [each for each in map(plain_ns, of(ordinary, name=name)) if each is not None]
        if not times or not plain:
            continue
        middle = statistics.median(plain)
        off[name] = statistics.median(times) - middle, middle
        profiled = [line["profiler_ns"] for line in of(ordinary, name=name) if line.get("profiler_ns")]
        if profiled:
            seen.append(statistics.median(times) - statistics.median(map(statistics.median, profiled)))
    if not off:
        return [Shown(None, what)]
    bad = {
        name: pair
        for name, pair in off.items()
        if abs(pair[0]) > max(BIAS_SHARE * pair[1], BIAS_NS) and name not in FORKS
    }
    forks = {name: pair for name, pair in off.items() if name in FORKS}
    middle = statistics.median(delta / ns for delta, ns in off.values())
    return [
        Shown(
            not bad, what, f"{len(off)} kinds, median {middle:+.2%}" + (f"; not: {apart(bad)}" if bad else "")
        ),
        Shown(None, "bias of forks", apart(forks) or "not measured", seen=True),
        Shown(
            None,
            "replayed time less the profiler's",
            f"median {statistics.median(seen) / 1e3:+.2f} us of {len(seen)} kinds"
            if seen
            else "not measured",
            seen=True,
        ),
    ]


def plain_ns(line: Line) -> float | None:
    """Return the time of a call in an ordinary process without that of an empty kernel, None if it was not taken."""
    taken = [line[key] for key in ("events_ns", "graph_ns") if line.get(key)]
    return min(map(statistics.median, taken)) - statistics.median(line["empty_ns"]) if taken else None


def apart(found: dict[str, tuple[float, float]]) -> str:
    """Return differences in words: microseconds and shares."""
    return ", ".join(
        f"{name} {delta / 1e3:+.2f} us ({delta / ns:+.1%})" for name, (delta, ns) in found.items()
    )


def walls(lines: Sequence[Line]) -> list[Shown]:
    """Show by how much the wall clock exceeds the replayed time, and the overhead that is measured beside it."""
    what = f"the wall clock of {WALLS} kernels is above their replayed time"
    above: dict[str, float] = {}
    overheads: list[float] = []
    for name in sorted({line["name"] for line in lines if line["name"].startswith("wall_")}):
        timed = [
            case for line in of(lines, name=name) for case in ranked_cases(line) if case["timing"]["audit"]
        ]
        replays = scores(of(lines, name=name.removeprefix("wall_"), mode="leaderboard"))
        if timed and replays:
            taken = statistics.median(case["timing"]["audit"]["score_ns"] for case in timed)
            above[name.removeprefix("wall_")] = taken - statistics.median(replays)
            overheads += [each for case in timed if (each := case["timing"]["overhead_ns"]) is not None]
    if not above:
        return [Shown(None, what)]
    named = ", ".join(f"{name} {ns / 1e3:+.0f} us" for name, ns in above.items())
    middle = f"; median overhead {statistics.median(overheads) / 1e3:.0f} us" if overheads else ""
    passed = False if min(above.values()) <= 0 else True if len(above) >= WALLS else None
    return [Shown(passed, what, named + middle)]


def ranked_cases(line: Line) -> list[dict[str, Any]]:
    """Return the timed cases of a line's ranked stage."""
    return [
        case for stage in line["report"]["stages"] if stage["name"] == "ranked" for case in stage["cases"]
    ]


def scatter(lines: Sequence[Line]) -> list[Shown]:
    """Times of one kernel differ little between fresh processes."""
    found = []
    for name in sorted({line["name"] for line in of(lines, expected="replayed", mode="leaderboard")}):
        times = scores(of(lines, name=name, mode="leaderboard"))
        if len(times) < FEW:
            continue
        middle = statistics.fmean(times)
        goal = next(share for least, share in SCATTER if middle >= least)
        spread = statistics.stdev(times) / middle
        figure = f"{spread:.2%} of {middle / 1e3:.2f} us, {len(times)} processes"
        passed = spread <= goal if len(times) >= FRESH else None
        found.append(Shown(passed, f"scatter of {name} over {FRESH} processes is at most {goal:.1%}", figure))
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


def duels(lines: Sequence[Line]) -> list[Shown]:
    """Duels find a true 1 % at 20 us, and nothing between equal kernels."""
    differ = [line for line in of(lines, kind="differ") if "failed" not in line]
    same = [line for line in of(lines, kind="same") if "failed" not in line]
    right = sum(line["winner"] == int(line["pair"][0] > line["pair"][1]) for line in differ)
    tied = sum(line["winner"] is None for line in same)
    longest = max((line["seconds"] for line in (*differ, *same)), default=0.0)
    slower = [abs(math.expm1(line["mean"])) for line in differ]
    truth = f", {statistics.fmean(slower):.2%} apart by all together" if slower else ""
    return [
        Shown(
            right >= RIGHT and longest <= LONGEST_S if len(differ) >= DUELS else None,
            f"a true 1 % at 20 us is ordered right in {RIGHT} of {DUELS} duels of at most {LONGEST_S:g} s",
            f"{right} of {len(differ)}{truth}, at most {longest:.1f} s" if differ else "",
        ),
        Shown(
            tied >= TIED if len(same) >= DUELS else None,
            f"equal kernels tie in {TIED} of {DUELS} duels",
            f"{tied} of {len(same)}" if same else "",
        ),
    ]


def queue(lines: Sequence[Line]) -> list[Shown]:
    """A queue of mixed jobs."""
    what = f"{JOBS_A_MINUTE:g} jobs a minute on one GPU, measuring {MEASURING:.0%} of the time"
    found = of(lines, kind="queue")
    if not found:
        return [Shown(None, what)]
    line = found[-1]
    measuring = sum(s for run in line["runs"] for name, s in run["phases"].items() if is_measuring(name))
    rate, share = 60 * line["jobs"] / line["wall_s"], measuring / line["wall_s"]
    refused = [run["job"] for run in line["runs"] if run["verdict"] != "accepted"]
    waited = sum(run["waited_s"] for run in line["runs"])
    figure = (
        f"{line['jobs']} jobs, {rate:.1f} a minute, measuring {share:.0%}, "
        f"waiting for runners {waited:.1f} of {line['wall_s']:.0f} s"
    )
    good = rate >= JOBS_A_MINUTE and share >= MEASURING and not refused
    return [
        Shown(
            good if line["jobs"] >= JOBS else None, what, figure + (f"; refused {refused}" if refused else "")
        )
    ]


def is_measuring(phase: str) -> bool:
    """Return whether the GPU works for a phase: tests, captures, replays and calls, not starts, imports and ends."""
    stage, _, step = phase.partition("/")
    return stage in ("canary", "test", "ranked") or (stage == "replay" and step not in ("open", "dismiss"))


def size(before: int, after: int) -> Shown:
    """The harness has become smaller."""
    figure = f"{before} lines of Python and CUDA at 7def2fc, {after} now" if before else ""
    passed = before - after >= FEWER_LINES if before else None
    return Shown(passed, f"{FEWER_LINES} lines fewer in the harness", figure)
