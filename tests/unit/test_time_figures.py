"""What ``scripts/show/time`` makes of stored lines: figures come from raw samples, too few are not enough."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import time_figures as figures

chance = random.Random(3)


def case(
    ns: float, *, size: int = 1, captured: bool = True, slope: float | None = None, found: str = ""
) -> Any:
    """Return a ranked case of raw samples around ``ns`` and an offset of 2 us."""
    walls = [[1e6, 1e6], [1e6 + 300 * slope, 1e6 + 300 * slope]] if slope is not None else []
    audit = {
        "captured": captured,
        "armed": captured,
        "handshake_ns": ns,
        "handshake_slack_ns": 500.0,
        "slope_slack_ns": 500.0,
        "slope_calls": [100, 400] if walls else [],
        "slope_walls_ns": walls,
        "score_ns": ns,
        "findings": [{"code": found, "quarantines": found.endswith("disagrees")}] if found else [],
    }
    samples = [ns + 2000 + chance.gauss(0, 1) for _ in range(20)]
    return {
        "parameters": {"size": size},
        "timing": {"samples_ns": samples, "offset_ns": 2000.0, "audit": audit},
    }


def line(*found: Any, verdict: str = "accepted", **values: Any) -> Any:
    """Return a line with a report of ranked cases."""
    quarantine = [each for one in found for each in one["timing"]["audit"]["findings"] if each["quarantines"]]
    report = {
        "verdict": verdict,
        "message": "",
        "quarantine": quarantine,
        "stages": [{"name": "ranked", "cases": list(found)}],
    }
    return {"report": report, **values}


def test_a_captured_case_scores_its_claim_and_an_eager_one_its_slope() -> None:
    assert abs(figures.score_ns(case(20e3, slope=10e3)) - 20e3) < 5
    assert abs(figures.score_ns(case(20e3, slope=30e3)) - 20e3) < 5
    assert abs(figures.score_ns(case(20e3, slope=30e3, captured=False)) - 30e3) < 5
    assert abs(figures.score_ns(case(20e3, slope=30e3, found="slope_disagrees")) - 30e3) < 5


def test_scatter_has_a_limit_for_each_length() -> None:
    def runs(spread: float) -> list[Any]:
        values = [20e3 * (1 + spread * (-1) ** number) for number in range(20)]
        return [line(case(ns), start="warm", stage="ranked") for ns in values]

    assert figures.scatter(runs(0.005))[0].passed is True
    assert figures.scatter(runs(0.02))[0].passed is False
    assert figures.scatter(runs(0.005)[:19])[0].passed is None


def test_a_verdict_is_the_median_of_ten() -> None:
    runs = [line(seconds=1.4, start="warm", stage="test", task="vectoradd") for _ in range(10)]
    for each in runs:
        each["report"]["phases"] = {}
    assert figures.verdicts(runs)[0].passed is True
    assert figures.verdicts(runs[:9])[0].passed is None
    assert figures.verdicts([{**each, "seconds": 1.6} for each in runs])[0].passed is False


def test_duels_are_judged_by_their_blocks() -> None:
    def fights(ratio: float, truth: str, kind: str) -> list[Any]:
        ratios = [ratio + chance.gauss(0, 0.003) for _ in range(30)]
        fight = {"kind": kind, "truth": truth, "tree": kind, "duel": {"ratios": ratios, "pairs": [10, 20]}}
        return [fight] * 100

    differ, same = figures.duels(fights(1.03, "slower", "differ") + fights(1.0, "tied", "same")[:99])
    assert differ.passed is True
    assert "truly" in differ.figure
    assert same.passed is None


def test_duels_of_one_process_tree_count_as_one_finding() -> None:
    def fights(ratio: float, tree: str, count: int) -> list[Any]:
        duel = {"ratios": [ratio] * 30, "pairs": [15, 15]}
        return [{"kind": "same", "truth": "tied", "tree": tree, "duel": duel}] * count

    many = [fight for number in range(30) for fight in fights(1.0, str(number), 4)]
    _differ, same = figures.duels([*many, *fights(1.1, "odd", 100)])
    assert same.passed is True
    assert "120 of 220 duels, 96.8% in the mean of 31 process trees" in same.figure
    _differ, same = figures.duels([*many, *fights(1.1, "odd", 4), *fights(1.1, "odd too", 4)])
    assert same.passed is False


def test_duels_of_older_harnesses_are_told_apart_by_their_cycles() -> None:
    old = {"commit": "abc", "cycles": [103, 100]}
    assert figures.tree_of(old) == figures.tree_of({"commit": "abc", "cycles": [100, 100]})
    assert figures.tree_of(old) != figures.tree_of({"commit": "abc", "cycles": [101, 101]})


def test_a_duel_of_an_older_harness_had_one_pair_of_processes() -> None:
    ratios = [0.983 + 0.001 * (number % 3) for number in range(30)]
    assert figures.duel_verdict({"ratios": ratios}) == "tied"
    assert figures.duel_verdict({"ratios": ratios, "pairs": [15, 15]}) == "faster"


def test_intervals_are_held_against_the_long_series() -> None:
    def made(middle: float) -> Any:
        runs = [[chance.gauss(middle, 10) for _ in range(30)] for _ in range(20)]
        return {"runs": runs, "series": [chance.gauss(10e3, 10) for _ in range(1000)], "offset_ns": 2e3}

    good, drawn = figures.coverage([made(10e3) for _ in range(10)])
    assert (good.passed, drawn.passed) == (True, True)
    assert figures.coverage([made(10.4e3) for _ in range(10)])[0].passed is False
    # As much lies between processes; sampling alone does not explain it.
    (between, _drawn) = figures.coverage([made(10.1e3) for _ in range(10)])
    assert between.passed is True
    assert "without what differs between processes 0.0%" in between.figure


def test_one_alarm_is_one_too_many() -> None:
    kinds = ["triton"] * 5 + ["several"] * 4 + ["jax", "cupy", "sync", "sync"] + ["torch"] * 7
    runs = [
        line(case(20e3), name=str(number), kind=kind, role="honest")
        for number, kind in enumerate(kinds)
        for _ in range(10)
    ]
    assert figures.false_alarms(runs)[0].passed is True
    assert figures.false_alarms(runs[1:])[0].passed is None
    wrong = line(case(20e3, found="slope_disagrees"), name="0", kind="triton", role="honest")
    assert figures.false_alarms([*runs, wrong])[0].passed is False


def test_an_error_of_the_machine_is_no_alarm_and_no_run() -> None:
    first = line(verdict="internal_error", name="0", kind="triton", role="honest")
    first["report"]["reason"] = "machine"
    shown = figures.false_alarms([first, line(case(20e3), name="0", kind="triton", role="honest")])[0]
    assert shown.passed is None
    assert shown.figure == "1 runs of 1, 0 alarms, 0 not accepted; 1 more ended as the machine's error"
    first["report"]["reason"] = "task"
    assert figures.false_alarms([first])[0].passed is False


def test_a_forged_claim_is_caught_by_quarantine_or_by_what_is_ranked() -> None:
    honest = [line(case(30e3), case(4e3, size=2), name="a", role="honest")]
    caught = [line(case(15e3, found="slope_disagrees"), case(2e3, size=2), name="a", role="forged")] * 100
    missed = line(case(15e3), name="a", role="forged")
    above, below = figures.forged(honest + caught)
    assert (above.passed, above.figure) == (True, "100 of 100 runs")
    assert below.figure == "2 to 5 us 0% of 100"
    assert figures.forged([*honest, *caught, missed])[0].passed is False


def test_what_a_claim_could_be_less_by_follows_from_slope_and_handshake() -> None:
    def said(**changes: Any) -> str:
        one = case(30e3, slope=27e3)
        one["timing"]["audit"] |= changes
        return figures.unseen([line(one, name="add")])[0].figure

    # 26.6 us and its fiftieth and 0.5 us less the fiftieth of 30 are 27.
    assert "1 kernels, 11.0% (add 1)" in said(handshake_ns=20e3)
    assert "1 kernels, 1.0% (add 1)" in said(handshake_ns=30e3)


def test_what_cannot_be_less_without_being_seen_has_no_room() -> None:
    tight = case(30e3, slope=30.4e3)
    assert figures.room(tight) == 0.0
    assert figures.unseen([line(case(10e3, slope=10e3), name="short")])[0].passed is None


def test_what_an_attack_gains_is_said_against_the_plain_submission() -> None:
    def attack(found: Any, **values: Any) -> list[Any]:
        common = {"task": "t", "taxonomy": [42], "expected": {"verdicts": ["accepted"]}}
        plain = line(case(40e3), name="plain", role="plain", **common)
        twin = line(case(40e3), name="twin", role="twin", **common)
        return [plain, twin, line(found, name="x", role="attack", **common, **values)]

    assert figures.attacks(attack(case(39e3)), {"x"})[0].passed is True
    assert figures.attacks(attack(case(30e3)), {"x"})[0].passed is False
    assert figures.attacks(attack(case(20e3, found="handshake_disagrees")), {"x"})[0].passed is True
    assert figures.attacks(attack(case(39e3)), {"x", "y"})[0].passed is None
    assert figures.attacks(attack(case(39e3), verdict="none"), {"x"})[0].passed is False


def test_the_residual_is_what_medians_miss_their_line_by() -> None:
    readings = {
        "noop_handshakes": [50e3] * 3,
        "spin_handshakes": {"5000.0": [60e3], "20000.0": [75e3], "100000.0": [155e3]},
    }
    assert figures.residual_ns(readings) < 1e-6
    readings["spin_handshakes"]["20000.0"] = [80e3]
    assert figures.residual_ns(readings) > 1e3


def test_what_is_kept_is_compared_with_what_was_not_there() -> None:
    def kept(seen: float, undefended: float = 5e3) -> Any:
        # A window makes the kernel a tenth quicker in any case.
        ways = {
            "plain": {"seen": [10e3] * 5, "unseen": [10e3] * 5},
            "kept": {"seen": [seen] * 5, "unseen": [9e3] * 5},
            "undefended": {"seen": [undefended] * 5, "unseen": [9e3] * 5},
        }
        return {"part": "kept", "found": {"copy": ways, "sum": ways}}

    shown = figures.persisting([kept(9e3)])
    assert shown.passed is True
    assert "copy +0.00% +- 0.00% (without the reset -44.44%)" in shown.figure
    assert figures.persisting([kept(8.7e3)]).passed is False
    coarse = kept(9e3)
    coarse["found"]["sum"]["kept"]["seen"] = [8e3, 9e3, 9e3, 9e3, 10e3]
    assert figures.persisting([coarse]).passed is None
    # Several processes are taken together.
    shown = figures.persisting([kept(8.7e3), kept(9.3e3)])
    assert shown.passed is True
    assert "2 processes" in shown.figure
    assert figures.persisting([]).passed is None


def test_what_a_window_does_as_a_hint_is_told_beside_it() -> None:
    runs = [line(case(ns, size=2048), part="hint", way=way) for way, ns in (("plain", 10e3), ("kept", 9.5e3))]
    shown = figures.persisting(runs)
    assert shown.passed is None
    assert "as a hint: 10.00 us -5" in shown.figure
