"""Figures from the stored lines of the time measurements. Pure: what counts is computed from raw samples.

Each function takes lines of one harness and returns :class:`Shown` ones; None for ``passed`` means that
it was not measured, or not often enough.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelcup_harness import audits, duel, estimates
from kernelcup_harness.protocol import Timing

Line = dict[str, Any]
US = 1e3
DUEL_NS = 20_000.0
"""What the kernels of benchmarks/time_duels.py take."""
LONG_NS = 20_000.0
MOST_GAIN = 0.05
RESAMPLED = 2000
MOST_MOVED = 0.02


@dataclass(frozen=True)
class Shown:
    """One line of the outcome."""

    passed: bool | None
    what: str
    figure: str


def chosen(lines: Iterable[Line], **values: Any) -> list[Line]:
    """Return the lines with these values."""
    return [line for line in lines if values.items() <= line.items()]


def cases(report: Line, stage: str = "ranked") -> list[Line]:
    """Return the timed cases of a stage."""
    return [case for each in report["stages"] if each["name"] == stage for case in each["cases"]]


def claim_ns(case: Line) -> float:
    """Return the calibrated claim."""
    timing = case["timing"]
    return max(0.0, estimates.robust(timing["samples_ns"]) - timing["offset_ns"])


def slope_ns(case: Line) -> float | None:
    """Return the time of a call among many, from the walls of short and long series."""
    audit = case["timing"]["audit"]
    if audit is None or len(audit["slope_calls"]) != 2 or not audit["slope_walls_ns"]:
        return None
    return audits.slope(audit["slope_walls_ns"], audit["slope_calls"], captured=audit["captured"])


def codes(case: Line) -> set[str]:
    """Return the codes of what was found about a case."""
    audit = case["timing"]["audit"]
    return {finding["code"] for finding in audit["findings"]} if audit is not None else set()


def quarantining(case: Line) -> bool:
    """Tell whether a case keeps its run from counting."""
    audit = case["timing"]["audit"]
    return audit is not None and any(finding["quarantines"] for finding in audit["findings"])


def score_ns(case: Line) -> float:
    """Return what is ranked: the claim, what follows from the slope where that counts, or what the audit put there."""
    audit, claim, slope = case["timing"]["audit"], claim_ns(case), slope_ns(case)
    if audit is None:
        return claim
    if codes(case) & {"empty_floor", "handshake_disagrees"} or (slope is None and not audit["captured"]):
        return float(audit["score_ns"])
    if not audit["captured"] or "slope_disagrees" in codes(case):
        return max(claim, slope or 0.0)
    names = ("captured", "armed", "handshake_ns", "handshake_slack_ns", "slope_slack_ns")
    evidence = audits.Evidence(claim_ns=claim, slope_ns=slope, **{name: audit[name] for name in names})
    # What was measured a second time may have decided otherwise.
    return evidence.without_gaps_ns if audit["score_ns"] < claim else claim


def us(ns: float) -> str:
    """Write microseconds."""
    return f"{ns / US:.2f}"


def is_accepted(line: Line) -> bool:
    """Tell whether a run was accepted."""
    return bool(line["report"]["verdict"] == "accepted")


def is_machines(line: Line) -> bool:
    """Tell whether a run ended as an error of the machine: a service tries such a job again."""
    return (line["report"]["verdict"], line["report"].get("reason")) == ("internal_error", "machine")


# --- how soon


def verdicts(lines: Sequence[Line]) -> list[Shown]:
    """Show the seconds until a verdict."""
    limits = {
        ("test", "warm"): 1.5,
        ("ranked", "warm"): 8.0,
        ("test", "cold"): 12.0,
        ("ranked", "cold"): 20.0,
    }
    found = []
    for start, stage, task in (
        ("warm", "test", "vectoradd"),
        ("warm", "test", "grayscale"),
        ("warm", "test", "histogram"),
        ("warm", "ranked", "vectoradd"),
        ("cold", "test", "vectoradd"),
        ("cold", "ranked", "vectoradd"),
    ):
        runs = chosen(lines, start=start, stage=stage, task=task)
        limit = limits[stage, start]
        what = f"{stage} of {task}, {start}: <= {limit:g} s"
        found.append(median_seconds(what, runs, limit))
    return [*found, *map(phases, (chosen(lines, start="warm", stage=stage) for stage in ("test", "ranked")))]


def median_seconds(what: str, runs: Sequence[Line], limit: float) -> Shown:
    """Show a median of at least ten runs."""
    if len(runs) < 10:
        return Shown(None, what, f"{len(runs)} of 10 runs" + seconds_of(runs))
    refused = [line["report"]["message"] for line in runs if not is_accepted(line)]
    middle = statistics.median(line["seconds"] for line in runs)
    text = f"median {middle:.2f} s of {len(runs)}{seconds_of(runs)}" + (
        f"; refused: {refused[:1]}" * bool(refused)
    )
    return Shown(middle <= limit and not refused, what, text)


def seconds_of(runs: Sequence[Line]) -> str:
    """Say from when to when."""
    times = [line["seconds"] for line in runs]
    return f" ({min(times):.2f} to {max(times):.2f})" if times else ""


def phases(runs: Sequence[Line]) -> Shown:
    """Show where the time goes."""
    stage = runs[0]["stage"] if runs else ""
    if not runs:
        return Shown(None, "where the time goes", "not measured")
    names = dict.fromkeys(name for line in runs for name in line["report"]["phases"])
    spent = {
        name: statistics.median(line["report"]["phases"].get(name, 0.0) for line in runs) for name in names
    }
    text = ", ".join(f"{name} {value:.2f}" for name, value in spent.items() if value >= 0.005)
    return Shown(True, f"where the time of a warm {stage} goes (s)", text)


# --- how right


def bias(lines: Sequence[Line]) -> list[Shown]:
    """Show claims against the profiler."""
    looks = chosen(lines, way="profiler")
    found = [bias_of(way, chosen(lines, way=way), looks) for way in ("captured", "eager")]
    return [*found, spin_events(looks), spin_calibrations(lines)]


def bias_of(way: str, runs: Sequence[Line], looks: Sequence[Line]) -> Shown:
    """Compare one way of being called."""
    what = f"claims against the profiler, {way}: max(3 %, 0.5 us)"
    if not runs or not looks:
        return Shown(None, what, "not measured")
    wrong, texts = [], []
    for kind in range(1, 7):
        seen = statistics.median(ns for look in looks for ns in look[f"kind {kind}"]["profiler_ns"])
        mine = [each for line in runs for each in cases(line["report"]) if each["parameters"]["size"] == kind]
        if not mine:
            return Shown(False, what, runs[0]["report"]["message"][:200])
        said = statistics.median(map(claim_ns, mine))
        captured = all(each["timing"]["audit"]["captured"] for each in mine)
        texts.append(f"{us(seen)} {said - seen:+.0f} ns")
        if abs(said - seen) > max(0.03 * seen, 500.0) or captured != (way == "captured"):
            wrong.append(kind)
    return Shown(not wrong, what, "; ".join(texts) + (f"; off: {wrong}" if wrong else ""))


def spin_events(looks: Sequence[Line]) -> Shown:
    """Fit what events read over what the profiler sees of kernels that spin."""
    what = "spin kernels, events over profiler: slope 1.00 +- 0.01"
    if not looks:
        return Shown(None, what, "not measured")
    names = [name for name in looks[0] if name.startswith("spin ")]
    points = [
        tuple(
            statistics.median(ns for look in looks for ns in look[name][which])
            for which in ("profiler_ns", "events_ns")
        )
        for name in names
    ]
    line = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    text = f"slope {line.slope:.4f}, offset {us(line.intercept)} us, {us(points[0][0])} to {us(points[-1][0])} us"
    return Shown(abs(line.slope - 1) <= 0.01, what, text)


def spin_calibrations(lines: Sequence[Line]) -> Shown:
    """Show the spin lines of the jobs' own calibrations."""
    what = "spin line of each job's calibration: slope 1.00 +- 0.01"
    slopes = [
        line["report"]["calibration"]["spin_line"][0]
        for line in lines
        if "report" in line and line["report"]["calibration"]
    ]
    if not slopes:
        return Shown(None, what, "not measured")
    wrong = sum(abs(slope - 1) > 0.01 for slope in slopes)
    text = f"{len(slopes)} jobs, {min(slopes):.4f} to {max(slopes):.4f}, {wrong} outside"
    return Shown(not wrong, what, text)


def scatter(lines: Sequence[Line]) -> list[Shown]:
    """Show how far scores scatter over fresh processes."""
    what = "scatter of scores over 20 fresh processes: 1, 2, 5 %"
    runs = [line for line in chosen(lines, start="warm", stage="ranked") if is_accepted(line)]
    if len(runs) < 20:
        return [Shown(None, what, f"{len(runs)} of 20 runs")]
    by_size: dict[int, list[float]] = defaultdict(list)
    for line in runs:
        for case in cases(line["report"]):
            by_size[case["parameters"]["size"]].append(score_ns(case))
    wrong, texts = [], []
    for size, scores in sorted(by_size.items()):
        middle, share = statistics.median(scores), statistics.stdev(scores) / statistics.fmean(scores)
        limit = (
            0.01
            if middle >= 20 * US
            else 0.02
            if middle >= 5 * US
            else 0.05
            if middle >= 2 * US
            else math.inf
        )
        texts.append(f"{us(middle)} us {share:.2%}")
        wrong += [size] if share > limit else []
    return [Shown(not wrong, what, f"{len(runs)} runs: " + ", ".join(texts))]


def coverage(lines: Sequence[Line]) -> list[Shown]:
    """Show how often intervals hold the value of the long series."""
    what = "95 % intervals hold the value of 10,000 samples: >= 90 %"
    series = [ns for line in lines for ns in line["series"]]
    runs = [run for line in lines for run in line["runs"]]
    if len(runs) < 200 or len(series) < 10_000:
        return [Shown(None, what, f"{len(runs)} of 200 runs, {len(series)} of 10000 samples")]
    value, offset_ns = estimates.robust(series), statistics.median(line["offset_ns"] for line in lines)
    timed = [Timing(samples_ns=run, offset_ns=offset_ns) for run in runs]
    share = statistics.fmean(holds(each.interval_ns, value - offset_ns) for each in timed)
    in_process = statistics.fmean(holds(each.sampling_interval_ns, value - offset_ns) for each in timed)
    lengths = sorted(map(len, runs))
    drawn = resampled([line["series"] for line in lines], lengths[len(lengths) // 2], offset_ns, value)
    text = f"{share:.1%} of {len(runs)} runs of {lengths[0]} to {lengths[-1]} samples at {us(value)} us raw"
    text += f"; without what differs between processes {in_process:.1%}"
    return [
        Shown(share >= 0.9, what, text),
        Shown(drawn >= 0.9, "the same, of pieces of the long series", f"{drawn:.1%} of {RESAMPLED}"),
    ]


def holds(found: tuple[float, float] | None, value: float) -> bool:
    """Tell whether an interval holds a value."""
    return found is not None and found[0] <= value <= found[1]


def resampled(pieces: Sequence[Sequence[float]], length: int, offset_ns: float, value: float) -> float:
    """Return the share of stretches of the series, as long as a run, whose interval holds the value."""
    chance = random.Random(6)
    hits = 0
    for _ in range(RESAMPLED):
        piece = chance.choice(pieces)
        begin = chance.randrange(max(1, len(piece) - length))
        timing = Timing(samples_ns=list(piece[begin : begin + length]), offset_ns=offset_ns)
        hits += holds(timing.interval_ns, value - offset_ns)
    return hits / RESAMPLED


def duels(lines: Sequence[Line]) -> list[Shown]:
    """Show how many duels are right: the mean of process trees, whose duels share what makes a process slower."""
    found = []
    for kind, what in (("differ", "3 % apart at 20 us: ordered right"), ("same", "identical: shown as tied")):
        fights = chosen(lines, kind=kind)
        trees: dict[str, list[bool]] = defaultdict(list)
        for line in fights:
            trees[tree_of(line)].append(duel_verdict(line["duel"]) == line["truth"])
        right = statistics.fmean(map(statistics.fmean, trees.values())) if trees else 0.0
        text = f"{sum(map(sum, trees.values()))} of {len(fights)} duels"
        text += f", {right:.1%} in the mean of {len(trees)} process trees" * bool(trees)
        if kind == "differ" and fights:
            text += f", truly {true_difference(fights):.2%} apart"
        enough = len(fights) >= 100
        found.append(Shown(right >= 0.95 if enough else None, f"{what} in >= 95 of 100", text))
    return found


def tree_of(line: Line) -> str:
    """Return which processes fought a duel. Older lines tell them by the cycles that were measured for them."""
    return str(line.get("tree") or f"{line['commit']} {min(line['cycles'])}")


def duel_verdict(found: Line) -> str:
    """Return what the blocks of each pair of processes say."""
    blocks = iter(found["ratios"])
    # Older harnesses had one pair, and did not say so.
    counts = found.get("pairs") or [len(found["ratios"])]
    pairs = [[[next(blocks)] for _ in range(count)] for count in counts]
    return duel.of_pairs(pairs, [DUEL_NS]).verdict


def true_difference(fights: Sequence[Line]) -> float:
    """Return by how much both differ, by all blocks together."""
    logs = [
        math.log(ratio) * (1 if line["truth"] == "slower" else -1)
        for line in fights
        for ratio in line["duel"]["ratios"]
    ]
    return math.exp(estimates.robust(logs)) - 1


# --- what disturbs


def conditions(lines: Sequence[Line]) -> list[Shown]:
    """Show what a cache, heat and company do."""
    return [persisting(lines), *map(flagged, ("hot", "company"), (lines, lines))]


def persisting(lines: Sequence[Line]) -> Shown:
    """Show what it gains to keep data in the cache, and what a window does as a hint.

    A window also changes how a kernel reads what it has never seen; so an input that was there is compared with
    the same one that was not, and that with the same two where nothing is kept.
    """
    what = "a persisting-L2 submission (copy of 16 MiB) moves by <= 2 %"
    runs = [line["found"] for line in chosen(lines, part="kept")]
    hints = [each for part in ("persisting", "hint") for each in moved(chosen(lines, part=part))]
    hint = ", ".join(f"{us(ns)} us {move:+.2%}" for ns, move in hints)
    hint = f"; judged with a window, as a hint: {hint}" * bool(hints)
    if not runs:
        return Shown(None, what, f"not measured{hint}")
    gains = {name: kept_gain(runs, name, "kept") for name in ("copy", "sum")}
    bare = {name: kept_gain(runs, name, "undefended") for name in ("copy", "sum")}
    errors = {name: kept_error(runs, name) for name in gains}
    told = ", ".join(
        f"{name} {gains[name]:+.2%} +- {errors[name]:.2%} (without the reset {bare[name]:+.2%})"
        for name in gains
    )
    told += f", {len(runs)} processes" * (len(runs) > 1)
    good = all(abs(gain) <= MOST_MOVED for gain in gains.values())
    # Less is not said than what can be told.
    known = all(error <= MOST_MOVED for error in errors.values())
    return Shown(good if known else None, what, told + hint)


def kept_gain(runs: Sequence[Line], name: str, way: str) -> float:
    """Return by which share calls move whose input was there a moment ago, beyond those that keep nothing.

    Of all processes together.
    """

    def share(each: Line) -> float:
        return estimates.robust(each["seen"]) / estimates.robust(each["unseen"])

    return statistics.fmean(share(found[name][way]) / share(found[name]["plain"]) - 1 for found in runs)


def kept_error(runs: Sequence[Line], name: str) -> float:
    """Return half the 95 % interval of that share, by what scatters within processes."""
    arms = [samples for found in runs for way in ("plain", "kept") for samples in found[name][way].values()]
    return math.hypot(*(estimates.half_width(each) / estimates.robust(each) for each in arms)) / len(runs)


def moved(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """Return for each size the score without a window, and by which share it moves with one."""
    plain, kept = (by_size(chosen(lines, way=way)) for way in ("plain", "kept"))
    middles = {size: statistics.median(plain[size]) for size in plain if kept[size]}
    return [(ns, statistics.median(kept[size]) / ns - 1) for size, ns in middles.items()]


def by_size(lines: Sequence[Line]) -> dict[int, list[float]]:
    """Return the scores of the cases by their size."""
    found: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        for case in cases(line["report"]):
            found[case["parameters"]["size"]].append(score_ns(case))
    return found


def flagged(part: str, lines: Sequence[Line]) -> Shown:
    """Show whether a disturbance was told; heat that changes no score needs no telling."""
    usual, way = ("cool", "hot") if part == "hot" else ("alone", "company")
    what = "a hot device is flagged" if part == "hot" else "a second process on the GPU is flagged"
    before, after = (chosen(lines, part=part, way=each) for each in (usual, way))
    if not before or not after:
        return Shown(None, what, "not measured")
    told = [signs(line) for line in after]
    first, second = by_size(before), by_size(after)
    moves = [
        statistics.median(second[size]) / statistics.median(first[size]) - 1 for size in first if second[size]
    ]
    false = [sign for line in before for sign in signs(line)]
    still = part == "hot" and bool(moves) and all(abs(move) <= 0.02 for move in moves)
    text = f"{sorted(set().union(*told)) or 'nothing said'}, scores {', '.join(f'{m:+.1%}' for m in moves)}"
    text += f"; before it: {sorted(set(false)) or 'nothing said'}"
    return Shown((all(told) or still) and not false, what, text)


def signs(line: Line) -> set[str]:
    """Return what a run says of the state of its device: findings, a canary that does not fit, or an end."""
    report = line["report"]
    found = set().union(*map(codes, cases(report))) & {"throttled", "busy_device"}
    canary = report["calibration"]["canary_ns"] if report["calibration"] else 0.0
    expected = line["canary_expected_ns"]
    if canary > 0 and expected > 0 and abs(canary / expected - 1) > line["canary_tolerance"]:
        found.add(f"canary {canary / expected - 1:+.1%}")
    return found | ({report["verdict"]} if report["verdict"] != "accepted" else set())


# --- who lies


def audit_line(lines: Sequence[Line]) -> list[Shown]:
    """Show how far medians of handshakes are from their line, and single ones from their median."""
    what = "residual of the median handshake over 100 samples: <= 2 us"
    found = chosen(lines, role="line")
    if not found:
        return [Shown(None, what, "not measured")]
    residuals = [residual_ns(line["readings"]) for line in found]
    noops = [line["readings"]["noop_handshakes"] for line in found]
    above = [wall - statistics.median(walls) for walls in noops for wall in walls]
    text = f"{', '.join(map(us, residuals))} us; no-op {us(statistics.median(noops[0]))} us"
    p99 = f"{us(estimates.quantile(above, 0.99))} us above the median, of {len(above)}"
    return [
        Shown(statistics.median(residuals) <= 2 * US, what, text),
        Shown(True, "99 % of single handshakes are within", p99),
    ]


def residual_ns(readings: Line) -> float:
    """Return the root mean square by which medians miss the line through them."""
    base = statistics.median(readings["noop_handshakes"])
    points = [(float(x), statistics.median(walls) - base) for x, walls in readings["spin_handshakes"].items()]
    line = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    return math.sqrt(statistics.fmean((y - line.intercept - line.slope * x) ** 2 for x, y in points))


def false_alarms(lines: Sequence[Line]) -> list[Shown]:
    """Show what the audits say of honest submissions."""
    what = "20 honest submissions x 10 runs: no false alarm"
    tried = [*chosen(lines, role="honest"), *chosen(lines, role="honest-again")]
    runs = [line for line in tried if not is_machines(line)]
    per_name = {name: chosen(runs, name=name) for name in dict.fromkeys(line["name"] for line in runs)}
    kinds = [each[0]["kind"] for each in per_name.values()]
    wanted = {"triton": 5, "several": 4, "jax": 1, "cupy": 1, "sync": 2}
    complete = len(per_name) >= 20 and all(len(each) >= 10 for each in per_name.values())
    complete &= all(kinds.count(kind) >= count for kind, count in wanted.items())
    alarms = [
        f"{line['name']} {us(score_ns(case))} us {sorted(codes(case))}"
        for line in runs
        for case in cases(line["report"])
        if quarantining(case)
    ]
    refused = [f"{line['name']}: {line['report']['message'][-80:]}" for line in runs if not is_accepted(line)]
    text = f"{len(runs)} runs of {len(per_name)}, {len(alarms)} alarms, {len(refused)} not accepted"
    text += f" {[*alarms, *refused][:4]}" if alarms or refused else ""
    machines = len(tried) - len(runs)
    text += f"; {machines} more ended as the machine's error" if machines else ""
    bad = bool(alarms or refused)
    return [Shown(False if bad else True if complete else None, what, text)]


def forged(lines: Sequence[Line]) -> list[Shown]:
    """Show how often halved claims are caught."""
    honest = truths(chosen(lines, role="honest"))
    runs = [line for line in chosen(lines, role="forged") if is_accepted(line)]
    long: list[bool] = []
    below: dict[str, list[bool]] = defaultdict(list)
    for line in runs:
        caught = {truth: is_caught(case, truth) for case, truth in pairs(line, honest)}
        at_length = [hit for truth, hit in caught.items() if truth >= LONG_NS]
        long += [all(at_length)] if at_length else []
        for truth, hit in caught.items():
            if truth < LONG_NS:
                below["2 to 5 us" if truth < 5 * US else "5 to 20 us"].append(hit)
    what = "claims forged to half at >= 20 us: caught in each of 100 runs"
    outcome = None if len(long) < 100 else all(long)
    outcome = False if not all(long) else outcome
    rates = ", ".join(f"{name} {statistics.fmean(hits):.0%} of {len(hits)}" for name, hits in below.items())
    return [
        Shown(outcome, what, f"{sum(long)} of {len(long)} runs"),
        Shown(True if rates else None, "and below 20 us, as measured", rates or "not measured"),
    ]


def truths(runs: Sequence[Line]) -> dict[tuple[str, int], float]:
    """Return the usual score of honest submissions by name and size."""
    scores: dict[tuple[str, int], list[float]] = defaultdict(list)
    for line in runs:
        for case in cases(line["report"]):
            scores[line["name"], case["parameters"]["size"]].append(score_ns(case))
    return {key: statistics.median(each) for key, each in scores.items()}


def pairs(line: Line, honest: dict[tuple[str, int], float]) -> list[tuple[Line, float]]:
    """Return the cases of a run with what they truly take."""
    keys = [(case, (line["name"], case["parameters"]["size"])) for case in cases(line["report"])]
    return [(case, honest[key]) for case, key in keys if key in honest]


def is_caught(case: Line, truth: float) -> bool:
    """Tell whether a case is quarantined, or is ranked with no less than it takes."""
    return quarantining(case) or score_ns(case) >= (1 - MOST_GAIN) * truth


def unseen(lines: Sequence[Line]) -> list[Shown]:
    """Show by how much claims could be less without anything being held against them, by honest evidence."""
    what = "a claim could be less by, unseen, at >= 20 us, as measured"
    rooms: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        for case in cases(line["report"]):
            audit = case["timing"]["audit"]
            if audit is not None and audit["captured"] and slope_ns(case) and score_ns(case) >= LONG_NS:
                rooms[f"{line['name']} {case['parameters']['size']}"].append(room(case))
    usual = sorted((statistics.median(each), name) for name, each in rooms.items())
    if not usual:
        return [Shown(None, what, "not measured")]
    (least, first), (most, last) = usual[0], usual[-1]
    middle = statistics.median(each for each, _ in usual)
    text = f"{middle:.1%} in the median of {len(usual)} kernels, {least:.1%} ({first}) to {most:.1%} ({last})"
    return [Shown(True, what, text)]


def room(case: Line) -> float:
    """Return the share of a score that a claim could be below it: its slope and its handshake stay what they are."""
    audit, claim, slope = case["timing"]["audit"], claim_ns(case), slope_ns(case)
    slacks = {name: audit[name] for name in ("handshake_slack_ns", "slope_slack_ns")}
    for hundredth in range(100, 0, -1):
        said = claim * hundredth / 100
        # A share of the claim is in both.
        less = {name: each - audits.CLAIM_SHARE * (claim - said) for name, each in slacks.items()}
        evidence = audits.Evidence(
            claim_ns=said,
            slope_ns=slope,
            captured=True,
            armed=audit["armed"],
            handshake_ns=audit["handshake_ns"],
            **less,
        )
        if evidence.slope_disagrees or evidence.handshake_disagrees:
            return max(0.0, 1 - (said + claim / 100) / score_ns(case))
    return 1.0


def attacks(lines: Sequence[Line], wanted: set[str]) -> list[Shown]:
    """Show what attacks on the clock gain, and what becomes of their twins."""
    runs = chosen(lines, role="attack")
    twins = chosen(lines, role="twin")
    machines = {line.get("device") for line in lines}
    # What is gained is said on one machine.
    honest = chosen(lines, role="plain")
    plain = {
        machine: truths_of_tasks([each for each in honest if each.get("device") == machine])
        for machine in machines
    }
    odd: list[str] = []
    through: dict[str, list[float]] = defaultdict(list)
    for line in runs:
        if not is_accepted(line):
            odd += [line["name"]] if line["report"]["verdict"] not in line["expected"]["verdicts"] else []
        elif not line["report"]["quarantine"]:
            gain = most_gain(line, plain[line.get("device")])
            if gain > MOST_GAIN:
                through[line["name"]].append(gain)
    tried = {line["name"] for line in runs}
    numbers = {number for line in runs for number in line["taxonomy"]}
    text = f"{len(runs)} runs of {len(tried)} files, {len(numbers)} numbers of the taxonomy"
    gains = [
        f"{name} {statistics.median(each):+.0%} in {len(each)} of {len(chosen(runs, name=name))} runs"
        for name, each in through.items()
    ]
    text += f"; gain: {', '.join(gains)}" * bool(gains) + f"; odd: {odd}" * bool(odd)
    missing = sorted(wanted - tried)
    text += f"; not tried: {missing}" * bool(missing)
    doubted = [
        f"{line['name']} {line['report']['verdict']} {[f['code'] for f in line['report']['quarantine']]}"
        for line in twins
        if not is_accepted(line) or line["report"]["quarantine"]
    ]
    good = False if through or odd else None if missing or not runs else True
    return [
        Shown(good, "attacks on the clock gain <= 5 % at >= 20 us", text),
        Shown(
            not doubted if twins else None, "their honest twins count", f"{len(twins)} runs {doubted or ''}"
        ),
    ]


def truths_of_tasks(lines: Sequence[Line]) -> dict[tuple[str, int], float]:
    """Return the usual score of plain submissions by task and size."""
    return truths([{**line, "name": line["task"]} for line in lines])


def most_gain(line: Line, plain: dict[tuple[str, int], float]) -> float:
    """Return the share that the best case is below the plain submission's, among the long ones."""
    found = [
        1 - score_ns(case) / truth
        for case, truth in pairs({**line, "name": line["task"]}, plain)
        if truth >= LONG_NS
    ]
    return max(found, default=1.0)


def throughput(lines: Sequence[Line]) -> list[Shown]:
    """Show jobs a minute, and the share of the time in which the GPU was measuring."""
    what = "30 mixed submissions on one GPU"
    found = [line for line in lines if line["jobs"] >= 30]
    if not found:
        return [Shown(None, what, "not measured")]
    line = found[-1]
    refused = [run["job"] for run in line["runs"] if run["verdict"] != "accepted"]
    measuring = sum(
        spent for run in line["runs"] for name, spent in run["phases"].items() if is_measuring(name)
    )
    waited = sum(run["waited_s"] for run in line["runs"])
    text = f"{60 * len(line['runs']) / line['wall_s']:.1f} jobs a minute, measuring {measuring / line['wall_s']:.0%}"
    text += f" of the time, waiting for a runner {waited:.1f} of {line['wall_s']:.0f} s"
    return [Shown(not refused, what, text + (f"; refused {refused}" if refused else ""))]


def is_measuring(phase: str) -> bool:
    """Tell whether the GPU is at work for a phase: tests, claims and audits, not starts and imports."""
    return phase.partition("/")[0] in ("test", "ranked", "benchmark", "check", "duel")
