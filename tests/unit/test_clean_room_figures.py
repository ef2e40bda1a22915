"""What ``scripts/show/clean-room`` makes of stored lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import clean_room_figures as figures


def line(name: str, score_ns: float = 20_000.0, **changes: Any) -> dict[str, Any]:
    """A stored line of a ranked job that was replayed."""
    case = {"timing": {"audit": {"score_ns": score_ns, "level": "replayed"}}}
    stage = {"name": "ranked", "duration_s": 3.0, "cases": [case]}
    report = {"verdict": "accepted", "stages": [stage]}
    values = {"name": name, "mode": "leaderboard", "start": "warm", "expected": "replayed", "seconds": 4.0}
    return {**values, "clean_room": {"replayed": True}, "report": report, **changes}


def test_nothing_is_shown_without_lines() -> None:
    for figure in (figures.replayed, figures.called, figures.scatter, figures.seconds, figures.attacks):
        assert [each.passed for each in figure([])] == [None] * len(figure([]))


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
