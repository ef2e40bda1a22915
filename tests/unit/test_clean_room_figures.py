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


def test_a_kind_that_was_called_fails() -> None:
    (shown,) = figures.replayed([line("triton", clean_room={"replayed": False, "reason": "stale"})])

    assert (shown.passed, shown.figure) == (False, "1 kinds, at least 1 runs each; not: triton (stale)")


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


def test_an_attack_that_wins_a_duel_fails() -> None:
    assert figures.attacks([attack("v35", 1.0, duel="tied")])[3].passed is True
    for won in ("faster", "rival_failed"):
        assert figures.attacks([attack("v35", 1.0, duel=won)])[3].passed is False


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
