"""What ``benchmarks/show.py`` makes of stored lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import clean_room_figures as figures
import timing_path


def line(name: str, score_ns: float = 20_000.0, **changes: Any) -> dict[str, Any]:
    """A stored line of a ranked job that was replayed."""
    case = {"timing": {"audit": {"score_ns": score_ns, "level": "replayed"}}}
    stage = {"name": "ranked", "duration_s": 3.0, "cases": [case]}
    report = {"verdict": "accepted", "stages": [stage]}
    values = {"name": name, "mode": "leaderboard", "start": "warm", "expected": "replayed", "seconds": 4.0}
    return {**values, "clean_room": {"replayed": True}, "report": report, **changes}


def test_the_hash_of_the_timing_path_is_of_modules_that_are_there() -> None:
    assert [path for path in timing_path.modules() if not path.is_file()] == []
    assert timing_path.path_hash() == timing_path.path_hash()


def test_nothing_is_shown_without_lines() -> None:
    of_jobs = (figures.replayed, figures.called, figures.scatter, figures.seconds, figures.walls)
    of_others = (figures.attacks, figures.duels, figures.queue)
    for figure in (*of_jobs, *of_others):
        assert [each.passed for each in figure([])] == [None] * len(figure([]))
    assert [each.passed for each in figures.bias([], [])] == [None]


def test_a_kind_that_was_called_fails() -> None:
    (shown,) = figures.replayed([line("triton", clean_room={"replayed": False, "reason": "stale"})])

    assert (shown.passed, shown.figure) == (False, "1 kinds, at least 1 runs each; not: triton (stale)")


def test_25_kinds_four_times_pass_and_fewer_do_not() -> None:
    lines = [line(f"kind{number}") for number in range(25) for _ in range(4)]

    assert figures.replayed(lines)[0].passed is True
    assert figures.replayed(lines[1:])[0].passed is None


def test_scatter_is_held_against_the_goal_of_its_length() -> None:
    quiet = [line("a", 20_000.0 + 50 * (number % 2)) for number in range(20)]
    loud = [line("b", 20_000.0 + 500 * (number % 2)) for number in range(20)]

    assert [each.passed for each in figures.scatter(quiet + loud)] == [True, False]


def test_a_slow_ranked_job_fails() -> None:
    shown = {each.what: each.passed for each in figures.seconds([line("grayscale", seconds=6.0)])}

    assert shown["warm leaderboard of grayscale takes at most 5 s"] is False
    assert shown["warm leaderboard of vectoradd takes at most 5 s"] is None


def test_a_refused_kind_needs_its_reason() -> None:
    good = line("item", expected="called", clean_room={"replayed": False, "reason": "waits"})
    assert figures.called([good])[0].passed is True
    assert figures.called([good, line("item", expected="called")])[0].passed is False


def test_the_harness_has_to_be_700_lines_smaller() -> None:
    assert figures.size(20_000, 19_300).passed is True
    assert figures.size(20_000, 19_301).passed is False
    assert figures.size(0, 19_301).passed is None


def attack(name: str, *ratios: float, honest_ns: float = 20_000.0, **changes: Any) -> dict[str, Any]:
    """A stored line of an attack."""
    times = {"ratios": list(ratios), "honest_ns": [honest_ns] * len(ratios)}
    return {"name": name, "role": "attack", "acted": True, "duel": "", **times, **changes}


def shown_of(found: list[figures.Shown]) -> dict[str, bool | None]:
    """What was shown, by its words."""
    return {each.what: each.passed for each in found}


def test_an_attack_that_gains_fails_in_the_median_of_its_runs() -> None:
    what = "no attack gains more than 3 % on 20 us and more"
    once = [attack("v27", 1.0), attack("v27", 0.9), attack("v27", 1.0)]
    twice = [attack("v27", 0.9), attack("v27", 0.9), attack("v27", 1.0)]

    assert shown_of(figures.attacks(once))[what] is True
    assert shown_of(figures.attacks(once[:2]))[what] is False
    assert shown_of(figures.attacks(twice))[what] is False
    assert shown_of(figures.attacks(once[:1]))[what] is None


def test_a_gain_on_a_short_call_is_only_shown() -> None:
    found = figures.attacks([attack("v27", 0.9, honest_ns=1_800.0)] * 3)

    assert found[0].passed is True
    assert (found[1].seen, found[1].figure) == (True, "largest gain 10.0%: v27 10.0%")


def test_an_attack_that_never_acted_is_named() -> None:
    found = figures.attacks([attack("v27", 1.0), attack("v28", 1.0, acted=False)])

    assert found[2].figure == "1 of 2; not: v28"


def test_an_attack_that_wins_a_duel_fails() -> None:
    assert figures.attacks([attack("v35", 1.0, duel="tied")])[3].passed is True
    for won in ("faster", "rival_failed"):
        assert figures.attacks([attack("v35", 1.0, duel=won)])[3].passed is False


def test_bias_is_that_against_the_quicker_of_calls_and_graph() -> None:
    ordinary = {"name": "a", "events_ns": [27_000.0], "graph_ns": [22_400.0], "empty_ns": [2_500.0]}

    assert figures.bias([line("a", 20_000.0)], [ordinary])[0].passed is True
    assert figures.bias([line("a", 20_200.0)], [ordinary])[0].passed is False


def test_ten_walls_above_the_replayed_times_are_enough() -> None:
    kinds = [f"k{number}" for number in range(10)]
    wall = {"timing": {"audit": {"score_ns": 200_000.0, "level": "wall clock"}, "overhead_ns": 150_000.0}}
    stage = {"name": "ranked", "cases": [wall]}
    lines = [line(name) for name in kinds]
    lines += [line(f"wall_{name}", report={"verdict": "accepted", "stages": [stage]}) for name in kinds]

    assert figures.walls(lines)[0].passed is True
    assert figures.walls(lines[:-1])[0].passed is None


def duel(kind: str, first: str, second: str, winner: int | None) -> dict[str, Any]:
    """A stored line of a duel."""
    return {"kind": kind, "pair": [first, second], "winner": winner, "mean": -0.01, "seconds": 2.0}


def test_duels_are_right_when_the_shorter_kernel_wins() -> None:
    good = [duel("differ", "spin_0", "spin_1", 0), duel("differ", "spin_1", "spin_0", 1)] * 20
    same = [duel("same", "triton", "triton", None)] * 40

    assert [each.passed for each in figures.duels(good + same)] == [True, True]
    assert [each.passed for each in figures.duels(good[:37] + good[:3] * 1 + same)] == [True, True]
    wrong = [duel("differ", "spin_0", "spin_1", 1)] * 3
    assert [each.passed for each in figures.duels(good[3:] + wrong + same[:39])] == [False, None]


def test_a_queue_counts_what_the_gpu_measures() -> None:
    run = {
        "job": "a",
        "verdict": "accepted",
        "waited_s": 0.0,
        "phases": {"import": 1.0, "replay/samples": 3.0},
    }
    found = {"kind": "queue", "jobs": 30, "wall_s": 120.0, "runs": [run] * 30}

    assert figures.queue([found])[0].passed is True
    assert figures.queue([{**found, "wall_s": 130.0}])[0].passed is False
